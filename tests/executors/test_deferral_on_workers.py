"""Going to deferred and coming back, as workers see it.

Source: the semantics reference, sections 25.1, 25.2, 25.4 and 25.5.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from aiosched import DAG, BaseOperator, BaseTrigger, Context, DateTimeTrigger, TimeDeltaTrigger, TriggerEvent
from aiosched.authoring.triggers.encoding import class_of, dump, load
from aiosched.core.values.messages import Attempt, Outcome, Report
from aiosched.errors import AioschedError
from aiosched.executors.attempt.blocking import blocking_on
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.runner import Execution, drive
from aiosched.executors.inline.executor import RegisteredDags
from tests.executors.attempt_builders import FakeServices, attempt, resumed

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


class Waits(BaseOperator):
    """Defers in `execute`; goes on in one of its methods."""

    def __init__(self, trigger: Any = None, options: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.trigger = trigger or DateTimeTrigger(NOON)
        self.options = options or {"method_name": "go_on"}

    def execute(self, context: Context) -> Any:
        context["ti"].xcom_push("before", 1)
        self.defer(trigger=self.trigger, **self.options)

    def go_on(self, context: Context, event: Any, factor: int = 1, since: Any = None) -> Any:
        return [event, factor, repr(since)]

    async def go_on_async(self, context: Context, event: Any) -> Any:
        await asyncio.sleep(0)
        return event

    def again(self, context: Context, event: Any) -> Any:
        self.defer(trigger=self.trigger, method_name="go_on", kwargs={"factor": event})


class AsyncWaits(Waits):
    """The same with a coroutine function."""

    async def execute(self, context: Context) -> Any:
        return Waits.execute(self, context)


def dag_of(kind: type[Waits] = Waits, **options: Any) -> DAG:
    with DAG("d", schedule=None) as dag:
        kind(task_id="t", **options)
    return dag


def run(dag: DAG, one: Attempt | None = None) -> Report:
    execution = Execution(one or attempt("t"), FakeServices(), AttemptEnvironment(), blocking=drive)
    return drive(execution.run(RegisteredDags({"d": dag})))


async def run_async(dag: DAG, one: Attempt | None = None) -> Report:
    one = one or attempt("t", is_async=True)
    execution = Execution(one, FakeServices(), AttemptEnvironment(), blocking=blocking_on(asyncio.get_running_loop()))
    return await execution.run(RegisteredDags({"d": dag}))


async def test_a_task_defers_with_all_that_is_needed_to_go_on() -> None:
    options = {"method_name": "go_on", "kwargs": {"since": NOON, "factor": 2}, "timeout": timedelta(minutes=2)}

    for report in (run(dag_of(options=options)), await run_async(dag_of(AsyncWaits, options=options))):
        assert report.outcome is Outcome.DEFERRED
        assert report.deferral is not None
        assert report.deferral.classpath == "aiosched.authoring.triggers.temporal.DateTimeTrigger"
        assert load(report.deferral.kwargs) == {"moment": NOON, "end_from_trigger": False}
        assert (report.deferral.next_method, report.deferral.timeout) == ("go_on", 120.0)
        assert load(report.deferral.next_kwargs) == {"since": NOON, "factor": 2}
        assert [xcom.key for xcom in report.xcoms] == ["before"]


async def test_the_method_goes_on_with_the_event_and_its_arguments() -> None:
    facts = {"next_kwargs": dump({"factor": 3, "since": timedelta(hours=1)}), "event": dump({"ok": True})}
    expected = [{"ok": True}, 3, "datetime.timedelta(seconds=3600)"]

    plain = run(dag_of(), resumed(attempt("t"), "go_on", **facts))
    aside = await run_async(dag_of(AsyncWaits), resumed(attempt("t", is_async=True), "go_on", **facts))

    assert [json.loads(report.xcoms[0].value) for report in (plain, aside)] == [expected, expected]


async def test_a_coroutine_function_may_go_on_in_either_kind_of_worker() -> None:
    plain = await asyncio.to_thread(run, dag_of(), resumed(attempt("t"), "go_on_async", event='"now"'))
    on_loop = await run_async(dag_of(AsyncWaits), resumed(attempt("t", is_async=True), "go_on_async", event='"now"'))

    assert plain.xcoms == on_loop.xcoms
    assert json.loads(plain.xcoms[0].value) == "now"


def test_a_task_may_defer_again() -> None:
    report = run(dag_of(), resumed(attempt("t"), "again", event="5"))

    assert report.outcome is Outcome.DEFERRED
    assert report.deferral is not None
    assert load(report.deferral.next_kwargs) == {"factor": 5}


def test_callbacks_before_execution_run_again_and_those_of_success_at_the_end() -> None:
    seen: list[str] = []
    options = {
        "on_execute_callback": lambda context: seen.append("execute"),
        "on_success_callback": lambda context: seen.append("success"),
        "on_failure_callback": lambda context: seen.append("failure"),
    }

    run(dag_of(**options))
    assert seen == ["execute"]

    run(dag_of(**options), resumed(attempt("t"), "go_on"))
    assert seen == ["execute", "execute", "success"]


@pytest.mark.parametrize(
    ("timed_out", "reason"),
    [
        (False, "TaskDeferralError: what it waited for failed: ValueError: bad"),
        (True, "TaskDeferralTimeout: ValueError: bad"),
    ],
)
def test_a_trigger_that_failed_fails_the_task_which_may_retry(timed_out: bool, reason: str) -> None:
    one = resumed(attempt("t", max_tries=1), "go_on", error="ValueError: bad", timed_out=timed_out)

    report = run(dag_of(), one)

    assert (report.outcome, report.reason, report.fail_now) == (Outcome.FAILED, reason, False)


class Local(BaseTrigger):
    """Cannot be made again from what it is given."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing


def local_class() -> BaseTrigger:
    class Inner(BaseTrigger):
        pass

    return Inner()


@pytest.mark.parametrize(
    ("trigger", "options", "words"),
    [
        ("no trigger", {"method_name": "go_on"}, "needs a trigger, not 'no trigger'"),
        (Local(object()), {"method_name": "go_on"}, "kwargs of Local['thing'] is an object, which JSON cannot hold"),
        (local_class(), {"method_name": "go_on"}, "is local to a function: move it to the module's top"),
        (DateTimeTrigger(NOON), {"method_name": "go_on", "kwargs": {"f": print}}, "kwargs of defer()['f']"),
        (DateTimeTrigger(NOON), {"method_name": Waits.go_on}, "needs the name of a method"),
    ],
)
def test_what_cannot_travel_fails_the_task_and_names_the_place(trigger: Any, options: Any, words: str) -> None:
    report = run(dag_of(trigger=trigger, options=options))

    assert report.outcome is Outcome.FAILED
    assert words in (report.reason or "")


def test_a_method_that_is_not_there_is_named() -> None:
    report = run(dag_of(), resumed(attempt("t"), "gone"))

    assert report.outcome is Outcome.FAILED
    assert "to continue with 'gone', but Waits has no such method" in (report.reason or "")


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"a": [1, 2.5, "x", True, None]},
        NOON,
        {"__datetime__": "the author's"},
        {"a": (1, {2}), 3: Decimal("1.50")},
        {"deep": [{"at": NOON, "for": timedelta(milliseconds=1500), "day": NOON.date(), "time": NOON.time()}]},
    ],
)
def test_what_travels_comes_back_equal(value: Any) -> None:
    assert repr(load(dump(value))) == repr(value)


async def test_a_span_is_waited_for_from_when_the_task_deferred() -> None:
    trigger = TimeDeltaTrigger(timedelta(0))
    classpath, kwargs = trigger.serialize()

    again = DateTimeTrigger(**kwargs)

    assert classpath.endswith(".DateTimeTrigger")
    assert [event async for event in again.run()] == [TriggerEvent(trigger.moment)]


def test_only_triggers_can_be_named() -> None:
    with pytest.raises(AioschedError, match=r"There is no trigger 'asyncio\.sleep'"):
        class_of("asyncio.sleep", __import__)
