"""How a schedule goes on after the last run that another scheduler has made.

What counts is when that run was due. So a period that was processed there is not processed again here, and none is left
out, even if the other scheduler has another rule for logical dates (the start or the end of the period).
Does not live here: storing that run (scheduler/requests/continuing.py), what comes next (next_run.py).
Source: docs/migration.md, "Schedules go on"; the semantics reference, sections 11 and 13.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from aiosched.core.creation.next_run import SchedulePosition, is_continuous
from aiosched.core.creation.run_creation import PlannedRun, automated_run, restriction_of
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables import (
    CronDataIntervalTimetable,
    DataInterval,
    DeltaDataIntervalTimetable,
    NextRun,
    is_trigger,
    scheduled_between,
    timed,
)
from aiosched.core.values.instants import stamp
from aiosched.core.values.states import FINISHED, RUN_FINISHED, RunState, TaskState
from aiosched.errors import Refused

_INSTANCE: Final = re.compile(r"(?P<task>[^\[\]]+)(?:\[(?P<index>\d{1,9})\])?")
_WITHOUT_START: Final = frozenset({TaskState.SKIPPED, TaskState.UPSTREAM_FAILED, TaskState.REMOVED})


class RunElsewhere(NamedTuple):
    """The last run of the other scheduler. `run_after` is when it was due, None if it does not say. Instants aware."""

    logical_date: datetime
    run_after: datetime | None
    state: RunState


class FinishedInstance(NamedTuple):
    """A task instance of the run that was made elsewhere."""

    task: int
    map_index: int
    state: TaskState
    tries: int  # 0 if it never started
    max_tries: int


def continued_run(
    spec: DagSpec, last: RunElsewhere, position: SchedulePosition, now: datetime
) -> tuple[PlannedRun, NextRun] | str:
    """The run to store so that the schedule goes on after it, or why there is nothing left to store.

    Raises Refused if the DAG cannot go on after it.
    """
    name = f"DAG {spec.dag_id!r}"
    if last.state not in RUN_FINISHED:
        raise Refused(f"{name}: only a finished run can be continued after, not a {last.state} one.")
    if not spec.timetable.can_be_scheduled:
        raise Refused(f"{name} has no schedule that follows the clock, so there is nothing to continue.")
    run = _same_run(spec, last.logical_date.astimezone(UTC), last.run_after, now)
    if position.last is not None and position.last.end >= run.interval.end:
        return f"it goes on here already, after the run of {stamp(position.last.start)}"
    if run.logical_date in position.taken:
        return f"it has a run with the logical date {stamp(run.logical_date)} already"
    return automated_run(run), run


def _same_run(spec: DagSpec, logical_date: datetime, run_after: datetime | None, now: datetime) -> NextRun:
    """The run of this DAG's timetable that is due when the other scheduler's was."""
    timetable = timed(spec.timetable)
    if run_after is None:
        anchor = restriction_of(spec).earliest
        if is_continuous(spec):
            return NextRun(logical_date, DataInterval.exact(logical_date))
        found = next(scheduled_between(timetable, logical_date, logical_date, now=now, anchor=anchor), None)
        if found is not None:
            return found
        run_after = logical_date  # the schedule was another one then: it goes on after that date
    run_after = run_after.astimezone(UTC)
    if is_trigger(timetable) or isinstance(timetable, CronDataIntervalTimetable | DeltaDataIntervalTimetable):
        interval = timetable.manual_interval(run_after)
        return NextRun(run_after, interval)
    return NextRun(run_after, DataInterval(min(logical_date, run_after), run_after), logical_date)


def finished_instances(graph: Graph, states: Mapping[str, Any]) -> list[FinishedInstance]:
    """The task instances to store: those in final states, of tasks that this version of the DAG has.

    One of a mapped task needs an index unless it never started, one of another task has none; others are left out.
    """
    found = []
    for key, value in states.items():
        named = _INSTANCE.fullmatch(key)
        state = value if isinstance(value, str) else ""
        if named is None or named["task"] not in graph.index or state not in FINISHED:
            continue
        task, final = graph.index[named["task"]], TaskState(state)
        is_mapped = graph.mappings is not None and bool(graph.mappings.units[task])
        index = -1 if named["index"] is None else int(named["index"])
        if is_mapped == (index >= 0) or (is_mapped and final in _WITHOUT_START):
            tries = 0 if final in _WITHOUT_START else 1
            found.append(FinishedInstance(task, index, final, tries, graph.tasks[task].retries))
    return found
