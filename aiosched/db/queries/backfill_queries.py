"""Read-only queries on backfills, for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select

from aiosched.db.access.only_seen import only_seen
from aiosched.db.access.visibility import Seen
from aiosched.db.queries.queries import fetch
from aiosched.db.schema.schema import backfill, dag_run
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound


@dataclass(frozen=True, slots=True)
class BackfillRow:
    """A backfill and the number of its runs in each state. Dates are inclusive, UTC."""

    id: int
    dag_id: str
    from_date: datetime
    to_date: datetime
    rerun: str
    max_active_runs: int
    backwards: bool
    is_paused: bool
    created_at: datetime
    completed_at: datetime | None
    total: int
    running: int
    finished: int
    failed: int

    @property
    def state(self) -> str:
        """running, paused, completed or cancelled (completed while paused)."""
        if self.completed_at is not None:
            return "cancelled" if self.is_paused else "completed"
        return "paused" if self.is_paused else "running"


async def list_backfills(
    db: Database, *, dag_id: str | None = None, before: int | None = None, limit: int = 25, seen: Seen = None
) -> list[BackfillRow]:
    """The newest backfills, of one DAG or of all that are `seen`, older than the one with the number `before`."""
    query = only_seen(_query().order_by(backfill.c.id.desc()).limit(limit), backfill.c.dag_id, seen)
    if before is not None:
        query = query.where(backfill.c.id < before)
    if dag_id is not None:
        query = query.where(backfill.c.dag_id == dag_id)
    return [BackfillRow(*row) for row in await fetch(db, query)]


async def get_backfill(db: Database, number: int) -> BackfillRow:
    """One backfill. Raises NotFound."""
    rows = await fetch(db, _query().where(backfill.c.id == number))
    if not rows:
        raise NotFound(f"There is no backfill {number}; see `aiosched backfill list`.")
    return BackfillRow(*rows[0])


def _query() -> Select[Any]:
    states = (
        select(
            func.count().label("total"),
            func.count().filter(dag_run.c.state == "running").label("running"),
            func.count().filter(dag_run.c.state.in_(("success", "failed"))).label("finished"),
            func.count().filter(dag_run.c.state == "failed").label("failed"),
        )
        .where(dag_run.c.dag_id == backfill.c.dag_id, dag_run.c.backfill_id == backfill.c.id)
        .lateral("states")
    )
    return select(
        backfill.c.id,
        backfill.c.dag_id,
        backfill.c.from_date,
        backfill.c.to_date,
        backfill.c.rerun,
        backfill.c.max_active_runs,
        backfill.c.backwards,
        backfill.c.is_paused,
        backfill.c.created_at,
        backfill.c.completed_at,
        states.c.total,
        states.c.running,
        states.c.finished,
        states.c.failed,
    )
