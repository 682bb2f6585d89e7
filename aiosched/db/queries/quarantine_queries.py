"""Queries on DAGs in quarantine, for people. Read only.

A row with `tried_at` is not one of them: its DAG was taken up again, and only its failures are not forgotten yet.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiosched.core.values.instants import stamp
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database

_LONGEST_ERROR: Final = 300  # characters of it in one line


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """A DAG in quarantine since the first of its `failures` in a row; the last was in `place`, in words."""

    dag_id: str
    since: datetime
    retry_at: datetime
    failures: int
    place: str
    error: str

    def __str__(self) -> str:
        error = textwrap.shorten(self.error, _LONGEST_ERROR, placeholder=" …")
        return f"DAG {self.dag_id!r} is in quarantine since {stamp(self.since)}: {self.place} failed ({error})"

    @property
    def release(self) -> str:
        """The command that tries it again at once."""
        return f"aiosched dags release {self.dag_id}"


# Index: the primary key; the table has few rows.
LIST: Final = """
    SELECT dag_id, since, retry_at, failures, place, error
      FROM dag_quarantine WHERE tried_at IS NULL ORDER BY dag_id LIMIT $1
"""
GET: Final = """
    SELECT dag_id, since, retry_at, failures, place, error
      FROM dag_quarantine WHERE dag_id = $1 AND tried_at IS NULL
"""
TRACEBACK: Final = "SELECT traceback FROM dag_quarantine WHERE dag_id = $1 AND tried_at IS NULL"
COUNT: Final = "SELECT count(*) FROM dag_quarantine WHERE tried_at IS NULL"


async def list_quarantined(db: Database, *, limit: int | None = None) -> list[QuarantineRow]:
    """The DAGs in quarantine, by id."""
    async with db.acquire() as conn:
        return await quarantined(conn, limit=limit)


async def quarantined(conn: DatabaseConnection, *, limit: int | None = None) -> list[QuarantineRow]:
    """The DAGs in quarantine, by id."""
    return [QuarantineRow(*row) for row in await conn.fetch(LIST, limit)]


async def quarantine_of(conn: DatabaseConnection, dag_id: str) -> QuarantineRow | None:
    """The quarantine of a DAG; None if it is not in quarantine."""
    row = await conn.fetchrow(GET, dag_id)
    return None if row is None else QuarantineRow(*row)


async def quarantine_traceback(db: Database, dag_id: str) -> str | None:
    """The traceback of the last failure of a DAG; None if it is not in quarantine."""
    async with db.acquire() as conn:
        found: str | None = await conn.fetchval(TRACEBACK, dag_id)
    return found


async def count_quarantined(db: Database) -> int:
    """How many DAGs are in quarantine, in the whole fleet."""
    async with db.acquire() as conn:
        return int(await conn.fetchval(COUNT))
