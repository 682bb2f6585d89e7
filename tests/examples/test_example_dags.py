"""Every DAG of examples/dags does what its docstring promises, without a database and through the real service."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.example_facts import DAG_IDS, FILES, FOLDER, NOT_SUCCESS

TASKS = {
    "asset_watcher": 1,
    "assets_alert": 1,
    "assets_customers": 1,
    "asset_checks": 3,
    "asset_checks_report": 1,
    "assets_nightly": 1,
    "assets_orders": 1,
    "assets_report": 1,
    "assets_summary": 1,
    "async_fan_out": 101,
    "bash": 3,
    "branching": 6,
    "callbacks": 2,
    "clock_branches": 6,
    "custom_timetable": 1,
    "deferrable": 5,
    "etl_taskflow": 3,
    "every_minute": 2,
    "executors": 3,
    "mapping": 21,
    "nightly": 2,
    "notifiers": 1,
    "other_interpreters": 3,
    "params": 2,
    "partitions_day": 1,
    "partitions_load": 1,
    "partitions_region": 1,
    "pool": 8,
    "retries": 2,
    "sensor": 3,
    "setup_teardown": 5,
    "short_circuit": 3,
    "since_last_success": 2,
    "slas": 2,
    "sql": 3,
    "standard_sensors": 8,
    "start_from_trigger": 6,
    "task_groups": 8,
    "trigger_dag": 3,
    "trigger_dag_target": 2,
    "variables": 3,
}
TRIES = {"retries": {"flaky": 3}, "callbacks": {"second_time_lucky": 2}}


def aiosched(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in `cwd`, without the settings of whoever runs the tests."""
    return subprocess.run(
        [sys.executable, "-m", "aiosched", *arguments],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if not name.startswith("AIOSCHED")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_example_is_known_here() -> None:
    assert set(DAG_IDS) == set(TASKS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_an_example_says_what_it_shows_and_whether_it_catches_up(file: Path) -> None:
    """Section 34, decision 2."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    given = {keyword.arg for node in ast.walk(tree) if isinstance(node, ast.Call) for keyword in node.keywords}

    assert len((ast.get_docstring(tree) or "").splitlines()) >= 3
    assert {"schedule", "start_date", "catchup"} <= given


def test_all_examples_parse_without_an_error_or_a_warning(tmp_path: Path) -> None:
    done = aiosched("dags", "check", str(FOLDER), "-o", "json", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


QUICK = ("etl_taskflow", "mapping")  # the service runs all of them: test_example_service.py


@pytest.mark.parametrize(
    "dag_id", [pytest.param(dag_id, marks=() if dag_id in QUICK else pytest.mark.slow) for dag_id in DAG_IDS]
)
def test_an_example_runs_in_one_process_without_a_database(dag_id: str, tmp_path: Path) -> None:
    done = aiosched("dags", "test", dag_id, "--dags", str(FOLDER), "-o", "json", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["state"] == "success"
    assert len(result["tasks"]) == TASKS[dag_id]
    assert {t["task_id"]: t["state"] for t in result["tasks"] if t["state"] != "success"} == NOT_SUCCESS.get(dag_id, {})
    assert {t["task_id"]: t["try_number"] for t in result["tasks"] if t["try_number"] > 1} == TRIES.get(dag_id, {})
