"""Small builders for tests of `aiosched.testing`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.errors import Refused
from aiosched.testing import World

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


def history(world: World, dag_id: str = "d") -> list[tuple[Any, ...]]:
    """All runs of a DAG with their instants and their tasks, as they stand in the rows."""
    found = []
    for run in world.runs(dag_id):
        name = run.run_id if run.logical_date is not None else run.run_id.partition("__")[0]  # else it ends by chance
        dates = (run.logical_date, run.interval_start, run.interval_end, run.run_after, run.start_date, run.end_date)
        tasks = sorted((place, row.state, row.try_number) for place, row in world.rows.instances[run.key].items())
        found.append((name, run.state.value, run.reason, *map(shown, dates), *tasks))
    return sorted(found)


def shown(instant: datetime | None) -> str:
    return "" if instant is None else instant.isoformat()


async def happen(world: World, kind: str | None, dag_id: str) -> None:
    """An accident of the scheduler, or what somebody does to the DAG or the pool `etl`; None: nothing."""
    match kind:
        case "restart":
            await world.restart()
        case "crash":
            await world.crash()
        case "lost before" | "lost after":
            world.lose_next_commit(stored=kind == "lost after")
        case "pause":
            world.pause(dag_id)
        case "unpause":
            world.unpause(dag_id)
        case "shrink" | "grow":
            world.pool("etl", slots=0 if kind == "shrink" else 4)
        case "cancel runs":
            for run in world.runs(dag_id):
                if run.state == "running":
                    with contextlib.suppress(Refused):  # its end is decided and not stored yet
                        world.cancel(dag_id, run.run_id)
