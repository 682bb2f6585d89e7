"""The schedule positions of a `World`, in place of the statements in db/statements/schedules.py."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from aiosched.core.creation.next_run import MOST_FAILURES, SchedulePosition, failure_streak, is_continuous
from aiosched.core.graph.spec import DagSpec
from aiosched.core.run.board import Run
from aiosched.core.timetables.base import DataInterval
from aiosched.db.statements.runs import NewRun
from aiosched.db.statements.schedules import BY_TIMETABLE


@dataclass(slots=True)
class Schedules:
    """The logical dates of all runs, and the runs that schedules have created, by DAG id."""

    _dates: dict[str, list[datetime]] = field(default_factory=dict)  # in order
    _made: dict[str, list[tuple[datetime, int]]] = field(default_factory=dict)  # date and key, in order
    _assumed: dict[str, DataInterval] = field(default_factory=dict)

    def has_run_at(self, dag_id: str, date: datetime | None) -> bool:
        """Whether the DAG has a run of this logical date."""
        dates = self._dates.get(dag_id, [])
        return date is not None and (place := bisect_left(dates, date)) < len(dates) and dates[place] == date

    def add(self, new: NewRun, key: int) -> None:
        """Add a run."""
        run = new.run
        if run.logical_date is not None:
            insort(self._dates.setdefault(run.dag_id, []), run.logical_date)
            if new.triggered_by == BY_TIMETABLE:
                insort(self._made.setdefault(run.dag_id, []), (run.logical_date, key))

    def assume(self, dag_id: str, last: DataInterval) -> None:
        """Act as if the schedule had created the run of this interval."""
        self._assumed[dag_id] = last

    def position(self, spec: DagSpec, runs: Mapping[int, Run]) -> SchedulePosition:
        """The position of a DAG's schedule."""
        if not spec.timetable.can_be_scheduled:
            return SchedulePosition()
        made = [runs[key] for _, key in self._made.get(spec.dag_id, [])[-MOST_FAILURES:][::-1]]
        found = [
            DataInterval(run.interval_start, run.interval_end)
            for run in made[:1]
            if run.interval_start and run.interval_end
        ]
        if (assumed := self._assumed.get(spec.dag_id)) is not None:
            found.append(assumed)
        last = max(found, default=None)
        dates = self._dates.get(spec.dag_id, [])
        taken = frozenset(dates if last is None else dates[bisect_left(dates, last.start) :])
        failures = failure_streak((run.state, run.end_date) for run in made) if is_continuous(spec) else None
        return SchedulePosition(last, taken, failures)
