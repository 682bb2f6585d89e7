"""Attributes of DAGs, runs, task instances and the context that code of Airflow 1.10 and 2 reads."""

from __future__ import annotations

import ast
import json
import logging
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from aiosched import Asset, Connection
from aiosched.airflow.context import DatasetEvents
from aiosched.airflow.objects import processes
from aiosched.airflow.objects.encoders import WebEncoder
from aiosched.authoring.assets.asset_events import AssetEvent, TriggeringAssetEvents
from aiosched.authoring.runtime.task_instance import TaskInstance
from aiosched.errors import Refused
from aiosched.executors.dag_test import TestRun
from tests.airflow.airflow_builders import load, one_dag

HEAD = """
import sys
from datetime import datetime, timedelta
from airflow import DAG, macros
from airflow.operators.python_operator import PythonOperator

START = datetime(2024, 1, 1)
"""


def dag_of(folder: Path, function: str, options: str = "", head: str = HEAD) -> Any:
    """A DAG with one task `t` that calls the function `f`."""
    code = f"{head}\n{function}\nwith DAG('d', start_date=START, schedule=None, catchup=False) as dag:\n"
    return one_dag(folder, code + f"    PythonOperator(task_id='t', python_callable=f{options})\n")


def run_of(folder: Path, function: str, options: str = "", head: str = HEAD) -> TestRun:
    run: TestRun = dag_of(folder, function, options, head).test()  # no loop runs here
    return run


def told(run: TestRun) -> Any:
    return run.xcoms["t"]["return_value"]


def test_a_dag_is_tested_from_a_plain_function_with_names_of_airflow(tmp_path: Path) -> None:
    dag = dag_of(tmp_path, "def f(ds, dag_run): return [ds, dag_run.conf]")

    run = dag.test(execution_date=datetime(2024, 5, 1, tzinfo=UTC), run_conf={"a": 1}, session=None)

    assert (run.state, told(run)) == ("success", ["2024-05-01", {"a": 1}])


async def test_on_a_loop_it_is_awaited(tmp_path: Path) -> None:
    assert (await dag_of(tmp_path, "def f(): return 1").test()).state == "success"


def test_what_a_task_reads_of_its_instance_and_run(tmp_path: Path) -> None:
    run = run_of(
        tmp_path,
        """
def f(ti, dag_run, **context):
    assert ti.current_state() == ti.state == "running"
    assert (ti.next_try_number, ti.prev_attempted_tries, ti.job_id, ti.task_display_name) == (2, 1, None, "t")
    assert ti.unixname and ti.executor_config == {}
    assert dag_run.get_dag() is context["dag"] and dag_run.end_date is None
    assert dag_run.get_previous_dagrun() is None and dag_run.get_previous_dagrun(state="success") is None
    assert macros.yaml.safe_load("a: 1") == {"a": 1}
    assert context["expanded_ti_count"] is context["templates_dict"] is None
    assert context["prev_start_date_success"] is context["prev_execution_date_success"] is None
    return [ti.pool, ti.pool_slots, ti.priority_weight, ti.task.owner]
""",
        ", pool='p', pool_slots=2, priority_weight=7",
    )

    assert told(run) == ["p", 2, 7, "airflow"]


def test_entries_of_the_context_are_mappings_where_airflow_has_mappings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_A", '{"b": 2}')
    monkeypatch.setenv("AIRFLOW_CONN_C", "http://h")
    run = run_of(
        tmp_path,
        """
def f(**context):
    var, conn = context["var"], context["conn"]
    assert set(var) == {"value", "json"} and var["value"] is var.value and var.get("json") is var.json
    assert var["value"].get("none", "x") == "x" and var["json"]["a"] == {"b": 2}
    assert conn["c"].host == conn.get("c").host == "h"
    assert dict(context["triggering_asset_events"]) == dict(context["triggering_dataset_events"]) == {}
    assert dict(context["inlet_events"]) == dict(context["outlet_events"]) == {}
    assert context["outlet_events"].get("none") is None and list(context["inlet_events"].keys()) == []
    assert dict(context["params"]) == {} and context["params"].get("x", 3) == 3
    return context["task"].render_template("{{ var.json.a.b }} {{ var['value'].a }} {{ macros.yaml.dump(1) }}", context)
""",
    )

    assert told(run).split() == ["2", '{"b":', "2}", "1", "..."]


@pytest.mark.parametrize(
    ("function", "which", "state"),
    [
        ("def f(): raise ValueError", "on_failure_callback", "failed"),
        ("def f(): return 1", "on_success_callback", "success"),
        ("def f(): raise ValueError", "retries=1, on_retry_callback", "up_for_retry"),
        (
            "from airflow.exceptions import AirflowSkipException as S\ndef f(): raise S",
            "on_skipped_callback",
            "skipped",
        ),
    ],
)
def test_callbacks_see_a_task_instance_that_has_ended(tmp_path: Path, function: str, which: str, state: str) -> None:
    seen = tmp_path / "seen"
    code = f"""
def told(context):
    ti = context["ti"]
    with open({str(seen)!r}, "w") as file:
        file.write(repr((ti.state, ti.current_state(), ti.end_date >= ti.start_date, ti.duration >= 0)))
{function}
"""
    run_of(tmp_path, code, f", {which}=told, retry_delay=timedelta(0)")

    assert ast.literal_eval(seen.read_text()) == (state, state, True, True)


SDK = """
import sys
from airflow.sdk import DAG
from airflow.providers.standard.operators.python import PythonOperator

START = "2024-01-01"
"""


@pytest.mark.parametrize(
    ("exits", "head", "state"),
    [
        ("sys.exit(0)", HEAD, "success"),
        ("sys.exit()", HEAD, "success"),
        ("sys.exit(3)", HEAD, "failed"),
        ("sys.exit('no')", HEAD, "failed"),
        ("sys.exit(0)", SDK, "failed"),
        ("sys.exit(0)", HEAD + "import aiosched\n", "failed"),
    ],
)
async def test_an_exit_without_a_code_is_a_success_in_files_of_airflow_2(
    tmp_path: Path, exits: str, head: str, state: str
) -> None:
    assert (await dag_of(tmp_path, f"def f(): {exits}", head=head).test()).state == state


def test_attributes_of_dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dag = dag_of(tmp_path, "def f(): return 1")

    assert (dag.is_subdag, dag.parent_dag, dag.subdags, dag.concurrency) == (False, None, [], 16)
    assert (str(dag.relative_fileloc), dag.full_filepath) == ("file.py", str(tmp_path / "file.py"))
    assert dag.sub_dag(["t"]).task_ids == ["t"]
    assert dag.clear(start_date=None) == 0
    assert dag.owner == "airflow"


def test_the_next_run_of_a_schedule(tmp_path: Path) -> None:
    dag = one_dag(tmp_path, HEAD + "with DAG('d', start_date=START, end_date=datetime(2024, 1, 3)) as dag: ...\n")

    first = dag.next_dagrun_info(None)
    assert first is not None
    assert (first.logical_date.day, first.run_after.day, first.data_interval.end.day) == (1, 2, 2)
    assert dag.next_dagrun_info(first.data_interval).logical_date.day == 2
    assert dag.next_dagrun_info(datetime(2024, 1, 2, tzinfo=UTC)).logical_date.day == 3
    assert dag.next_dagrun_info(datetime(2024, 1, 3, tzinfo=UTC)) is None
    assert dag.next_dagrun_info(datetime(2024, 1, 3, tzinfo=UTC), restricted=False).logical_date.day == 4
    runs = dag.iter_dagrun_infos_between(None, datetime(2024, 1, 2, tzinfo=UTC))
    assert [run.logical_date.day for run in runs] == [1, 2]


def test_events_of_datasets_are_named_by_their_uris() -> None:
    asset = Asset("sales", uri="s3://raw/sales")
    event = AssetEvent(asset, datetime(2024, 1, 1, tzinfo=UTC), {"rows": 1})
    by_asset = TriggeringAssetEvents(is_asset_run=True)
    by_asset._loaded = {asset: [event]}
    events = DatasetEvents(by_asset)

    assert {uri: found[0].dataset for uri, found in events.items()} == {"s3://raw/sales": asset}
    assert events["s3://raw/sales"] == events[asset] == by_asset[asset] == [event]
    assert (len(events), "s3://raw/sales" in events, events.get("s3://other", [])) == (1, True, [])


def test_functions_ask_which_dag_and_group_are_being_built(tmp_path: Path) -> None:
    code = """
from airflow.datasets import Dataset
from airflow.lineage.entities import File
from airflow.models.dag import DagContext
from airflow.utils.task_group import TaskGroup, TaskGroupContext

assert DagContext.get_current_dag() is None
with DAG('d', start_date=START) as dag:
    assert DagContext.get_current_dag() is dag
    assert TaskGroupContext.get_current_task_group(dag).group_id is None
    with TaskGroup('g') as group:
        assert TaskGroupContext.get_current_task_group(None) is group
        PythonOperator(task_id='t', python_callable=print, inlets=[File('a'), Dataset('s3://c')], outlets=File('b'))
other = DAG('o', start_date=START)
DagContext.push_context_managed_dag(other)
assert DagContext.get_current_dag() is other and DagContext.pop_context_managed_dag() is other
assert DagContext.get_current_dag() is None
"""
    loaded = load(tmp_path, HEAD + code)
    dag = loaded.dags[0]

    assert dag.test().state == "success"
    assert (len(dag.get_task("g.t").inlets), dag.get_task("g.t").outlets) == (1, [])
    assert sum("lineage is not collected" in warning for warning in loaded.warnings) == 2


def test_values_that_json_has_not_are_written() -> None:
    values = {"at": datetime(2024, 1, 1), "on": date(2024, 1, 1), "n": Decimal("1.50"), "b": b"x", "o": {1}}  # noqa: DTZ001

    assert json.loads(json.dumps(values, cls=WebEncoder)) == {
        "at": "2024-01-01T00:00:00+00:00", "on": "2024-01-01", "n": 1.5, "b": "x", "o": "{1}",
    }  # fmt: skip


def test_a_virtual_environment_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []
    monkeypatch.setattr(processes, "execute_in_subprocess", ran.append)

    assert processes.prepare_virtualenv("/v", "python3", True, ["a==1"], None, ["-q"]) == "/v/bin/python"
    assert ran == [
        ["python3", "-m", "venv", "/v", "--system-site-packages"],
        ["/v/bin/python", "-m", "pip", "install", "-q", "a==1"],
    ]
    with pytest.raises(ValueError, match="exclude each other"):
        processes.prepare_virtualenv("/v", "python3", False, ["a"], "r.txt")


def test_a_task_cannot_clear(tmp_path: Path) -> None:
    run = run_of(tmp_path, "def f(dag): dag.clear()")

    assert run.state == "failed"
    assert Refused.__name__ in (run.tasks[0].details or "")


@pytest.mark.parametrize("extra", ["not json", "[1]", '"text"'])
def test_extras_that_are_no_json_object_are_none_with_a_warning(extra: str, caplog: pytest.LogCaptureFixture) -> None:
    connection = Connection("c", "http", host="h", extra=extra)

    with caplog.at_level(logging.WARNING):
        assert connection.extra_dejson == connection.get_extra_dejson() == {}
    assert connection.extra == extra
    assert connection.get_uri() == "http://h"
    assert "the extra of the connection c is no JSON object" in caplog.text
    assert connection.to_dict()["extra"] == {}
    assert "not json" not in repr(connection)


def test_a_task_instance_has_no_end_while_it_runs() -> None:
    assert (TaskInstance.state, TaskInstance.end_date, TaskInstance.duration) == ("running", None, None)
