"""Trigger timetables: a run happens AT the tick; its interval is a fixed time before it, by default empty.

Source: the semantics reference, section 11.4; decision 10 of section 34.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final

import msgspec
from dateutil.relativedelta import relativedelta
from msgspec.structs import force_setattr

from aiosched.core.timetables.base import LEAST_GRACE, DataInterval, NextRun, Restriction, StoredTimetable
from aiosched.core.timetables.delta import Delta
from aiosched.core.timetables.interval import tidy, zone_field
from aiosched.core.timetables.wallclock import WallClock, wall_clock
from aiosched.errors import TimetableError

_NOTHING: Final = Delta()


class CronTriggerTimetable(StoredTimetable, frozen=True, omit_defaults=True, tag="cron_trigger"):
    """Runs at the ticks of a cron expression.

        CronTriggerTimetable("30 16 * * MON", timezone="Europe/Amsterdam", interval=timedelta(hours=1))

    `interval` (timedelta or relativedelta) is how far the data interval reaches back from the tick. `run_immediately`
    matters only without a start date: whether the first run can be for the tick that has just passed. True: yes; a
    timedelta: if that was at most this long ago; False: if it was at most a tenth of the distance between ticks, or 5
    minutes, ago. In storage intervals are `Delta`s and grace times are seconds.
    """

    cron: str
    timezone: str
    interval: Delta = _NOTHING
    run_immediately: bool | float = False

    if TYPE_CHECKING:

        def __init__(
            self,
            cron: str,
            timezone: str | tzinfo,
            interval: Delta | timedelta | relativedelta = ...,
            run_immediately: bool | float | timedelta = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "cron", tidy(self.cron))
        force_setattr(self, "timezone", zone_field(self.timezone))
        _set_options(self)

    @property
    def summary(self) -> str:
        return self.cron

    def validate(self) -> None:
        """Raise TimetableError if the expression, the time zone or the interval is invalid."""
        _ = self.clock
        _check_interval(self.interval)

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        clock, earliest = self.clock, restriction.earliest
        if last is None and earliest is None:
            tick = self._first_tick(now)
        elif restriction.catchup:
            tick = clock.next_tick(last.end) if last is not None else clock.ceil(earliest or now)
        else:
            tick = clock.floor(now)
            if last is not None and last.end >= tick:
                tick = clock.next_tick(last.end)
            if earliest is not None and earliest > tick:
                tick = clock.ceil(earliest)
        return _run_at(tick, self.interval, restriction)

    def manual_interval(self, run_after: datetime) -> DataInterval:
        return _back_from(run_after, self.interval)

    @property
    def clock(self) -> WallClock:
        """The ticks at which runs happen."""
        return wall_clock(self.cron, self.timezone)

    def _first_tick(self, now: datetime) -> datetime:
        passed = self.clock.floor(now)
        if self.run_immediately is True:
            return passed
        following = self.clock.next_tick(passed)
        if self.run_immediately is False:
            grace = max((following - passed) / 10, LEAST_GRACE)
        else:
            grace = timedelta(seconds=self.run_immediately)
        return passed if now - passed <= grace else following


class _TakesCrons(msgspec.StructMeta):
    """Lets authors write the cron expressions one after the other, as in Airflow."""

    def __call__(cls, *crons: Any, **options: Any) -> Any:
        if crons and "timezone" in options:
            listed = [each for one in crons for each in ([one] if isinstance(one, str) else one)]
            return super().__call__(listed, **options)
        return super().__call__(*crons, **options)


class MultipleCronTriggerTimetable(
    StoredTimetable, frozen=True, omit_defaults=True, tag="cron_triggers", metaclass=_TakesCrons
):
    """Runs at the ticks of any of several cron expressions; ticks at one instant give one run.

        MultipleCronTriggerTimetable("0 10 * * *", "30 15 * * FRI", timezone="Europe/Amsterdam")

    The expressions can also be one list. The options are those of CronTriggerTimetable and apply to each of them.
    """

    crons: tuple[str, ...]
    timezone: str
    interval: Delta = _NOTHING
    run_immediately: bool | float = False

    if TYPE_CHECKING:

        def __init__(  # the time zone can also follow a list of expressions
            self,
            *crons: str | Sequence[str] | tzinfo,
            timezone: str | tzinfo = ...,
            interval: Delta | timedelta | relativedelta = ...,
            run_immediately: bool | float | timedelta = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        crons = [self.crons] if isinstance(self.crons, str) else self.crons
        force_setattr(self, "crons", tuple(tidy(cron) for cron in crons))
        force_setattr(self, "timezone", zone_field(self.timezone))
        _set_options(self)

    @property
    def summary(self) -> str:
        return ", ".join(self.crons)

    def validate(self) -> None:
        """Raise TimetableError if there is no expression, or an invalid one."""
        if not self.crons:
            raise TimetableError("A MultipleCronTriggerTimetable needs at least one cron expression; list some.")
        for single in self._singles():
            single.validate()

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        answers = [single.next_run(last=last, restriction=restriction, now=now) for single in self._singles()]
        runs = [run for run in answers if run is not None]
        if not runs:
            return None
        if restriction.catchup:
            return min(runs, key=_logical_date)
        due = [run for run in runs if run.run_after <= now]
        return max(due, key=_logical_date) if due else min(runs, key=_logical_date)

    def manual_interval(self, run_after: datetime) -> DataInterval:
        return _back_from(run_after, self.interval)

    def _singles(self) -> list[CronTriggerTimetable]:
        return [CronTriggerTimetable(cron, self.timezone, self.interval, self.run_immediately) for cron in self.crons]


class DeltaTriggerTimetable(StoredTimetable, frozen=True, omit_defaults=True, tag="delta_trigger"):
    """Runs every `delta` from the start date on; without a start date, from the time of the call on.

    `delta` and `interval` (how far the data interval reaches back) are timedeltas or
    relativedeltas. Without catchup the runs stay on the start date's grid.
    """

    delta: Delta
    interval: Delta = _NOTHING

    if TYPE_CHECKING:

        def __init__(
            self, delta: Delta | timedelta | relativedelta, interval: Delta | timedelta | relativedelta = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "delta", Delta.of(self.delta))
        force_setattr(self, "interval", Delta.of(self.interval))

    @property
    def summary(self) -> str:
        return str(self.delta)

    def validate(self) -> None:
        """Raise TimetableError if the delta does not move forward, or the interval reaches ahead."""
        self.delta.validate()
        _check_interval(self.interval)

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        earliest = None if restriction.earliest is None else restriction.earliest.astimezone(UTC)
        now = now.astimezone(UTC)
        following = None if last is None else self.delta.after(last.end)
        if restriction.catchup:
            tick = following or earliest or now
        else:
            current = now if earliest is None else max(earliest, self.delta.floor(now, anchor=earliest))
            tick = current if following is None else max(current, following)
        return _run_at(tick, self.interval, restriction)

    def manual_interval(self, run_after: datetime) -> DataInterval:
        return _back_from(run_after, self.interval)


def _set_options(timetable: CronTriggerTimetable | MultipleCronTriggerTimetable) -> None:
    """Convert the arguments of authors to the values in the JSON."""
    force_setattr(timetable, "interval", Delta.of(timetable.interval))
    if isinstance(timetable.run_immediately, timedelta):
        force_setattr(timetable, "run_immediately", timetable.run_immediately.total_seconds())


def _check_interval(interval: Delta) -> None:
    if interval.months < 0 or interval.seconds < 0:
        raise TimetableError(f"A data interval of {interval} would end before it starts; use a positive timedelta.")


def _run_at(tick: datetime, interval: Delta, restriction: Restriction) -> NextRun | None:
    if restriction.latest is not None and tick > restriction.latest:
        return None
    return NextRun(run_after=tick, interval=_back_from(tick, interval))


def _back_from(at: datetime, interval: Delta) -> DataInterval:
    end = at.astimezone(UTC)
    return DataInterval(end if interval.is_zero else interval.before(end), end)


def _logical_date(run: NextRun) -> datetime:
    return run.logical_date
