"""A real Airflow in the same environment as aiosched: who answers `import airflow`, and what each setting does.

Runs if AIOSCHED_TEST_BESIDE_AIRFLOW names a virtual environment with Airflow 3, of which it takes a copy, or if
AIOSCHED_NIGHTLY is set: then it makes one, in which both are installed together.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

GIVEN: Final = os.environ.get("AIOSCHED_TEST_BESIDE_AIRFLOW")
AIRFLOW: Final = ["apache-airflow==3.3.2", "apache-airflow-providers-standard", "apache-airflow-providers-common-sql"]
ROOT: Final = Path(__file__).parents[2]

# Airflow's DAG: an operator and a hook of installed provider packages.
THEIRS: Final = """
from datetime import datetime

from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, BaseHook, task

with DAG("sales", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False):
    @task
    def packages() -> str:
        assert issubclass(DbApiHook, BaseHook)
        return f"{BashOperator.__module__} {BaseHook.__module__}"

    BashOperator(
        task_id="check",
        bash_command="test '{{ ti.xcom_pull(task_ids='packages') }}' = "
        "'airflow.providers.standard.operators.bash aiosched.authoring.runtime.hooks'",
    ) << packages()
"""
# aiosched's DAG, whose task uses a hook of a provider package with the Airflow that answers.
OURS: Final = """
from aiosched import DAG, task

with DAG("own"):
    @task
    def classes(expected):
        from airflow.providers.common.sql.hooks.sql import DbApiHook
        from airflow.sdk import BaseHook

        assert issubclass(DbApiHook, BaseHook)
        assert BaseHook.__module__.partition(".")[0] == expected, BaseHook.__module__

    classes("{{ dag_run.conf.expected }}")
"""

pytestmark = [
    pytest.mark.skipif(
        not GIVEN and "AIOSCHED_NIGHTLY" not in os.environ,
        reason="AIOSCHED_TEST_BESIDE_AIRFLOW names no environment with Airflow",
    ),
    pytest.mark.timeout(1800),
]


class Beside:
    """An environment with both, and a DAGs folder with a file of each."""

    def __init__(self, environment: Path, home: Path) -> None:
        self.airflow = next(environment.glob("lib/python*/site-packages/airflow"))
        self._python, self._home = environment / "bin" / "python", home
        (home / "dags").mkdir(parents=True)
        (home / "dags" / "theirs.py").write_text(THEIRS)
        (home / "dags" / "own.py").write_text(OURS)

    def run(self, mode: str, *words: str) -> Any:
        """What a command of aiosched prints as JSON, where `core.airflow` is `mode`."""
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AIRFLOW"))},
            "HOME": str(self._home),
            "AIRFLOW_HOME": str(self._home / "airflow"),
            "AIOSCHED_HOME": str(self._home / "aiosched"),
            "AIOSCHED_DAGS": str(self._home / "dags"),
            "AIOSCHED__CORE__AIRFLOW": mode,
            "AIOSCHED__CORE__DAGBAG_IMPORT_TIMEOUT": "300",  # a whole Airflow is imported
        }
        command = [str(self._python), "-m", "aiosched", *words, "-o", "json"]
        done = subprocess.run(command, env=env, cwd=self._home, capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def requirements(self) -> str:
        """What pip says about the requirements of all packages of the environment."""
        return self._pip("check")

    def _pip(self, *words: str) -> str:
        return subprocess.run([str(self._python), "-m", "pip", *words], capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with Airflow and this aiosched."""
    folder = tmp_path_factory.mktemp("beside") / "environment"
    if GIVEN:
        shutil.copytree(GIVEN, folder, symlinks=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, *([] if GIVEN else AIRFLOW), "-e", str(ROOT)], check=True)
    return folder


@pytest.fixture
def beside(environment: Path, tmp_path: Path) -> Beside:
    return Beside(environment, tmp_path)


def test_their_requirements_fit_together(beside: Beside) -> None:
    assert "No broken requirements found." in beside.requirements()


def test_aiosched_answers_unless_the_setting_says_otherwise(beside: Beside) -> None:
    checked = {file["file"]: file for file in beside.run("compat", "dags", "check")}
    theirs = beside.run("compat", "dags", "test", "sales", "2026-01-05")
    ours = beside.run("compat", "dags", "test", "own", "--conf", '{"expected": "aiosched"}')

    assert (checked["theirs.py"]["dags"], checked["theirs.py"]["warnings"]) == (["sales"], [])
    assert theirs["state"] == "success"
    assert ours["state"] == "success"
    assert f"by aiosched (there is also an Airflow in {beside.airflow})" in doctor_says(beside, "compat")


@pytest.mark.parametrize("mode", ["installed", "off"])
def test_the_installed_airflow_answers_where_the_setting_says_so(beside: Beside, mode: str) -> None:
    checked = {file["file"]: file for file in beside.run(mode, "dags", "check")}
    ours = beside.run(mode, "dags", "test", "own", "--conf", '{"expected": "airflow"}')

    assert checked["own.py"]["dags"] == ["own"]
    assert checked["theirs.py"]["dags"] == [], "they are objects of Airflow"
    assert any("run only there" in warning for warning in checked["theirs.py"]["warnings"])
    assert ours["state"] == "success"
    assert f"by the Airflow in {beside.airflow}" in doctor_says(beside, mode)


def doctor_says(beside: Beside, mode: str) -> str:
    """Who answers, as `doctor` says; without a database it finds an error about that."""
    [text] = [finding["text"] for finding in beside.run(mode, "doctor") if finding["check"] == "airflow"]
    return str(text)
