"""Small builders for tests of `aiosched.testing`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def at(hour: int = 0, minute: int = 0, *, day: int = 1) -> datetime:
    """An instant in January 2026, UTC."""
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def task(task_id: str, *, after: str | Iterable[str] = (), **options: Any) -> TaskSpec:
    """A task behind those named in `after`."""
    upstream = tuple(after.split()) if isinstance(after, str) else tuple(after)
    return TaskSpec(task_id=task_id, operator="Scripted", upstream=tuple(sorted(upstream)), **options)


def dag(dag_id: str, *tasks: TaskSpec, schedule: object = None, **options: Any) -> DagSpec:
    """A DAG of `tasks` (one task `a`, when none is given)."""
    timetable = parse_schedule(schedule, start_date=options.get("start_date"))
    return DagSpec(dag_id=dag_id, timetable=timetable, tasks=tasks or (task("a"),), **options)
