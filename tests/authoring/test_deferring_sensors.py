"""Sensors that defer, and how they fail when they go on. Source: the semantics reference, sections 24.3 and 25.5."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched import BaseSensorOperator, BaseTrigger, Context
from aiosched.authoring.runtime.context import current_context
from aiosched.authoring.triggers import DateTimeTrigger
from aiosched.authoring.triggers.encoding import dump
from aiosched.core.values.messages import Resume
from aiosched.errors import (
    AioschedError,
    CommandFailed,
    FailTask,
    SensorTimeout,
    SkipTask,
    TaskDeferralTimeout,
    TaskDeferred,
    TaskTimeout,
)
from tests.authoring.authoring_builders import attempt_of, context_of

FRIDAY = datetime(2026, 1, 2, 12, tzinfo=UTC)


async def execute(sensor: BaseSensorOperator) -> Any:
    context = context_of(sensor, attempt_of())
    with current_context(context):
        return await sensor.execute(context)


class Deferrable(BaseSensorOperator):
    """Defers after a false poke."""

    deferrable = True

    def __init__(self, found: Any = False, **kwargs: Any) -> None:
        super().__init__(task_id="t", **kwargs)
        self.found = found

    async def poke(self, context: Context) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def deferred_on(self, context: Context) -> BaseTrigger:
        return DateTimeTrigger(FRIDAY)

    def execute_complete(self, context: Context, event: Any = None) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return event


async def test_a_deferrable_sensor_pokes_once_and_defers_with_its_timeout() -> None:
    assert await execute(Deferrable(found=True)) is None
    with pytest.raises(TaskDeferred) as caught:
        await execute(Deferrable(timeout=90))

    assert isinstance(caught.value.trigger, DateTimeTrigger)
    assert (caught.value.method_name, caught.value.timeout) == ("execute_complete", 90)


@pytest.mark.parametrize(
    ("resume", "options", "ending"),
    [
        ({"error": "x", "timed_out": True}, {}, SensorTimeout),
        ({"error": "x", "timed_out": True}, {"soft_fail": True}, SkipTask),
        ({"error": "x", "timed_out": True}, {"never_fail": True}, SkipTask),
        ({"error": "x", "timed_out": True}, {"silent_fail": True}, SensorTimeout),
        ({"error": "x"}, {}, AioschedError),
        ({"error": "x"}, {"soft_fail": True}, SkipTask),
        ({"error": "x"}, {"never_fail": True}, SkipTask),
        ({"error": "x"}, {"silent_fail": True}, AioschedError),
        ({}, {"found": ValueError("x"), "soft_fail": True}, ValueError),
        ({}, {"found": ValueError("x"), "never_fail": True}, ValueError),
        ({}, {"found": CommandFailed("x"), "never_fail": True}, SkipTask),
        ({}, {"found": CommandFailed("x"), "soft_fail": True}, SkipTask),
        ({}, {"found": FailTask("x"), "soft_fail": True}, SkipTask),
        ({}, {"found": TaskTimeout("x"), "soft_fail": True}, SkipTask),
        ({}, {"found": TaskTimeout("x")}, TaskTimeout),
        ({}, {"found": SkipTask("x"), "never_fail": True}, SkipTask),
    ],
)
def test_how_a_sensor_fails_when_it_goes_on(resume: Any, options: Any, ending: type[Exception]) -> None:
    sensor = Deferrable(**options)

    with pytest.raises(ending) as caught:
        sensor.resume_execution(Resume(next_method="execute_complete", **resume), context_of(sensor))

    assert type(caught.value) is not TaskDeferralTimeout


def test_a_sensor_goes_on_with_its_event() -> None:
    sensor = Deferrable()

    assert sensor.resume_execution(Resume(next_method="execute_complete", event=dump([1])), context_of(sensor)) == [1]


def test_a_sensor_that_offers_no_deferral_says_so() -> None:
    class Plain(BaseSensorOperator):
        deferrable = True

    with pytest.raises(NotImplementedError, match=r"Plain cannot be deferred"):
        Plain(task_id="t").deferred_on(Context({}))
