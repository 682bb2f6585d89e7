"""The names that Airflow has for these features lead to the same objects."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import aiosched
from aiosched.airflow.finder import install
from aiosched.authoring.dag.loader import load_file

USES = """
from airflow.plugins_manager import AirflowPlugin
from airflow.listeners import hookimpl
from airflow.sdk import DAG, ExceptionRetryPolicy, RetryAction, RetryRule, task
from airflow.providers.standard.operators.python import BranchPythonVirtualenvOperator
from airflow.providers.standard.sensors.external_task import ExternalTaskMarker
from airflow.task.priority_strategy import PriorityWeightStrategy

class Decreasing(PriorityWeightStrategy):
    def get_weight(self, ti):
        return max(3 - ti.try_number + 1, 1)

class Mine(AirflowPlugin):
    name = "mine"
    priority_weight_strategies = [Decreasing]

with DAG("d") as dag:
    ExternalTaskMarker(task_id="m", external_dag_id="o", external_task_id="t", weight_rule=Decreasing())

    @task.skip_if(lambda context: False)
    @task(retry_policy=ExceptionRetryPolicy(rules=[RetryRule(exception=KeyError, action=RetryAction.FAIL)]))
    def work(task_state_store=None): ...

    work()
"""


@pytest.fixture(autouse=True)
def compat() -> None:
    install("compat")


def test_the_classes_are_the_same_objects() -> None:
    assert import_module("airflow.plugins_manager").AirflowPlugin is aiosched.Plugin
    assert import_module("airflow.sdk").RetryRule is aiosched.RetryRule


def test_a_file_that_uses_them_is_read(tmp_path: Path) -> None:
    file = tmp_path / "d.py"
    file.write_text(USES)

    loaded = load_file(file, root=tmp_path)

    assert [task.task_id for task in loaded.dags[0].tasks] == ["m", "work"]
    assert loaded.warnings == []


def test_a_plugin_that_is_written_for_airflow_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(USES)

    out = subprocess.run(
        [sys.executable, "-m", "aiosched.parsing.plugin_report", str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert '"mine"' in out.stdout
    assert '"is_error": true' not in out.stdout
