"""When tasks have missed their SLA, as in Airflow 1.10. Pure. Source: the semantics reference, section 23.3.

Let D be the latest logical date for which a task is done. The first schedule date after D is not checked; each later
one, d, is a miss as soon as d + `sla` has passed (strictly). In effect the work of the date before d is then late.
Nothing is late before the task was done for the first time, after the DAG's end date, or without a schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final

from aiosched.core.creation.run_creation import restriction_of
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables import scheduled_between
from aiosched.core.timetables.delta import EPOCH
from aiosched.core.values.instants import LATEST, just_after, later

MOST_AT_ONCE: Final = 100  # misses of one task that one check records; the next check continues after them


def slas_of(spec: DagSpec) -> dict[str, float]:
    """The SLAs of the tasks that have one, in seconds; none for a DAG without schedule dates."""
    if not spec.timetable.periodic:
        return {}
    return {task.task_id: task.sla for task in spec.tasks if task.sla is not None}


def next_check(spec: DagSpec, now: datetime) -> datetime | None:
    """The earliest instant after `now` at which a schedule date becomes a miss, for a task that was not done in time.

    It depends on the schedule alone, so it is valid whatever happens to the runs in the meantime.
    """
    checks = []
    for sla in set(slas_of(spec).values()):
        try:
            passed = now - timedelta(seconds=sla)
        except OverflowError:  # before the beginning of the calendar
            continue
        coming = next(_dates(spec, passed, EPOCH), None)
        if coming is not None and (at := later(coming, sla)) < LATEST:
            checks.append(just_after(at))
    return min(checks, default=None)


def missed_dates(
    spec: DagSpec, sla: float, *, done: datetime | None, recorded: datetime | None, now: datetime
) -> list[datetime]:
    """The schedule dates to record as missed now for a task with this SLA (seconds), oldest first.

    `done` is the latest logical date at which the task is success or skipped, `recorded` the newest date recorded as a
    miss: earlier dates are not checked again. At most `MOST_AT_ONCE` of them.
    """
    if done is None:
        return []
    dates = (date for date in _dates(spec, done, done) if date > done)
    if (first := next(dates, None)) is None:
        return []
    if recorded is not None and recorded > first:
        dates = (date for date in _dates(spec, recorded, done) if date > recorded)
    late = takewhile(lambda date: later(date, sla) < now, dates)
    return list(islice(late, MOST_AT_ONCE))


def _dates(spec: DagSpec, first: datetime, anchor: datetime) -> Iterator[datetime]:
    """The DAG's schedule dates from `first` on; the grid of a delta goes through the start date, else `anchor`."""
    limits = restriction_of(spec)
    runs = scheduled_between(
        spec.timetable, first, limits.latest or LATEST, now=LATEST, anchor=limits.earliest or anchor
    )
    return (run.logical_date for run in runs)
