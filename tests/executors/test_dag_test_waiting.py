"""`dag.test()` and what waits: deferred tasks, callbacks, other DAGs. Source: the semantics reference, section 33.3."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from aiosched import DAG, BaseOperator, BaseTrigger, Context, TriggerDagRunOperator, TriggerEvent, task
from aiosched.authoring.sensors import DateTimeSensor, ExternalTaskSensor
from aiosched.core.values.states import RunState, TaskState
from aiosched.executors.dag_test import run_dag_test

PAST = datetime(2026, 1, 1, tzinfo=UTC)


class Never(BaseTrigger):
    """Waits for ever."""

    async def run(self) -> Any:
        await asyncio.Event().wait()
        yield TriggerEvent()


class Signal(BaseTrigger):
    """Waits until somebody in this process says so."""

    said: asyncio.Event

    async def run(self) -> Any:
        await Signal.said.wait()
        yield TriggerEvent("said")


class Defers(BaseOperator):
    """Goes on with what its trigger says."""

    def __init__(self, trigger: BaseTrigger, timeout: float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.trigger, self.timeout = trigger, timeout

    def execute(self, context: Context) -> None:
        context["ti"].xcom_push("early", 1)
        self.defer(trigger=self.trigger, method_name="go_on", timeout=self.timeout)

    def go_on(self, context: Context, event: Any) -> Any:
        return event


async def test_triggers_run_inline_and_what_was_pushed_before_is_kept() -> None:
    Signal.said = asyncio.Event()
    with DAG("d", schedule=None) as dag:

        @task
        async def say() -> None:
            Signal.said.set()

        Defers(task_id="t", trigger=Signal())
        say()

    run = await run_dag_test(dag)

    assert run.state is RunState.SUCCESS
    assert run.xcoms["t"] == {"early": 1, "return_value": "said"}
    assert run.task("t").try_number == 1


async def test_a_deferral_times_out_and_the_task_fails_by_it() -> None:
    with DAG("d", schedule=None) as dag:
        Defers(task_id="t", trigger=Never(), timeout=0.05)

    run = await run_dag_test(dag)

    assert run.state is RunState.FAILED
    assert "Trigger timeout" in (run.task("t").reason or "")


async def test_a_retry_is_not_held_up_by_a_task_that_waits() -> None:
    Signal.said = asyncio.Event()
    tries: list[int] = []
    with DAG("d", schedule=None) as dag:

        @task(retries=1, retry_delay=timedelta(hours=1))
        async def say() -> None:
            tries.append(1)
            if len(tries) == 1:
                raise ValueError("once more")
            Signal.said.set()

        Defers(task_id="t", trigger=Signal(), timeout=60)
        say()

    run = await run_dag_test(dag)

    assert run.state is RunState.SUCCESS
    assert len(tries) == 2


async def test_a_sensor_whose_deferral_times_out_is_skipped_with_soft_fail() -> None:
    future = datetime.now(UTC) + timedelta(days=1)
    with DAG("d", schedule=None) as dag:
        for soft in (False, True):
            DateTimeSensor(task_id=f"soft_{soft}", target_time=future, deferrable=True, timeout=0.05, soft_fail=soft)
        DateTimeSensor(task_id="past", target_time=PAST, deferrable=True)

    run = await run_dag_test(dag)

    assert {one.task_id: one.state for one in run.tasks} == {
        "soft_False": TaskState.FAILED,
        "soft_True": TaskState.SKIPPED,
        "past": TaskState.SUCCESS,
    }


async def test_the_dags_own_callbacks_run_at_the_end() -> None:
    seen: list[tuple[str, str]] = []

    async def on_success(context: Any) -> None:
        seen.append((context["dag_run"].run_id, context["reason"]))

    with DAG("d", schedule=None, on_success_callback=on_success) as dag:

        @task
        def work() -> None:
            pass

        work()

    run = await run_dag_test(dag)

    assert seen == [(run.run_id, "success")]


async def test_other_dags_count_as_done() -> None:
    with DAG("d", schedule=None) as dag:
        TriggerDagRunOperator(task_id="start", trigger_dag_id="other", wait_for_completion=True, deferrable=True)
        ExternalTaskSensor(task_id="wait", external_dag_id="other", external_task_id="load", deferrable=True)
        ExternalTaskSensor(task_id="group", external_dag_id="other", external_task_group_id="g")

    run = await run_dag_test(dag)

    assert run.state is RunState.SUCCESS
    assert run.xcoms["start"]["trigger_run_id"].startswith("manual__")
