"""Triggers that wait for time to pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from aiosched.authoring.triggers.base import BaseTrigger, TriggerEvent
from aiosched.authoring.triggers.endings import TaskSuccessEvent
from aiosched.clock import Clock, SystemClock

_MAX_SLEEP: Final = 3600.0  # seconds, so that changes of the clock are noticed


class DateTimeTrigger(BaseTrigger):
    """Fires at `moment` (aware), or at once if it is in the past; the event is the moment.

    With `end_from_trigger` the task is a success then, without another worker.
    """

    clock: ClassVar[Clock] = SystemClock()

    def __init__(self, moment: datetime, end_from_trigger: bool = False) -> None:
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            raise ValueError(f"DateTimeTrigger needs an aware datetime, not {moment!r}: give it a time zone.")
        self.moment: datetime = moment.astimezone(UTC)
        self.end_from_trigger = end_from_trigger

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Sleep until the moment."""
        while True:
            left = (self.moment - self.clock.now()).total_seconds()
            if left <= 0:
                yield TaskSuccessEvent() if self.end_from_trigger else TriggerEvent(self.moment)
                return
            await asyncio.sleep(min(left, _MAX_SLEEP))


class TimeDeltaTrigger(DateTimeTrigger):
    """Fires `delta` after the task defers; the event is that moment.

    In `start_trigger_args` it counts from the start of the trigger, and starts again after a restart.
    """

    def __init__(self, delta: timedelta, end_from_trigger: bool = False) -> None:
        super().__init__(self.clock.now() + delta, end_from_trigger)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """As a DateTimeTrigger, so that the wait does not start again when the trigger is created again."""
        kwargs = {"moment": self.moment, "end_from_trigger": self.end_from_trigger}
        return f"{DateTimeTrigger.__module__}.{DateTimeTrigger.__qualname__}", kwargs
