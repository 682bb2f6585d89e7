"""Sensors that wait for time to pass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.base import checks
from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.operators.sensor import BaseSensorOperator
from aiosched.authoring.operators.weekdays import WeekDay, week_days, zone_of
from aiosched.authoring.tasks.operator import Seconds
from aiosched.authoring.tasks.rendering import needs_rendering
from aiosched.authoring.tasks.start_trigger import StartTriggerArgs
from aiosched.authoring.triggers.temporal import DateTimeTrigger

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class MomentSensor(BaseSensorOperator):
    """Waits until the clock has reached `moment(context)`, an aware instant.

    With `end_from_trigger` a deferred sensor is a success when its trigger fires, without another worker.
    """

    def __init__(self, *, deferrable: bool = False, end_from_trigger: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.deferrable = deferrable
        self.end_from_trigger = end_from_trigger

    @abstractmethod
    def moment(self, context: Context) -> datetime:
        """The instant, aware."""

    @for_plain_callers
    async def poke(self, context: Context) -> bool:
        """Whether the moment is past."""
        return self.clock.now() >= self.moment(context)

    def deferred_on(self, context: Context) -> DateTimeTrigger:
        """A trigger for the same moment."""
        return DateTimeTrigger(self.moment(context), self.end_from_trigger)


class DateTimeSensor(MomentSensor):
    """Waits until `target_time`: an aware datetime, or a text in ISO 8601, which may be a template.

    With `start_from_trigger` no worker runs before that time, and it cannot be a template; `trigger_kwargs` are
    arguments of that trigger.
    """

    template_fields: ClassVar[Sequence[str]] = ("target_time",)

    def __init__(
        self,
        *,
        target_time: datetime | str | Any,
        start_from_trigger: bool = False,
        trigger_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start_from_trigger = start_from_trigger
        self.trigger_kwargs: dict[str, Any] = dict(trigger_kwargs or {})
        if isinstance(target_time, datetime) and target_time.tzinfo is None:
            raise self.fail(f"Sensor {self.task_id!r}: target_time={target_time!r} has no time zone. Give it one.")
        self.target_time = target_time

    def moment(self, context: Context) -> datetime:
        """The target time; a text without an offset is in the DAG's zone."""
        if isinstance(self.target_time, datetime):
            return self.target_time
        return self._read(str(self.target_time))

    def initial_trigger(self) -> StartTriggerArgs | None:
        if not self.start_from_trigger:
            return None
        moment = self.target_time
        if isinstance(moment, str) and not needs_rendering(moment, self):
            moment = self._read(moment)
        ending = {"end_from_trigger": True} if self.end_from_trigger else {}
        kwargs = {"moment": moment, **ending, **self.trigger_kwargs}
        return StartTriggerArgs(DateTimeTrigger, "execute_complete", kwargs, timeout=self.timeout)

    def _read(self, text: str) -> datetime:
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else found.replace(tzinfo=zone_of(self))


class TimeDeltaSensor(MomentSensor):
    """Waits until `delta` after the end of the data interval (the run's start, for a run without one).

    A negative one is before it, which has passed when the run starts.
    """

    def __init__(self, *, delta: Seconds, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.delta: timedelta = checks.duration("delta", delta, self._origin, may_be_negative=True)

    def moment(self, context: Context) -> datetime:
        """The end of the interval plus the delta."""
        run = context.run
        return (run.interval_end or run.start_date or run.run_after) + self.delta


class TimeSensor(MomentSensor):
    """Waits until `target_time`, in the DAG's time zone, of the day on which the try started.

    Only a started try has such a day, so with `start_from_trigger` a worker starts it and it is deferred at once.
    """

    def __init__(self, *, target_time: time, start_from_trigger: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.deferrable = self.deferrable or start_from_trigger
        if not isinstance(target_time, time):
            raise self.fail(f"Sensor {self.task_id!r}: target_time={target_time!r} is not a datetime.time. Give one.")
        self.target_time = target_time

    def moment(self, context: Context) -> datetime:
        """That time, today."""
        began = context["ti"].first_started.astimezone(zone_of(self))
        return datetime.combine(began.date(), self.target_time.replace(tzinfo=None), zone_of(self))


class DayOfWeekSensor(BaseSensorOperator):
    """Waits until it is one of the days `week_day` ("Monday", WeekDay.MONDAY, or a set of those).

    The day is today's in the DAG's time zone, or with `use_task_logical_date` that of the logical date.
    """

    def __init__(
        self,
        *,
        week_day: str | WeekDay | Collection[str | WeekDay],
        use_task_logical_date: bool = False,
        deferrable: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.week_day = week_day
        self.days: frozenset[int] = week_days(week_day, self)
        self.use_task_logical_date = use_task_logical_date
        self.deferrable = deferrable

    @for_plain_callers
    async def poke(self, context: Context) -> bool:
        """Whether the day is one of `week_day`."""
        return self._day(context).isoweekday() in self.days

    def deferred_on(self, context: Context) -> DateTimeTrigger:
        """Waits for the start of the next such day. With a logical date, which does not change, it times out."""
        day = self._day(context)
        while day.isoweekday() not in self.days:
            day += timedelta(days=1)
        if self.use_task_logical_date:
            return DateTimeTrigger(self.clock.now() + timedelta(seconds=self.timeout + 1))
        return DateTimeTrigger(datetime.combine(day, time(), zone_of(self)))

    def _day(self, context: Context) -> date:
        moment = self.clock.now()
        if self.use_task_logical_date and context.run.logical_date is not None:
            moment = context.run.logical_date
        return moment.astimezone(zone_of(self)).date()
