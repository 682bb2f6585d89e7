"""The tables of Airflow's names are in the wheel, and an installed aiosched answers with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aiosched.airflow.tables import MODULES

ROOT = Path(__file__).parents[2]
ASK = """
import sys
sys.path.insert(0, sys.argv[1])
from aiosched.airflow import tables
from aiosched.airflow.finder import install
install("compat")
from airflow.sdk import DAG
print(tables.__file__, sum(map(len, tables.MODULES.values())), DAG.__module__)
try:
    from airflow.contrib.operators.bigquery_operator import BigQueryOperator
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_wheel_that_is_installed_answers_airflow(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation"]
    site = tmp_path / "site"

    subprocess.run([*pip, "wheel", *offline, "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("aiosched-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    asked = subprocess.run(
        [sys.executable, "-c", ASK, str(site)], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    names, hint = asked.stdout.splitlines()
    assert names.split() == [
        str(site / "aiosched" / "airflow" / "tables" / "__init__.py"),
        str(sum(map(len, MODULES.values()))),
        "aiosched.authoring.dag.dag",
    ]
    assert "`aiosched providers install apache-airflow-providers-google==" in hint
