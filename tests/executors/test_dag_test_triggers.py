"""`dag.test()` with triggers that end their task and tasks that begin in one. Sections 25.6, 33.3 and 15.1."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from aiosched import DAG, Asset, BaseOperator, StartTriggerArgs, task
from aiosched.core.values.states import RunState, TaskState
from aiosched.executors.attempt.attempts import TriggerExecution
from aiosched.executors.attempt.blocking import blocking_on
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.dag_test import run_dag_test
from aiosched.executors.inline.executor import RegisteredDags
from aiosched.triggers import BaseTrigger, TaskFailedEvent, TaskSkippedEvent, TaskSuccessEvent, TriggerEvent
from tests.executors.attempt_builders import FakeServices, trigger_attempt

ENDS = {
    "success": TaskSuccessEvent(xcoms={"return_value": [1, 2]}),
    "skipped": TaskSkippedEvent(reason="nothing to do"),
    "failed": TaskFailedEvent(reason="refused"),
    "event": TriggerEvent("said"),
}


class Says(BaseTrigger):
    """Says one thing at once."""

    def __init__(self, what: str) -> None:
        self.what = what

    async def run(self) -> Any:
        yield ENDS[self.what]


class Defers(BaseOperator):
    """Waits for what its trigger says; begins in it where it is told to."""

    def __init__(self, *, what: str, at_once: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.what = what
        self.start_from_trigger = at_once
        self.start_trigger_args = StartTriggerArgs(Says, "go_on", {"what": what})
        self.seen: list[str] = []

    def execute(self, context: Any) -> None:
        self.seen.append("execute")
        self.defer(trigger=Says(self.what), method_name="go_on")

    def go_on(self, context: Any, event: Any) -> Any:
        self.seen.append("go_on")
        return event


@pytest.mark.parametrize("at_once", [False, True], ids=["deferred", "begun in the trigger"])
@pytest.mark.parametrize(
    ("what", "state", "reason", "callback", "called"),
    [
        ("success", TaskState.SUCCESS, None, "success", []),
        ("skipped", TaskState.SKIPPED, "nothing to do", "skipped", []),
        ("failed", TaskState.FAILED, "refused", "failure", []),
        ("event", TaskState.SUCCESS, None, "success", ["go_on"]),
    ],
)
async def test_each_end_comes_with_its_callback(
    what: str, state: TaskState, reason: str | None, callback: str, called: list[str], at_once: bool
) -> None:
    told: list[tuple[str, str | None]] = []

    def tell(kind: str) -> Any:
        return lambda context: told.append((kind, context["reason"]))

    options = {f"on_{kind}_callback": tell(kind) for kind in ("success", "skipped", "failure", "retry", "execute")}
    with DAG("d", schedule=None) as dag:
        one = Defers(what=what, task_id="t", at_once=at_once, **options)

    run = await run_dag_test(dag)

    assert (run.task("t").state, run.task("t").reason) == (state, reason)
    assert [kind for kind, _ in told if kind != "execute"] == [callback]
    assert dict(told)[callback] == reason
    assert one.seen == ([] if at_once else ["execute"]) + called
    assert run.state is (RunState.FAILED if what == "failed" else RunState.SUCCESS)


async def test_a_retry_begins_in_the_trigger_again() -> None:
    with DAG("d", schedule=None) as dag:
        Defers(what="failed", task_id="t", at_once=True, retries=2)

    run = await run_dag_test(dag)

    assert (run.task("t").state, run.task("t").try_number) == (TaskState.FAILED, 3)


async def test_others_may_be_mapped_over_what_the_trigger_pushed_and_read_it() -> None:
    with DAG("d", schedule=None) as dag:

        @task
        def double(number: int) -> int:
            return 2 * number

        double.expand(number=Defers(what="success", task_id="t", at_once=True).output)

    run = await run_dag_test(dag)

    assert run.xcoms == {"t": {"return_value": [1, 2]}, "double": {"return_value": [2, 4]}}


async def test_instances_of_a_mapped_task_end_by_their_own_triggers() -> None:
    with DAG("d", schedule=None) as dag:
        Defers.partial(task_id="t").expand(what=["success", "skipped", "event"])

    run = await run_dag_test(dag)

    states = [run.task("t", index).state for index in range(3)]
    assert states == [TaskState.SUCCESS, TaskState.SKIPPED, TaskState.SUCCESS]


async def test_a_mocked_task_does_not_begin_in_its_trigger() -> None:
    with DAG("d", schedule=None) as dag:
        Defers(what="failed", task_id="t", at_once=True)

    run = await run_dag_test(dag, mocks={"t": 7})

    assert run.xcoms == {"t": {"return_value": 7}}


async def test_a_success_by_the_trigger_touches_the_outlets() -> None:
    with DAG("d", schedule=None) as dag:
        Defers(what="success", task_id="t", outlets=[Asset("orders")])
    one = msgspec.structs.replace(trigger_attempt(f"{__name__}.Says", '{"what": "success"}'), is_async=True)
    blocking = blocking_on(asyncio.get_running_loop())
    execution = TriggerExecution(one, FakeServices(), AttemptEnvironment(), blocking=blocking)

    report = await execution.run(RegisteredDags({"d": dag}))

    assert [(touch.name, touch.extra) for touch in report.assets] == [("orders", "{}")]
