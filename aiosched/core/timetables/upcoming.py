"""The next runs, to display, and the runs in a range, for backfills.

Source: the semantics reference, sections 12 (clock changes) and 29.1 (dates of a backfill).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import dropwhile, takewhile
from typing import Final

from aiosched.core.timetables.assets import AssetOrTimeSchedule
from aiosched.core.timetables.base import DataInterval, NextRun, Restriction
from aiosched.core.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from aiosched.core.timetables.parse import AnyTimetable
from aiosched.core.timetables.trigger import (
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from aiosched.core.timetables.wallclock import WallClock
from aiosched.errors import TimetableError

# Raised for instants after the year 9999: by datetime, by dateutil and by a cron expression without a tick before.
_CALENDAR_ENDS: Final = (OverflowError, ValueError, TimetableError)


@dataclass(frozen=True, slots=True)
class UpcomingRun:
    """A future run; `note` describes the effect of a clock change on it, None if there is none."""

    run: NextRun
    note: str | None


def upcoming(
    timetable: AnyTimetable,
    *,
    restriction: Restriction,
    now: datetime,
    n: int,
    last: DataInterval | None = None,
) -> Iterator[UpcomingRun]:
    """At most `n` runs after `last` (the latest one of the schedule), in order, as known at `now`.

    Ends early if the timetable or the calendar (with the year 9999) ends, or if the next run depends on the end of the
    previous one (`@continuous`).
    """
    previous: NextRun | None = None
    for _ in range(n):
        try:
            run = timetable.next_run(last=last, restriction=restriction, now=now)
        except _CALENDAR_ENDS:
            return
        if run is None or (previous is not None and run.run_after <= previous.run_after):
            return
        yield UpcomingRun(run, clock_note(timetable, run))
        previous, last = run, run.interval


def scheduled_between(
    timetable: AnyTimetable, first: datetime, final: datetime, *, now: datetime, anchor: datetime | None
) -> Iterator[NextRun]:
    """The runs whose logical date is in [first, final] and whose interval ended before `now`, in order.

    Catchup and the DAG's own dates do not matter; only the grid of a delta goes through `anchor`, the earliest start
    date (through `first` if there is none).

    Source: the semantics reference, section 29.1.
    """
    return takewhile(lambda run: run.interval.end < now, _between(timetable, first, final, now, anchor))


def first_unfinished(
    timetable: AnyTimetable, first: datetime, final: datetime, *, now: datetime, anchor: datetime | None
) -> NextRun | None:
    """The first run whose logical date is in [first, final] and whose interval has not ended before `now`."""
    runs = _between(timetable, first, final, now, anchor)
    return next(dropwhile(lambda run: run.interval.end < now, runs), None)


def _between(
    timetable: AnyTimetable, first: datetime, final: datetime, now: datetime, anchor: datetime | None
) -> Iterator[NextRun]:
    begin = first.astimezone(UTC)
    timetable = timed(timetable)
    if anchor is not None and isinstance(timetable, (DeltaDataIntervalTimetable, DeltaTriggerTimetable)):
        begin = timetable.delta.floor(begin, anchor=anchor.astimezone(UTC))
    restriction = Restriction(begin, None, catchup=True)
    run = timetable.next_run(last=None, restriction=restriction, now=now)
    while run is not None and run.logical_date <= final:
        if run.logical_date >= first:
            yield run
        run = timetable.next_run(last=run.interval, restriction=restriction, now=now)


def is_trigger(timetable: AnyTimetable) -> bool:
    """True when runs happen at the tick, so that dates are compared with the tick, not with the interval's start."""
    return isinstance(timed(timetable), (CronTriggerTimetable, MultipleCronTriggerTimetable, DeltaTriggerTimetable))


def clock_note(timetable: AnyTimetable, run: NextRun) -> str | None:
    """The effect of a clock change on `run`, such as `23 h interval: clocks go forward`; None without one."""
    timetable = timed(timetable)
    try:
        if isinstance(timetable, CronDataIntervalTimetable):
            return _note(timetable.clock, run.interval.start, run.interval.end, kind="interval")
        if isinstance(timetable, CronTriggerTimetable):
            before = timetable.clock.prev_tick(run.run_after)
            return _note(timetable.clock, before, run.run_after, kind="since the last tick")
    except _CALENDAR_ENDS:
        return None
    return None


def timed(timetable: AnyTimetable) -> AnyTimetable:
    """The part that follows the clock."""
    return timetable.timetable if isinstance(timetable, AssetOrTimeSchedule) else timetable


def clock_zone(timetable: AnyTimetable) -> str | None:
    """The name of the time zone whose clock a schedule follows; None if it follows none."""
    return getattr(timed(timetable), "timezone", None)


def _note(clock: WallClock, begin: datetime, end: datetime, *, kind: str) -> str | None:
    change = _offset(clock, end) - _offset(clock, begin)
    if not change:
        return None
    wall = end.astimezone(clock.zone).replace(tzinfo=None)
    forward = change > timedelta(0)
    note = f"{_length(end - begin)} {kind}: clocks go {'forward' if forward else 'back'}"
    asked = wall - change
    if forward and clock.cron.is_tick(asked) and end in (moved := clock.meaning(asked)).instants and moved.skipped:
        return f"{note}, {_time(asked)} becomes {_time(wall)}"
    if not clock.cron.every_hour and clock.meaning(wall).repeated:
        return f"{note}, of two {_time(wall)} the second counts"
    return note


def _offset(clock: WallClock, t: datetime) -> timedelta:
    return t.astimezone(clock.zone).utcoffset() or timedelta(0)


def _length(length: timedelta) -> str:
    seconds = length.total_seconds()
    return f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds / 60:g} min"


def _time(wall: datetime) -> str:
    return wall.strftime("%H:%M:%S" if wall.second else "%H:%M")
