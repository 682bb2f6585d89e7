"""Operators whose work is a coroutine here, for code that was written for Airflow's plain methods."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest

from aiosched import DAG, BaseNotifier, BashOperator, Scheduler
from aiosched.errors import CommandFailed
from aiosched.executors.dag_test import run_dag_test
from tests.airflow.airflow_builders import one_dag
from tests.patience import PATIENCE

HEAD = """
from datetime import datetime
from airflow import DAG
from airflow.exceptions import AirflowSkipException
from airflow.models import BaseOperator
from airflow.notifications.basenotifier import BaseNotifier
from airflow.operators.bash import BashOperator
from airflow.operators.python import PythonOperator
from airflow.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sensors.filesystem import FileSensor
from airflow.sensors.time_delta import TimeDeltaSensor

class Upper(BashOperator):
    def execute(self, context):
        return super().execute(context).upper()

class Twice(Upper):
    def execute(self, context):
        return super().execute(context) + super().execute(context)

class Plain(BashOperator):
    def execute(self, context):
        return super(Plain, self).execute(context=context)

class Tolerant(BashOperator):
    def execute(self, context):
        try:
            return BashOperator.execute(self, context)
        except Exception as error:
            raise AirflowSkipException(f"seen {type(error).__name__}")

class Trigger(TriggerDagRunOperator):
    def execute(self, context):
        super().execute(context)
        return "after"

class Patient(FileSensor):
    def poke(self, context):
        self.found = getattr(self, "found", 0) + bool(super().poke(context))
        return self.found >= 1

class Logged(FileSensor):
    def execute(self, context):
        self.log.info("before")
        return super().execute(context), "after"

class Notes(BaseNotifier):
    def __init__(self, sent): super().__init__(); self.sent = sent
    def notify(self, context): self.sent.append(context["ti"].task_id)
"""


def dag_of(tmp_path: Path, *lines: str) -> Any:
    code = "with DAG('d', start_date=datetime(2024, 1, 1), schedule_interval=None) as dag:\n"
    return one_dag(tmp_path, HEAD + code + "".join(f"    {line}\n" for line in lines))


async def test_a_plain_method_of_a_subclass_gets_the_value(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    dag = dag_of(
        tmp_path,
        "Upper(task_id='upper', bash_command='echo a')",
        "Twice(task_id='twice', bash_command='echo b')",
        "Plain(task_id='plain', bash_command='echo c')",
        "Plain(task_id='skips', bash_command='exit 99')",
        "Tolerant(task_id='tolerant', bash_command='exit 3')",
        "Plain(task_id='fails', bash_command='exit 3')",
        "Trigger(task_id='trigger', trigger_dag_id='other')",
        f"Patient(task_id='patient', filepath={str(tmp_path / 'there')!r})",
        f"Logged(task_id='logged', filepath={str(tmp_path / 'there')!r})",
        f"Logged(task_id='never', filepath={str(tmp_path / 'never')!r}, timeout=0, poke_interval=0.01)",
        "Upper.partial(task_id='mapped').expand(bash_command=['echo x', 'echo y'])",
    )

    run = await run_dag_test(dag)

    assert {one.task_id: one.state for one in run.tasks if one.map_index < 0} == {
        "upper": "success", "twice": "success", "plain": "success", "skips": "skipped", "tolerant": "skipped",
        "fails": "failed", "trigger": "success", "patient": "success",
        "logged": "success", "never": "failed",
    }  # fmt: skip
    assert {task_id: values["return_value"] for task_id, values in run.xcoms.items() if "return_value" in values} == {
        "upper": "A", "twice": "BB", "plain": "c", "trigger": "after", "logged": (None, "after"), "mapped": ["X", "Y"],
    }  # fmt: skip
    assert run.task("tolerant").reason == "seen CommandFailed"


@pytest.mark.parametrize("executor", ["inline", "local"])
async def test_a_plain_method_triggers_a_run(tmp_path: Path, dsn: str, executor: Any) -> None:
    (tmp_path / "dags").mkdir()
    code = (
        HEAD
        + "with DAG('d', schedule_interval=None):\n    Trigger(task_id='t', trigger_dag_id='other', conf={'a': 1})\n"
    )
    other = "with DAG('other', schedule_interval=None):\n    BashOperator(task_id='u', bash_command='true')\n"
    (tmp_path / "dags" / "d.py").write_text(code + other)

    async with Scheduler(dsn=dsn, dags_folder=tmp_path / "dags", executor=executor) as scheduler:
        await scheduler.read_folder()
        await scheduler.unpause("other")
        await scheduler.unpause("d")
        run = await scheduler.trigger("d")
        await run.wait(raise_on_failure=True)
        assert await run.result() == "after"
        assert await scheduler.db.fetchval("SELECT count(*) FROM dag_run WHERE dag_id = 'other'") == 1


def test_a_test_calls_operators_itself(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    dag = dag_of(
        tmp_path,
        "BashOperator(task_id='bash', bash_command='echo hello!')",
        "BashOperator(task_id='fails', bash_command='exit 3')",
        f"FileSensor(task_id='file', filepath={str(tmp_path / 'there')!r}, poke_interval=1)",
        "async def seven(): return 7",
        "PythonOperator(task_id='python', python_callable=seven)",
    )

    assert dag.get_task("bash").execute(context={}) == "hello!"
    assert dag.get_task("file").poke(context={}) is True
    assert dag.get_task("file").execute({"ti": None}) is None
    assert dag.get_task("python").execute(context={}) == 7
    with pytest.raises(CommandFailed):
        dag.get_task("fails").execute({})


async def test_on_an_event_loop_it_is_awaited(tmp_path: Path) -> None:
    dag = dag_of(tmp_path, "BashOperator(task_id='bash', bash_command='echo hello!')")

    assert await dag.get_task("bash").execute(context={}) == "hello!"


async def test_a_function_calls_an_operator_itself(tmp_path: Path) -> None:
    dag = dag_of(
        tmp_path,
        "def inner(**context):",
        "    return BashOperator(task_id='inner', bash_command='echo inside').execute(context)",
        "PythonOperator(task_id='outer', python_callable=inner)",
    )

    run = await run_dag_test(dag)

    assert run.xcoms["outer"]["return_value"] == "inside"


@pytest.mark.parametrize("operator", ["BashOperator(bash_command='exit 3', ", "PythonOperator(python_callable=len, "])
async def test_a_callback_calls_a_notifier_itself(tmp_path: Path, operator: str) -> None:
    """Also where the task shares its loop, as one of bash does."""
    dag = dag_of(
        tmp_path,
        "sent = []",
        "def tell(context): Notes(sent)(context)",
        "async def later(context): sent.append('later')",
        f"task = {operator} task_id='t', on_failure_callback=[tell, Notes(sent), later])",
        "task.sent = sent",
    )

    await run_dag_test(dag)

    assert dag.get_task("t").sent == ["t", "t", "later"]


async def test_a_subclass_here_may_be_plain_too() -> None:
    class Upper(BashOperator):
        def execute(self, context: Any) -> Any:
            return super().execute(context).upper()

    with DAG("d", schedule=None) as dag:
        Upper(task_id="upper", bash_command="echo a")
        coroutine = BashOperator(task_id="bash", bash_command="echo b")

    run = await run_dag_test(dag)

    assert run.xcoms["upper"]["return_value"] == "A"
    assert await coroutine.execute({}) == "b"  # type: ignore[arg-type]


async def test_what_a_callback_asks_of_the_scheduler_is_answered_beside_a_shared_loop(tmp_path: Path, dsn: str) -> None:
    (tmp_path / "dags").mkdir()
    code = (
        HEAD
        + """
class Asks(BaseNotifier):
    async def async_notify(self, context):
        from aiosched import Variable
        found = await Variable.aget("missing", default="none")
        open("SAID", "a").write(context["ti"].task_id + found + " ")
def by_hand(context): Asks()(context)
with DAG("d", schedule_interval=None, start_date=datetime(2024, 1, 1)):
    BashOperator(task_id="direct", bash_command="exit 3", on_failure_callback=Asks())
    BashOperator(task_id="by_hand", bash_command="exit 3", on_failure_callback=by_hand)
"""
    )
    (tmp_path / "dags" / "d.py").write_text(code.replace("SAID", str(tmp_path / "said")))
    async with Scheduler(dsn=dsn, dags_folder=tmp_path / "dags", executor="local") as scheduler:
        await scheduler.read_folder()
        await scheduler.unpause("d")
        run = await scheduler.trigger("d")
        await run.wait()

    assert sorted((tmp_path / "said").read_text().split()) == ["by_handnone", "directnone"]


def test_a_notifier_outside_an_event_loop_is_done_when_it_returns() -> None:
    sent: list[str] = []

    class Later(BaseNotifier):
        async def notify(self, context: Any) -> None:
            await asyncio.sleep(0)
            sent.append("told")

    assert Later()({"dag": None, "ti": None, "task": None}) is None  # type: ignore[arg-type]
    assert sent == ["told"]


async def test_a_plain_method_that_waits_for_a_command_is_stopped_with_it(tmp_path: Path, dsn: str) -> None:
    """In a worker, where no event loop runs until the method asks for its value."""
    (tmp_path / "dags").mkdir()
    code = (
        "import datetime\nwith DAG('d', schedule_interval=None, start_date=datetime.datetime(2024, 1, 1)):\n"
        f"    Upper(task_id='stopped', bash_command='touch {tmp_path}/begun; sleep 3600; touch {tmp_path}/ended')\n"
        "    Upper(task_id='late', bash_command='sleep 3600', execution_timeout=datetime.timedelta(seconds=0.5))\n"
    )
    (tmp_path / "dags" / "d.py").write_text(HEAD + code)

    async with Scheduler(dsn=dsn, dags_folder=tmp_path / "dags", executor="local") as scheduler:
        await scheduler.read_folder()
        await scheduler.unpause("d")
        run = await scheduler.trigger("d")
        async with asyncio.timeout(PATIENCE):
            while not (tmp_path / "begun").exists() or [t.state for t in await run.tasks()].count("failed") < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await scheduler.cancel("d", run_id=run.run_id)
        await run.wait()
        tasks = {task.task_id: task for task in await run.tasks()}

    assert {name: task.state for name, task in tasks.items()} == {"stopped": "failed", "late": "failed"}
    assert "timeout" in (tasks["late"].reason or "") or "longer" in (tasks["late"].reason or "")
    assert not [one for one in psutil.process_iter(["cmdline"]) if f"{tmp_path}/ended" in str(one.info["cmdline"])]
