"""Files in the words of Airflow 1.10, 2 and 3, and what their runs do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aiosched.errors import DagError
from aiosched.executors.dag_test import run_dag_test
from tests.airflow.airflow_builders import load, one_dag

DATE = datetime(2026, 3, 1, tzinfo=UTC)

AIRFLOW_1 = """
from datetime import timedelta
import airflow
from airflow.models import DAG, Variable
from airflow.operators.bash_operator import BashOperator
from airflow.operators.dummy_operator import DummyOperator
from airflow.operators.python_operator import BranchPythonOperator, PythonOperator
from airflow.utils.trigger_rule import TriggerRule

args = {"owner": "airflow", "start_date": airflow.utils.dates.days_ago(20_000), "provide_context": True}
dag = DAG(dag_id="old", default_args=args, schedule_interval="0 0 * * *", dagrun_timeout=timedelta(minutes=60),
          concurrency=4, default_view="graph")

def told(ds, execution_date, **kwargs):
    return f"{ds} {kwargs['tomorrow_ds']} {execution_date.isoformat()}"

first = DummyOperator(task_id="first", dag=dag)
tell = PythonOperator(task_id="tell", python_callable=told, provide_context=True, dag=dag)
branch = BranchPythonOperator(task_id="branch", python_callable=lambda **_: "yes", dag=dag)
yes = BashOperator(task_id="yes", bash_command="echo {{ yesterday_ds_nodash }} {{ execution_date.day }}", dag=dag)
no = BashOperator(task_id="no", bash_command="false", dag=dag)
last = DummyOperator(task_id="last", trigger_rule=TriggerRule.ONE_SUCCESS, dag=dag)
first >> tell >> branch
branch >> [yes, no] >> last
"""

AIRFLOW_2 = """
from datetime import datetime
from airflow import DAG
from airflow.datasets import Dataset
from airflow.decorators import task
from airflow.models.baseoperator import chain
from airflow.operators.bash import BashOperator
from airflow.operators.empty import EmptyOperator
from airflow.operators.python import get_current_context
from airflow.utils.edgemodifier import Label
from airflow.utils.task_group import TaskGroup

out = Dataset("s3://bucket/out")
with DAG("middle", start_date=datetime(2026, 1, 1), schedule="@daily", tags=["a"]) as dag:
    @task
    def numbers():
        return [1, 2, 3]

    @task(outlets=[out])
    def total(values, next_ds=None):
        return [sum(values), next_ds, get_current_context()["prev_ds"]]

    with TaskGroup("group") as group:
        bash = BashOperator(task_id="bash", bash_command="echo {{ prev_ds }} {{ next_ds }}")
    end = EmptyOperator(task_id="end")
    summed = total(numbers())
    chain(summed, group, end)
    group >> Label("done") >> EmptyOperator(task_id="after")
"""

AIRFLOW_3 = """
import pendulum
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import Asset, DAG, Label, chain, dag, task
from airflow.sdk.exceptions import AirflowSkipException

@dag(schedule="@daily", start_date=pendulum.datetime(2026, 1, 1, tz="UTC"))
def new():
    @task
    def give() -> dict[str, int]:
        return {"a": 1}

    @task
    def skip():
        raise AirflowSkipException("not today")

    chain(give(), BashOperator(task_id="bash", bash_command="echo {{ ds }}"), skip())

new()
"""


async def states_of(folder: Path, code: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The states and return values of the tasks of the file's DAG, run once."""
    run = await run_dag_test(one_dag(folder, code), logical_date=DATE, pause=0.0)
    return (
        {task.task_id: str(task.state) for task in run.tasks},
        {task_id: found.get("return_value") for task_id, found in run.xcoms.items()},
    )


async def test_a_file_of_airflow_1_10(tmp_path: Path) -> None:
    states, values = await states_of(tmp_path, AIRFLOW_1)

    assert states == dict.fromkeys(("first", "tell", "branch", "yes", "last"), "success") | {"no": "skipped"}
    assert values["tell"] == "2026-03-01 2026-03-02 2026-03-01T00:00:00+00:00"
    assert values["yes"] == "20260228 1"


async def test_a_file_of_airflow_2(tmp_path: Path) -> None:
    states, values = await states_of(tmp_path, AIRFLOW_2)

    assert set(states.values()) == {"success"}
    assert values["total"][0] == 6


async def test_a_file_of_airflow_3(tmp_path: Path) -> None:
    states, values = await states_of(tmp_path, AIRFLOW_3)

    assert states == {"give": "success", "bash": "success", "skip": "skipped"}
    assert values["bash"] == "2026-03-01"


SUBDAG = """
from airflow import DAG
from airflow.operators.bash import BashOperator
from airflow.operators.subdag import SubDagOperator

def section(parent, child, args):
    inner = DAG(dag_id=f"{parent}.{child}", default_args=args, schedule_interval="@daily", start_date="2026-01-01")
    a = BashOperator(task_id="a", bash_command="echo a", dag=inner)
    a >> BashOperator(task_id="b", bash_command="echo b", dag=inner)
    return inner

with DAG("outer", schedule_interval=None) as dag:
    start = BashOperator(task_id="start", bash_command="true")
    part = SubDagOperator(task_id="section", subdag=section("outer", "section", {}), default_args={})
    start >> part >> BashOperator(task_id="end", bash_command="true")
"""


async def test_a_subdag_is_a_group_of_the_outer_dag(tmp_path: Path) -> None:
    dag = one_dag(tmp_path, SUBDAG)

    assert dag.task_ids == ["start", "section.a", "section.b", "end"]
    assert dag.task("section.b").upstream_task_ids == {"section.a"}
    assert dag.task("end").upstream_task_ids == {"section.b"}
    states, _ = await states_of(tmp_path, SUBDAG)
    assert set(states.values()) == {"success"}


@pytest.mark.parametrize("given", ["trigger_rule='all_done'", "default_args={'trigger_rule': 'all_done'}"])
async def test_the_first_tasks_of_a_subdag_have_the_rule_of_its_operator(tmp_path: Path, given: str) -> None:
    code = SUBDAG.replace("default_args={})", f"{given})").replace('"true")\n    part', '"false")\n    part')

    states, _ = await states_of(tmp_path, code)

    assert states == {"start": "failed", "section.a": "success", "section.b": "success", "end": "success"}


async def test_a_rule_in_a_subdag_does_not_look_beyond_it(tmp_path: Path) -> None:
    code = SUBDAG.replace('"echo a",', '"echo a", trigger_rule="one_failed",')

    states, _ = await states_of(tmp_path, code)

    assert set(states.values()) == {"success"}


NESTED = """
from airflow import DAG
from airflow.operators.bash import BashOperator
from airflow.operators.empty import EmptyOperator
from airflow.operators.subdag import SubDagOperator
from airflow.utils.task_group import TaskGroup

with DAG("outer.a.b", schedule_interval=None) as innermost:
    EmptyOperator(task_id="x") >> EmptyOperator(task_id="y")
with DAG("outer.a", schedule_interval=None) as inner:
    with TaskGroup("group") as group:
        EmptyOperator(task_id="one") >> EmptyOperator(task_id="two")
    group >> SubDagOperator(task_id="b", subdag=innermost)
with DAG("outer", schedule_interval=None) as dag:
    EmptyOperator(task_id="start") >> SubDagOperator(task_id="a", subdag=inner) >> EmptyOperator(task_id="end")
"""


async def test_subdags_and_groups_are_nested(tmp_path: Path) -> None:
    dag = one_dag(tmp_path, NESTED)

    waits = {task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks}
    assert waits == {
        "start": [], "a.group.one": ["start"], "a.group.two": ["a.group.one"], "a.b.x": ["a.group.two"],
        "a.b.y": ["a.b.x"], "end": ["a.b.y"],
    }  # fmt: skip
    assert sorted(dag.task_groups) == ["a", "a.b", "a.group"]
    assert list(dag.task_groups["a"].children) == ["a.group", "a.b"]
    states, _ = await states_of(tmp_path, NESTED)
    assert set(states.values()) == {"success"}


def test_a_dag_is_the_subdag_of_one_operator(tmp_path: Path) -> None:
    code = NESTED.replace('EmptyOperator(task_id="end")', 'SubDagOperator(task_id="again", subdag=inner)')

    with pytest.raises(DagError, match=r"'again': its subdag 'outer\.a' is another one's already"):
        load(tmp_path, code)


ORDER = """
from airflow import DAG
from airflow.operators.dagrun_operator import TriggerDagRunOperator

def choose(context, order):
    order.payload = {"from": context["task"].task_id}
    return order if context["dag_run"].conf.get("go") else None

with DAG("d", schedule_interval=None) as dag:
    TriggerDagRunOperator(task_id="t", trigger_dag_id="other", python_callable=choose)
"""


async def test_the_function_of_a_trigger_may_start_no_run(tmp_path: Path) -> None:
    states, _ = await states_of(tmp_path, ORDER)

    assert states == {"t": "skipped"}


@pytest.mark.parametrize(
    ("schedule", "run_type", "expected"),
    [
        ("'0 6 * * MON'", "scheduled", ("2026-03-02", "2026-02-23")),
        ("'@monthly'", "scheduled", ("2026-04-01", "2026-02-01")),
        ("None", "scheduled", ("2026-03-01", "2026-03-01")),
        ("'@daily'", "manual", ("2026-03-01", "2026-03-01")),
        ("'@daily'", "test", ("2026-03-02", "2026-02-28")),
        ("'@daily'", "scheduled", ("2026-03-02", "2026-02-28")),
    ],
)
def test_the_neighbours_of_the_logical_date(
    tmp_path: Path, schedule: str, run_type: str, expected: tuple[str, str]
) -> None:
    from aiosched.airflow.context import VALUES
    from aiosched.authoring.runtime.context import Context
    from aiosched.core.values.messages import RunInfo

    dag = one_dag(
        tmp_path, f"from airflow import DAG\ndag = DAG('d', schedule_interval={schedule}, start_date='2026-01-01')"
    )
    start = DATE.replace(hour=6) if "MON" in schedule else DATE
    end = dag.timetable.manual_interval(start).end if schedule == "None" else _end(dag, start)
    run = RunInfo(
        key=1, dag_id="d", run_id="r", run_type="manual" if run_type == "test" else run_type, run_after=end,
        logical_date=start, interval_start=start, interval_end=end, is_test=run_type == "test",
    )  # fmt: skip
    context = Context({"dag": dag}, VALUES, run)

    assert (context["next_ds"], context["prev_ds"]) == expected


def _end(dag: Any, start: datetime) -> datetime:
    from aiosched.core.timetables import Restriction

    run = dag.timetable.next_run(last=None, restriction=Restriction(start, None, catchup=True), now=start)
    return run.interval.end if run.interval.start == start else run.interval.start


def test_a_teams_tests_may_replace_how_a_subdag_operator_checks_its_pool() -> None:
    code = (
        "from unittest.mock import patch\nfrom airflow.operators.subdag import SubDagOperator\n"
        "with patch.object(SubDagOperator, '_validate_pool', return_value=None): ...\n"
    )

    exec(code, {})
