"""Read-only queries on schedules that are data, for people."""

from __future__ import annotations

from sqlalchemy import select, tuple_

from aiosched.core.creation.durable_schedules import Terms
from aiosched.core.values.commands import command_line
from aiosched.db.access.only_seen import only_seen
from aiosched.db.access.visibility import Seen
from aiosched.db.queries.queries import fetch
from aiosched.db.schema.schema import dag_schedule
from aiosched.db.server.engine import Database
from aiosched.db.statements.dag_schedules import Schedule, StoredSchedule, outcomes, shown_schedule
from aiosched.errors import NotFound

_TERMS = ("cron", "every", "at", "timezone", "starts_at", "ends_at", "catchup", "since")
_REST = ("conf", "is_paused", "last_at", "next_at", "error", "id")


async def list_schedules(
    db: Database,
    *,
    dag_id: str | None = None,
    name: str | None = None,
    paused: bool | None = None,
    after: tuple[str, str] | None = None,
    limit: int = 1000,
    seen: Seen = None,
) -> list[Schedule]:
    """Schedules by DAG and name, of one DAG or of all that are `seen`, after that one; `paused` ones or the others."""
    place, columns = (dag_schedule.c.dag_id, dag_schedule.c.name), dag_schedule.c
    query = select(*place, *(columns[column] for column in (*_TERMS, *_REST))).order_by(*place).limit(limit)
    query = only_seen(query, dag_schedule.c.dag_id, seen)
    if dag_id is not None:
        query = query.where(dag_schedule.c.dag_id == dag_id)
    if paused is not None:
        query = query.where(dag_schedule.c.is_paused == paused)
    if name is not None:
        query = query.where(dag_schedule.c.name == name)
    if after is not None:
        query = query.where(tuple_(*place) > tuple_(*after))
    found = [
        (StoredSchedule(row[0], row[1], Terms(*row[2:10]), "", *row[11:]), row[10]) for row in await fetch(db, query)
    ]
    states = await outcomes(db, [stored for stored, _ in found])
    return [shown_schedule(stored, conf, *states.get(stored[:2], (None, None))) for stored, conf in found]


async def get_schedule(db: Database, dag_id: str, name: str) -> Schedule:
    """One schedule. Raises NotFound."""
    found = await list_schedules(db, dag_id=dag_id, name=name)
    if not found:
        see = command_line("schedules list", options=("--dag", dag_id))
        raise NotFound(f"DAG {dag_id!r} has no schedule {name!r}; see `{see}`.")
    return found[0]
