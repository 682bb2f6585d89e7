"""Interval timetables: a run covers a period and starts at its END.

Source: the semantics reference, sections 11.2 and 11.3; decision 10 of section 34.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final

from dateutil.relativedelta import relativedelta
from msgspec.structs import force_setattr

from aiosched.core.timetables.base import DataInterval, NextRun, Restriction, StoredTimetable
from aiosched.core.timetables.delta import EPOCH, Delta
from aiosched.core.timetables.wallclock import WallClock, wall_clock
from aiosched.core.timetables.zones import timezone_name

_INSTANT: Final = timedelta(microseconds=1)


class CronDataIntervalTimetable(StoredTimetable, frozen=True, tag="cron"):
    """The periods between the ticks of a cron expression: what `schedule="0 0 * * *"` means.

    `cron` is five fields, or six with the seconds last, or a preset; `timezone` an IANA
    name or a tzinfo, whose wall clock the fields are read on.
    """

    cron: str
    timezone: str

    if TYPE_CHECKING:

        def __init__(self, cron: str, timezone: str | tzinfo) -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "cron", tidy(self.cron))
        force_setattr(self, "timezone", zone_field(self.timezone))

    @property
    def summary(self) -> str:
        return self.cron

    def validate(self) -> None:
        """Raise TimetableError if the expression or the time zone is invalid."""
        _ = self.clock

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        clock, earliest = self.clock, restriction.earliest
        if last is None:
            begin = self._begin(restriction, now)
            return None if begin is None else period(begin, clock.next_tick(begin), restriction)
        start = clock.floor(last.end)
        end = clock.next_tick(start)
        late = end <= now and not restriction.catchup  # it may have been skipped: a later one is complete
        if late or (earliest is not None and earliest > start):
            begin = self._begin(restriction, now)
            if begin is not None and begin > start:
                start, end = begin, clock.next_tick(begin)
        if start <= last.start:  # the schedule became coarser
            start, end = end, clock.next_tick(end)
        return period(start, end, restriction)

    def manual_interval(self, run_after: datetime) -> DataInterval:
        """The last period that is complete at `run_after`."""
        end = self.clock.floor(run_after)
        return DataInterval(self.clock.prev_tick(end), end)

    @property
    def clock(self) -> WallClock:
        """The ticks that bound the periods."""
        return wall_clock(self.cron, self.timezone)

    def _begin(self, restriction: Restriction, now: datetime) -> datetime | None:
        """No period before this one: the first, or without catchup the latest complete one."""
        earliest, clock = restriction.earliest, self.clock
        if restriction.catchup:
            return None if earliest is None else clock.ceil(earliest)
        latest_complete = clock.prev_tick(clock.floor(now))
        if earliest is None or earliest <= latest_complete:
            return latest_complete
        return clock.ceil(earliest)


class DeltaDataIntervalTimetable(StoredTimetable, frozen=True, tag="delta"):
    """Periods of one length, one after another: what `schedule=timedelta(hours=6)` means.

    `delta` is a timedelta or relativedelta. The grid starts at the start date (at the Unix epoch if there is none),
    also without catchup. Absolute time: local times of day move when clocks change. Months are counted on the UTC
    calendar.
    """

    delta: Delta

    if TYPE_CHECKING:

        def __init__(self, delta: Delta | timedelta | relativedelta) -> None: ...

    def __post_init__(self) -> None:
        force_setattr(self, "delta", Delta.of(self.delta))

    @property
    def summary(self) -> str:
        return str(self.delta)

    def validate(self) -> None:
        """Raise TimetableError if the delta does not move forward."""
        self.delta.validate()

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        begin = self._begin(restriction, now)
        if last is None:
            if begin is None:
                return None
            start = begin
        else:
            start = last.end if begin is None else max(last.end, begin)
            if start <= last.start:  # a run without a period: go on at the next point of the grid
                start = self.delta.after(self.delta.floor(start, anchor=self._anchor(restriction)))
        return period(start, self.delta.after(start), restriction)

    def manual_interval(self, run_after: datetime) -> DataInterval:
        """The period of one delta before `run_after`."""
        end = run_after.astimezone(UTC)
        return DataInterval(self.delta.before(end), end)

    def _begin(self, restriction: Restriction, now: datetime) -> datetime | None:
        earliest = None if restriction.earliest is None else restriction.earliest.astimezone(UTC)
        if restriction.catchup:
            return earliest
        anchor = self._anchor(restriction)
        if earliest is not None and self.delta.after(earliest) >= now:
            return earliest
        end = self.delta.floor(now.astimezone(UTC), anchor=anchor)
        return self.delta.floor(end - _INSTANT, anchor=anchor)

    def _anchor(self, restriction: Restriction) -> datetime:
        """A point of the grid."""
        return EPOCH if restriction.earliest is None else restriction.earliest.astimezone(UTC)


def period(start: datetime, end: datetime, restriction: Restriction) -> NextRun | None:
    """The run of [start, end), unless `start` is after the latest start."""
    if restriction.latest is not None and start > restriction.latest:
        return None
    interval = DataInterval(start, end)
    return NextRun(run_after=end, interval=interval)


def tidy(cron: str) -> str:
    """The expression with single spaces between its fields."""
    return " ".join(cron.split())


def zone_field(value: str | tzinfo) -> str:
    """The name to store; a name is kept unchanged and checked by `validate`."""
    return value if isinstance(value, str) else timezone_name(value)
