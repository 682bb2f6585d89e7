"""Schedules of a DAG that are data: at which instants one starts a run, and when it is next. Pure.

Catchup is that of DAGs: without it only the last of the missed instants counts, with it each. Source: docs/jobs.md.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from aiosched.core.timetables.base import DataInterval, Restriction
from aiosched.core.timetables.delta import Delta
from aiosched.core.timetables.parse import AnyTimetable, parse_schedule
from aiosched.core.timetables.simple import OnceTimetable
from aiosched.core.timetables.trigger import DeltaTriggerTimetable
from aiosched.errors import Refused

LEAST_SECONDS: Final = 0.1
_MOST_SECONDS: Final = 36_500 * 86_400.0
MOST_AT_ONCE: Final = 100  # missed instants of one schedule that are caught up with in one pass
_MOST_NAME: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9_.~:+-]+")  # it begins the ids of runs


class Terms(NamedTuple):
    """When a schedule starts runs: by one of `cron`, `every` (seconds) and `at`; instants are aware.

    `since` is when it got these terms: no instant before counts unless `start` says so.
    """

    cron: str | None
    every: float | None
    at: datetime | None
    timezone: str
    start: datetime | None
    end: datetime | None
    catchup: bool
    since: datetime

    @property
    def timetable(self) -> AnyTimetable:
        """Raises TimetableError."""
        if self.at is not None:
            return OnceTimetable()
        if self.cron is not None:
            return parse_schedule(self.cron, timezone=self.timezone, at_tick=True)
        found = DeltaTriggerTimetable(Delta.of(timedelta(seconds=self.every or 0)))
        found.validate()
        return found

    @property
    def summary(self) -> str:
        """In a few words."""
        if self.at is not None:
            return f"at {self.at.isoformat()}"
        return f"{self.cron} ({self.timezone})" if self.cron is not None else f"every {self.every:g} s"

    def differ(self, other: Terms) -> bool:
        """Whether the other one is about other instants."""
        return self._replace(since=other.since, catchup=other.catchup) != other


class DueInstants(NamedTuple):
    """The instants that are due, oldest first, and the next one; None if there is none."""

    instants: tuple[datetime, ...]
    next_at: datetime | None


def check_terms(name: str, terms: Terms) -> None:
    """Raise Refused for a schedule that cannot be, TimetableError for an expression or a zone that is none."""
    if not _NAME.fullmatch(name) or len(name) > _MOST_NAME or name in (".", ".."):  # which leave an address
        raise Refused(
            f"The name of a schedule begins the ids of its runs: 1 to {_MOST_NAME} of A-Z a-z 0-9 _ . ~ : + -, "
            "not '.' or '..'"
        )
    given = [one for one in (terms.cron, terms.every, terms.at) if one is not None]
    if len(given) != 1:
        raise Refused(f"A schedule has one of cron, every and at, not {len(given) or 'none'} of them.")
    if terms.cron is not None and terms.cron.strip().lower() in ("@once", "@continuous"):
        raise Refused(f"{terms.cron} is a schedule of a DAG: give `at`, or a cron expression.")
    if terms.at is not None and terms.start is not None:
        raise Refused("A schedule with `at` has no `start`.")
    for instant in (terms.at, terms.start, terms.end):
        if instant is not None and instant.tzinfo is None:
            raise Refused(f"{instant.isoformat()} has no time zone.")
    if terms.every is not None and not LEAST_SECONDS <= terms.every < math.inf:
        raise Refused(f"A schedule runs every {LEAST_SECONDS} seconds at most, not every {terms.every}.")
    if terms.every is not None and terms.every > _MOST_SECONDS:
        raise Refused(f"A schedule runs once in a hundred years at least, not every {terms.every} seconds.")
    _ = terms.timetable


def due_instants(terms: Terms, last: datetime | None, now: datetime, most: int = MOST_AT_ONCE) -> DueInstants:
    """What is due at `now`, after the instant `last` for which a run was started; at most so many.

    Raises TimetableError or OverflowError.
    """
    timetable = terms.timetable
    restriction = Restriction(terms.at or terms.start or terms.since, terms.end, terms.catchup)
    found: list[datetime] = []
    while True:
        interval = None if last is None else DataInterval.exact(last)
        run = timetable.next_run(last=interval, restriction=restriction, now=now)
        if run is None or run.run_after > now or len(found) == most:
            return DueInstants(tuple(found), None if run is None else run.run_after)
        found.append(last := run.run_after)
