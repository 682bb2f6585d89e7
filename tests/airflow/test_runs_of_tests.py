"""Tests of Airflow projects: `dag.create_dagrun`, `TaskInstance(task, …).run()` and `task.run()` of all generations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiosched.errors import Refused
from tests.airflow.airflow_builders import one_dag

HEAD = """
from datetime import datetime, timedelta
import pendulum
from airflow import DAG
from airflow.exceptions import AirflowException, AirflowSkipException
from airflow.models import BaseOperator
from airflow.operators.bash import BashOperator
from airflow.operators.python import BranchPythonOperator, PythonOperator
from airflow.sensors.base import BaseSensorOperator

class Copy(BaseOperator):
    template_fields = ("path",)
    def __init__(self, path="{{ ds }}", fails=None, **kwargs):
        super().__init__(**kwargs)
        self.path, self.fails = path, fails
    def execute(self, context):
        if self.fails is not None:
            raise self.fails
        context["ti"].xcom_push(key="seen", value=context["run_id"])
        return self.path
"""


def dag_of(tmp_path: Path, *lines: str, options: str = "schedule_interval='@daily', catchup=False") -> Any:
    code = f"with DAG('d', start_date=datetime(2024, 1, 1), {options}) as dag:\n"
    return one_dag(tmp_path, HEAD + code + "".join(f"    {line}\n" for line in lines))


def names() -> tuple[Any, Any, Any]:
    from airflow.models import DagRun, TaskInstance  # type: ignore[import-not-found]
    from airflow.utils.state import DagRunState  # type: ignore[import-not-found]

    return TaskInstance, DagRun, DagRunState


def test_the_test_of_the_documentation_of_airflow_2(tmp_path: Path) -> None:
    dag = dag_of(tmp_path, "Copy(task_id='copy')")
    TaskInstance, DagRun, DagRunState = names()
    from airflow.utils.types import DagRunType  # type: ignore[import-not-found]
    from pendulum import datetime as moment

    start = moment(2021, 9, 13)
    dagrun = dag.create_dagrun(
        state=DagRunState.RUNNING,
        execution_date=start,
        data_interval=(start, start.add(days=1)),
        start_date=start.add(days=1),
        run_type=DagRunType.MANUAL,
    )
    ti = dagrun.get_task_instance(task_id="copy")
    ti.task = dag.get_task(task_id="copy")
    ti.run(ignore_ti_state=True)

    assert ti.state == "success"
    assert ti.xcom_pull(task_ids="copy") == "2021-09-13"
    assert ti.xcom_pull(task_ids="copy", key="seen") == dagrun.run_id
    assert ti.task.path == "2021-09-13"
    assert isinstance(ti, TaskInstance)
    assert isinstance(dagrun, DagRun)
    assert (ti.dag_run, ti.get_dagrun()) == (dagrun, dagrun)


@pytest.mark.parametrize("given", [{"execution_date": "2024-02-01"}, {"run_id": "mine"}, {}])
def test_an_instance_of_a_task_is_made_and_run(tmp_path: Path, given: dict[str, Any]) -> None:
    import pendulum

    dag = dag_of(tmp_path, "Copy(task_id='copy', path='{{ run_id }}')")
    TaskInstance, _, _ = names()
    given = {name: pendulum.parse(text) if name == "execution_date" else text for name, text in given.items()}
    ti = TaskInstance(dag.get_task("copy"), **given)
    assert ti.state is None

    ti.run()

    assert ti.current_state() == "success"
    assert ti.xcom_pull("copy") == ti.run_id
    assert given.get("run_id", ti.run_id) == ti.run_id


def test_an_error_is_raised_and_its_state_left(tmp_path: Path) -> None:
    dag = dag_of(
        tmp_path,
        "Copy(task_id='fails', fails=KeyError('rows'))",
        "Copy(task_id='retries', fails=AirflowException('later'), retries=2)",
        "Copy(task_id='skips', fails=AirflowSkipException('none'))",
    )
    from airflow.exceptions import AirflowException  # type: ignore[import-not-found]

    run = dag.create_dagrun()
    with pytest.raises(KeyError, match="rows"):
        run.get_task_instance("fails").run()
    retries = run.get_task_instance("retries")
    for number in (1, 2, 3):
        with pytest.raises(AirflowException, match="later"):
            retries.run()
        assert (retries.try_number, retries.state) == (number, "failed" if number == 3 else "up_for_retry")
    run.get_task_instance("skips").run()

    assert {one.task_id: one.state for one in run.get_task_instances()} == {
        "fails": "failed", "retries": "failed", "skips": "skipped",
    }  # fmt: skip
    assert [one.task_id for one in run.get_task_instances(state=["skipped"])] == ["skips"]
    run.update_state()
    assert run.state == "failed"


def test_values_go_from_task_to_task(tmp_path: Path) -> None:
    dag = dag_of(
        tmp_path,
        "first = PythonOperator(task_id='first', python_callable=lambda ti: ti.xcom_push('n', [1, {'a': 2}]))",
        "PythonOperator(task_id='second', python_callable=lambda rows: rows, op_args=[first.output])",
        "PythonOperator(task_id='third', python_callable=lambda ti: ti.xcom_pull(['first', 'given'], key='n'))",
        "PythonOperator(task_id='given', python_callable=print)",
    )
    TaskInstance, _, _ = names()
    run = dag.create_dagrun(run_id="r")
    run.get_task_instance("first").run()
    run.get_task_instance("given").xcom_push(key="n", value=(3, 4))
    third = TaskInstance(task=dag.get_task("third"), run_id="r")
    third.run()

    assert third.xcom_pull(task_ids="third") == [[1, {"a": 2}], (3, 4)]


def test_what_a_sensor_and_a_deferred_task_leave(tmp_path: Path) -> None:
    dag = dag_of(
        tmp_path,
        "class Never(BaseSensorOperator):",
        "    def poke(self, context): return False",
        "Never(task_id='sensor', mode='reschedule', poke_interval=1)",
        "from airflow.sensors.date_time import DateTimeSensorAsync",
        "DateTimeSensorAsync(task_id='deferred', target_time='2999-01-01T00:00:00+00:00')",
    )
    run = dag.create_dagrun()
    for task_id, state in (("sensor", "up_for_reschedule"), ("deferred", "deferred")):
        run.get_task_instance(task_id).run()
        assert run.get_task_instance(task_id).state == state


@pytest.mark.parametrize("on_a_loop", [False, True])
def test_a_coroutine_runs_wherever_the_test_is(tmp_path: Path, on_a_loop: bool) -> None:
    import asyncio

    dag = dag_of(
        tmp_path,
        "from airflow.decorators import task",
        "@task",
        "async def work():",
        "    import asyncio",
        "    await asyncio.sleep(0)",
        "    return 7",
        "work()",
    )
    ti = dag.create_dagrun().get_task_instance("work")

    async def within() -> None:
        ti.run()

    asyncio.run(within()) if on_a_loop else ti.run()

    assert ti.xcom_pull("work") == 7


def test_a_task_runs_for_each_date(tmp_path: Path) -> None:
    import pendulum

    dag = dag_of(tmp_path, "PythonOperator(task_id='t', python_callable=lambda ds, seen: seen(ds))")
    task, seen = dag.get_task("t"), list[str]()
    task.op_kwargs = {"seen": seen.append}
    dag.clear()

    task.run(start_date=dag.start_date, end_date=dag.start_date)
    task.run(start_date=pendulum.datetime(2024, 3, 1), end_date=pendulum.datetime(2024, 3, 3), ignore_ti_state=True)

    assert seen == ["2024-01-01", "2024-03-01", "2024-03-02", "2024-03-03"]


def test_a_dag_without_a_schedule_runs_for_its_date(tmp_path: Path) -> None:
    dag = dag_of(tmp_path, "BashOperator(task_id='t', bash_command='echo {{ ds }}')", options="schedule_interval=None")
    task = dag.get_task("t")

    task.run(start_date=dag.default_args.get("start_date", dag.start_date), end_date=dag.start_date)

    assert names()[0](task, dag.start_date).xcom_pull(task_ids="t") == "2024-01-01"


def test_templates_are_rendered_without_a_run(tmp_path: Path) -> None:
    import pendulum

    dag = dag_of(
        tmp_path, "Copy(task_id='copy', path='s3://{{ ds_nodash }}/{{ params.get(\"a\", 1) }}/{{ ti.task_id }}')"
    )
    ti = names()[0](dag.get_task("copy"), pendulum.datetime(2024, 5, 6))

    context = ti.get_template_context()
    ti.render_templates()

    assert context["ti"] is ti
    assert context["ds"] == "2024-05-06"
    assert ti.task.path == "s3://20240506/1/copy"
    assert dag.get_task("copy").path.startswith("s3://{{")
    assert dag.get_task("copy").execute(context) == dag.get_task("copy").path  # as a test calls it by hand


def test_callbacks_run_and_see_the_error(tmp_path: Path) -> None:
    dag = dag_of(tmp_path, "Copy(task_id='copy', fails=ValueError('x'))")
    seen: list[Any] = []
    dag.get_task("copy").on_failure_callback = [
        lambda context: seen.append((context["exception"], context["ti"].state))
    ]

    with pytest.raises(ValueError, match="x"):
        dag.create_dagrun().get_task_instance("copy").run()

    [(error, state)] = seen
    assert (str(error), state) == ("x", "failed")


def test_a_run_of_another_dag_object_is_not_mixed_up(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = dag_of(tmp_path / "a", "Copy(task_id='copy')"), dag_of(tmp_path / "b", "Copy(task_id='copy')")
    one.create_dagrun(run_id="r").get_task_instance("copy").run()

    ti = names()[0](other.get_task("copy"), run_id="r")

    assert ti.state is None
    assert ti.xcom_pull(task_ids="copy") is None


def test_a_task_without_a_dag_is_named() -> None:
    from airflow.operators.empty import EmptyOperator  # type: ignore[import-not-found]

    with pytest.raises(Exception, match=r"Task 'alone' is in no DAG: make it inside `with DAG"):
        names()[0](EmptyOperator(task_id="alone"))


def test_a_running_task_makes_none(tmp_path: Path) -> None:
    dag = dag_of(
        tmp_path,
        "PythonOperator(task_id='t', python_callable=lambda dag: dag.create_dagrun())",
        "PythonOperator(task_id='u', python_callable=lambda task: task.run())",
    )
    run = dag.create_dagrun()

    for task_id in ("t", "u"):
        with pytest.raises(Refused, match="A task cannot"):
            run.get_task_instance(task_id).run()
