"""`dag.test()` and what waits: deferred tasks, callbacks, other DAGs. Source: the semantics reference, section 33.3."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from aiosched import DAG, BaseOperator, BaseTrigger, Context, TriggerDagRunOperator, TriggerEvent, task
from aiosched.authoring.sensors import ExternalTaskSensor
from aiosched.core.values.states import RunState
from aiosched.executors.dag_test import run_dag_test


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
