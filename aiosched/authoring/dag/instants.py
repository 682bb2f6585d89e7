"""Instants of a schedule before and after another one, as Airflow's DAGs tell them. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from aiosched.core.timetables.base import DataInterval, Restriction
from aiosched.core.timetables.parse import AnyTimetable
from aiosched.core.values.instants import plain_utc

_FARTHEST = timedelta(days=366 * 30)


def following(timetable: AnyTimetable, at: datetime) -> datetime | None:
    """The first logical date after `at`, without limits of the DAG; None if there is none."""
    at = plain_utc(at)
    run = timetable.next_run(last=DataInterval.exact(at), restriction=Restriction(None, None, True), now=at)
    if run is None:
        return None
    return run.interval.end if run.interval.start <= at else run.interval.start


def previous(timetable: AnyTimetable, at: datetime) -> datetime | None:
    """The last logical date before `at`; None if there is none within thirty years."""
    at = plain_utc(at)
    after = following(timetable, at)
    back = timedelta(days=1) if after is None else max(after - at, timedelta(seconds=1))
    while back < _FARTHEST:
        found, last = following(timetable, at - back), None
        while found is not None and found < at:
            last, found = found, following(timetable, found)
        if last is not None:
            return last
        back *= 2
    return None
