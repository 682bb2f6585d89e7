"""Timetables written by DAG authors, as the scheduler sees them: the runs that they listed.

The scheduler never runs the code of authors. Parsing the DAG calls the author's timetable for its runs, from the start
date to some time ahead, and stores them; parsing it again later adds the next ones.
Source: the semantics reference, section 11.1; docs/architecture.md, "From a file to a version".
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from aiosched.core.timetables.base import DataInterval, NextRun, Restriction


class ListedRun(NamedTuple):
    """One run: its interval, and the earliest instant at which it may start (UTC)."""

    start: datetime
    end: datetime
    run_after: datetime


class ManualStep(NamedTuple):
    """Runs triggered from `since` on are about this interval, until the next step (UTC)."""

    since: datetime
    start: datetime
    end: datetime


class CustomTimetable(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="custom"):
    """The results of an author's timetable when its DAG was parsed.

    `runs` are in order, later ones have later starts; they begin at the DAG's start date with catchup, else some time
    before the DAG was parsed. After the last one there is no run until the DAG is parsed again. A manual run is about
    the interval of its `manual_steps`, or with `manual_shift` (seconds) about the interval at that distance from the
    instant at which it was triggered.
    """

    name: str  # of the class
    description: str = ""
    runs: tuple[ListedRun, ...] = ()
    manual_steps: tuple[ManualStep, ...] = ()
    manual_shift: tuple[float, float] = (0.0, 0.0)
    periodic: bool = True
    can_be_scheduled: bool = True
    active_runs_limit: int | None = None
    partitioned_at_runtime: bool = False  # tasks, or whoever triggers a run, choose the keys of partitions

    @property
    def summary(self) -> str:
        return self.description or self.name

    def validate(self) -> None:
        """Always valid: its results were checked when they were listed."""

    def next_run(self, *, last: DataInterval | None, restriction: Restriction, now: datetime) -> NextRun | None:
        """The first listed run after `last`; without catchup no run before the latest due one.

        The start and end date were respected by the author's timetable.
        """
        position = 0 if last is None else bisect_right(self.runs, last.start, key=lambda run: run.start)
        if not restriction.catchup:
            due = bisect_right(self.runs, now, key=lambda run: run.run_after) - 1
            position = max(position, due)
        if position >= len(self.runs):
            return None
        run = self.runs[position]
        return NextRun(run_after=run.run_after, interval=DataInterval(run.start, run.end))

    def manual_interval(self, run_after: datetime) -> DataInterval:
        at = run_after.astimezone(UTC)
        if not self.manual_steps:
            before, after = self.manual_shift
            return DataInterval(at + timedelta(seconds=before), at + timedelta(seconds=after))
        step = bisect_right(self.manual_steps, at, key=lambda step: step.since) - 1
        if step >= 0:
            return DataInterval(self.manual_steps[step].start, self.manual_steps[step].end)
        run = bisect_right(self.runs, at, key=lambda run: run.run_after) - 1
        return DataInterval(self.runs[run].start, self.runs[run].end) if run >= 0 else DataInterval.exact(at)


@runtime_checkable
class StandsForTimetable(Protocol):
    """What authors write: an instance of their own timetable class."""

    def to_timetable(self) -> CustomTimetable:
        """The timetable without its runs, which are listed when the DAG is serialized."""
        ...
