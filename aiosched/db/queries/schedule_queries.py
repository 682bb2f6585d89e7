"""Read-only queries on schedules that are data, for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, tuple_

from aiosched.core.creation.durable_schedules import Terms
from aiosched.core.values.json_bounds import shown_object
from aiosched.db.access.only_seen import only_seen
from aiosched.db.access.visibility import Seen
from aiosched.db.queries.queries import fetch
from aiosched.db.schema.schema import dag_schedule
from aiosched.db.server.engine import Database
from aiosched.db.statements.dag_schedules import StoredSchedule, outcomes
from aiosched.errors import NotFound


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule of a DAG: one of `cron` (in `timezone`), `every` (seconds) and `at`; instants are UTC.

    `last_at` is the instant of its last run, `last_state` the state of that, or refused or waiting for the request
    for it; `error` why it was refused, or why the schedule has stopped. Secrets of its `conf` are `***`.
    """

    dag_id: str
    name: str
    summary: str
    cron: str | None
    every: float | None
    at: datetime | None
    timezone: str
    start: datetime | None
    end: datetime | None
    catchup: bool
    conf: Mapping[str, Any]
    is_paused: bool
    last_at: datetime | None
    next_at: datetime | None
    last_state: str | None
    error: str | None


_TERMS = ("cron", "every", "at", "timezone", "starts_at", "ends_at", "catchup", "since")
_REST = ("conf", "is_paused", "last_at", "next_at", "error", "id")


async def list_schedules(
    db: Database,
    *,
    dag_id: str | None = None,
    name: str | None = None,
    after: tuple[str, str] | None = None,
    limit: int = 1000,
    seen: Seen = None,
) -> list[Schedule]:
    """Schedules by DAG and name, of one DAG or of all that are `seen`, after that one."""
    place, columns = (dag_schedule.c.dag_id, dag_schedule.c.name), dag_schedule.c
    query = select(*place, *(columns[column] for column in (*_TERMS, *_REST))).order_by(*place).limit(limit)
    query = only_seen(query, dag_schedule.c.dag_id, seen)
    if dag_id is not None:
        query = query.where(dag_schedule.c.dag_id == dag_id)
    if name is not None:
        query = query.where(dag_schedule.c.name == name)
    if after is not None:
        query = query.where(tuple_(*place) > tuple_(*after))
    found = [
        (StoredSchedule(row[0], row[1], Terms(*row[2:10]), "", *row[11:]), row[10]) for row in await fetch(db, query)
    ]
    async with db.acquire() as conn:
        states = await outcomes(conn, [stored for stored, _ in found])
    return [_shown(stored, conf, *states.get(stored[:2], (None, None))) for stored, conf in found]


async def get_schedule(db: Database, dag_id: str, name: str) -> Schedule:
    """One schedule. Raises NotFound."""
    found = await list_schedules(db, dag_id=dag_id, name=name)
    if not found:
        raise NotFound(f"DAG {dag_id!r} has no schedule {name!r}; see `aiosched schedules list --dag {dag_id}`.")
    return found[0]


def _shown(stored: StoredSchedule, conf: Any, last_state: str | None, refused: str | None) -> Schedule:
    terms = stored.terms
    return Schedule(
        stored.dag_id,
        stored.name,
        terms.summary,
        terms.cron,
        terms.every,
        terms.at,
        terms.timezone,
        terms.start,
        terms.end,
        terms.catchup,
        shown_object(conf) if isinstance(conf, str) else conf,
        stored.is_paused,
        stored.last_at,
        stored.next_at,
        last_state,
        stored.error or refused,
    )
