"""The interface of timetables. Source: the semantics reference, section 11.1."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final, NamedTuple

import msgspec

LEAST_GRACE: Final = timedelta(minutes=5)  # how late a first run without start date can be


class DataInterval(NamedTuple):
    """The period whose data a run is about: start inclusive, end exclusive, aware, UTC."""

    start: datetime
    end: datetime

    @classmethod
    def exact(cls, at: datetime) -> DataInterval:
        """The interval without length at `at`."""
        at = at.astimezone(UTC)
        return cls(at, at)


class Restriction(NamedTuple):
    """What limits a schedule. Both edges are inclusive; aware or None."""

    earliest: datetime | None
    latest: datetime | None
    catchup: bool


class Partition(NamedTuple):
    """The part of an asset that a run is about: its key, and the instant that the key stands for, if any (UTC)."""

    key: str
    date: datetime | None = None


class NextRun(NamedTuple):
    """A run that should exist: its interval and the earliest instant at which it may start (UTC).

    `date` is its logical date, None where that is the start of the interval; `partition` the partition that it is
    about, None for a schedule without partitions.
    """

    run_after: datetime
    interval: DataInterval
    date: datetime | None = None
    partition: Partition | None = None

    @property
    def logical_date(self) -> datetime:
        return self.date or self.interval.start


class StoredTimetable(msgspec.Struct, frozen=True, tag_field="kind"):
    """When runs happen, as it is stored in the serialized DAG; what most timetables have in common.

    `next_run` gets the interval of the latest run of the schedule (None before the first) and returns the next run, or
    None for "no run". It never reads a clock: `now` is given. Results are in UTC. `manual_interval` is the interval of
    a run triggered at `run_after`, here one without length. Each timetable has a `summary`: the schedule in a few
    characters, as users write it, such as `0 0 * * *`, `@once` or `1 day`.
    """

    periodic: ClassVar[bool] = True  # a backfill over it makes sense
    can_be_scheduled: ClassVar[bool] = True
    active_runs_limit: ClassVar[int | None] = None

    def validate(self) -> None:
        """Raise TimetableError, naming the remedy, if the schedule is invalid."""

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        """No run by the clock."""
        return None

    def manual_interval(self, run_after: datetime) -> DataInterval:
        return DataInterval.exact(run_after)
