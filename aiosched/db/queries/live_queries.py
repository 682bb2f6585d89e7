"""Queries for open pages: the rows of changed runs, and the states of their task instances."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from aiosched.core.values.states import began
from aiosched.db.server.engine import Database


@dataclass(frozen=True, slots=True)
class ChangedRun:
    """The mutable columns of a run."""

    key: int
    dag_id: str
    run_id: str
    run_type: str
    state: str
    start_date: datetime | None
    end_date: datetime | None
    note: str | None


@dataclass(frozen=True, slots=True)
class ChangedTask:
    """The mutable columns of a task instance that lists show."""

    task_index: int
    map_index: int
    state: str | None
    try_number: int
    start_date: datetime | None
    end_date: datetime | None


@dataclass(frozen=True, slots=True)
class DoneRequest:
    """An answered request."""

    id: int
    dag_id: str | None
    verb: str
    state: str


RUNS: Final = """
    SELECT id AS key, dag_id, run_id, run_type, state, start_date, end_date, note
      FROM dag_run WHERE id = ANY ($1::bigint[])
"""
TASKS: Final = """
    SELECT task_index, map_index, state, try_number, start_date, end_date
      FROM task_instance WHERE run_id = $1 ORDER BY task_index, map_index LIMIT $2
"""
REQUESTS: Final = "SELECT id, dag_id, verb, state FROM request WHERE id = ANY ($1::bigint[])"


async def read_changed_runs(db: Database, keys: Collection[int]) -> list[ChangedRun]:
    """The runs with these keys, unordered; deleted ones are absent."""
    return [ChangedRun(**dict(row)) for row in await db.fetch(RUNS, list(keys))]


async def read_states(db: Database, run: int, *, limit: int) -> list[ChangedTask]:
    """The first `limit` task instances of a run."""
    rows = await db.fetch(TASKS, run, limit)
    found = [ChangedTask(**dict(row)) for row in rows]
    return [replace(one, start_date=began(one.state, one.start_date, one.end_date)) for one in found]


async def read_requests(db: Database, ids: Collection[int]) -> list[DoneRequest]:
    """The requests with these numbers."""
    return [DoneRequest(**dict(row)) for row in await db.fetch(REQUESTS, list(ids))]
