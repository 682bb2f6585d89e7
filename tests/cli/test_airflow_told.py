"""What commands say of DAG files that import `airflow`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli

FILE = """
from airflow import DAG
from airflow.operators.bash import BashOperator
with DAG("old", start_date="2026-01-01", schedule_interval="@daily"):
    BashOperator(task_id="t", bash_command="true", resources={"cpus": 1})
"""


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "old.py").write_text(FILE)
    return folder


def test_next_says_whose_defaults_the_dag_has(cli: Cli, dags: Path) -> None:
    result = cli("dags", "next", "old", "--dags", "dags", "-n", "1")

    assert "old has the defaults of Airflow 2: see core.airflow_defaults" in result.stderr


def test_check_shows_what_has_no_effect(cli: Cli, dags: Path) -> None:
    result = cli("dags", "check", "--dags", "dags")

    assert "'resources' has no effect" in result.output


def test_a_test_run_works_without_airflow(cli: Cli, dags: Path) -> None:
    assert "success" in cli("dags", "test", "old", "--dags", "dags").output


@pytest.mark.parametrize(
    ("setting", "answer"),
    [("compat", "is answered by aiosched"), ("off", "is answered by nobody: core.airflow is off")],
)
def test_the_doctor_says_who_answers(
    cli: Cli, dags: Path, monkeypatch: pytest.MonkeyPatch, setting: str, answer: str
) -> None:
    monkeypatch.setenv("AIOSCHED__CORE__AIRFLOW", setting)

    [finding] = [found for found in cli.json("doctor", code=1) if found["check"] == "airflow"]
    assert answer in finding["text"]
