"""The next scheduled run of a DAG, as a function of its rows and the time.

Lives here: skipping dates that already have a run, the logical dates of `@continuous` and its pause after failures.
Does not live here: when ticks happen (core/timetables), what else decides whether a run is due (run_creation.py).
Source: the semantics reference, sections 11.5 and 13.1; docs/semantics.md, "When runs happen".
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final, NamedTuple

from aiosched.core.creation.run_creation import compute_next, restriction_of
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables import (
    ContinuousTimetable,
    DataInterval,
    NextRun,
    UpcomingRun,
    clock_note,
    timed,
    upcoming,
)
from aiosched.core.values.states import RunState
from aiosched.errors import TimetableError

FIRST_PAUSE: Final = timedelta(seconds=1)  # the pause of @continuous after one failure; each further failure doubles it
LONGEST_PAUSE: Final = timedelta(minutes=5)
MOST_FAILURES: Final = 10  # further consecutive failures do not lengthen the pause
_INSTANT: Final = timedelta(microseconds=1)


class FailureStreak(NamedTuple):
    """The latest consecutive failures of a schedule; `since` is when the latest run ended."""

    runs: int
    since: datetime

    @property
    def over_at(self) -> datetime:
        """When the pause of `@continuous` after these failures ends."""
        return self.since + min(FIRST_PAUSE * float(2 ** (self.runs - 1)), LONGEST_PAUSE)


class SchedulePosition(NamedTuple):
    """The position of a DAG's schedule.

    last      the interval of the latest run that the schedule has created, by logical date; None before the first
    taken     the logical dates, from the start of `last` on, at which the DAG has runs of any type; those before
              `first_date` may be left out
    failures  only for `@continuous`: its latest runs, if they failed
    """

    last: DataInterval | None = None
    taken: frozenset[datetime] = frozenset()
    failures: FailureStreak | None = None

    def after(self, run: NextRun) -> SchedulePosition:
        """The position after `run` was created."""
        return self._replace(last=run.interval, taken=self.taken | {run.logical_date})


def next_scheduled_run(spec: DagSpec, position: SchedulePosition, now: datetime) -> NextRun | None:
    """The next run of the schedule, None if there is none. Raises TimetableError as `compute_next` does.

    A date that already has a run, created by a user or by a backfill, is skipped. So is one before the latest run of
    the schedule, which a changed schedule can give: it may have a run, and time only goes on. No other date is.
    """
    run = compute_next(spec, position.last, now)
    if is_continuous(spec):
        return None if run is None else _continuous(run, position)
    while run is not None and (run.logical_date in position.taken or _is_before(run, position.last)):
        run = compute_next(spec, run.interval, now)
    return run


def first_date(spec: DagSpec, last: DataInterval | None, now: datetime) -> datetime | None:
    """The first logical date that `next_scheduled_run` tries after `last`; None if it tries none."""
    try:
        run = compute_next(spec, last, now)
    except TimetableError:  # it raises that, too
        return None
    return None if run is None else run.logical_date


def _is_before(run: NextRun, last: DataInterval | None) -> bool:
    return last is not None and run.logical_date is not None and run.logical_date < last.start


def coming_runs(spec: DagSpec, position: SchedulePosition, *, now: datetime, n: int) -> list[UpcomingRun]:
    """The next `n` scheduled runs, to display; fewer if a run depends on the end of the previous one."""
    first = next_scheduled_run(spec, position, now)
    if first is None:
        return []
    found = [UpcomingRun(first, clock_note(spec.timetable, first))]
    if is_continuous(spec):
        return found
    restriction, most = restriction_of(spec), n + len(position.taken)
    later = upcoming(spec.timetable, restriction=restriction, now=now, n=most, last=first.interval)
    return [*found, *islice((one for one in later if one.run.logical_date not in position.taken), n - 1)]


def is_continuous(spec: DagSpec) -> bool:
    """Whether the DAG's next run starts when the last one has ended."""
    return isinstance(timed(spec.timetable), ContinuousTimetable)


def failure_streak(newest_first: Iterable[tuple[RunState, datetime | None]]) -> FailureStreak | None:
    """The consecutive failures among the latest runs, given as (state, end); None if the latest has not failed."""
    failed = list(takewhile(lambda run: run[0] is RunState.FAILED, newest_first))
    ends = [end for _, end in failed if end is not None]
    return FailureStreak(min(len(failed), MOST_FAILURES), max(ends)) if ends else None


def _continuous(run: NextRun, position: SchedulePosition) -> NextRun:
    """Not before the pause has ended, and at a logical date that no run has."""
    date = run.interval.start
    while date in position.taken:  # an interval starts where the last one ended, even if that has length zero
        date += _INSTANT
    if position.failures is not None:
        due = max(run.run_after, position.failures.over_at)
        run = NextRun(due, DataInterval(run.interval.start, max(run.interval.end, due)))
    return run if date == run.interval.start else run._replace(date=date)
