"""Queries on DAGs in quarantine, reports that are set aside and callbacks that are given up, for people. Read only.

A DAG whose row has `tried_at` is not in quarantine: it was taken up again, and only its failures are not forgotten yet.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiosched.core.values.commands import command_line
from aiosched.core.values.ids import instance_name
from aiosched.core.values.instants import stamp
from aiosched.db.access.visibility import ScopedStatement, Seen
from aiosched.db.server.connection import DatabaseConnection, Queryable
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
        return command_line("dags release", self.dag_id)


# Index: the primary key; the table has few rows.
LIST: Final = ScopedStatement.of("""
    SELECT dag_id, since, retry_at, failures, place, error
      FROM dag_quarantine WHERE tried_at IS NULL [seen] ORDER BY dag_id LIMIT $1
""")
GET: Final = """
    SELECT dag_id, since, retry_at, failures, place, error
      FROM dag_quarantine WHERE dag_id = $1 AND tried_at IS NULL
"""
TRACEBACK: Final = "SELECT traceback FROM dag_quarantine WHERE dag_id = $1 AND tried_at IS NULL"
COUNT: Final = "SELECT count(*) FROM dag_quarantine WHERE tried_at IS NULL"


async def list_quarantined(conn: Queryable, *, limit: int | None = None, seen: Seen = None) -> list[QuarantineRow]:
    """The DAGs in quarantine, by id; only those that are `seen`."""
    return [QuarantineRow(*row) for row in await LIST.fetch(conn, limit, seen=seen)]


async def quarantine_of(conn: DatabaseConnection, dag_id: str) -> QuarantineRow | None:
    """The quarantine of a DAG; None if it is not in quarantine."""
    row = await conn.fetchrow(GET, dag_id)
    return None if row is None else QuarantineRow(*row)


async def quarantine_traceback(db: Database, dag_id: str) -> str | None:
    """The traceback of the last failure of a DAG; None if it is not in quarantine."""
    found: str | None = await db.fetchval(TRACEBACK, dag_id)
    return found


async def count_quarantined(db: Database) -> int:
    """How many DAGs are in quarantine, in the whole fleet."""
    return int(await db.fetchval(COUNT))


@dataclass(frozen=True, slots=True)
class SetAsideRow:
    """A report that could not be applied or stored `failures` times, and is kept as row `id` of set_aside_report."""

    id: int
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    outcome: str
    failures: int
    error: str
    set_aside_at: datetime

    def __str__(self) -> str:
        error = textwrap.shorten(self.error, _LONGEST_ERROR, placeholder=" …")
        whose = f"the trigger of try {-self.try_number}" if self.try_number < 0 else f"try {self.try_number}"
        return (
            f"the report {self.outcome!r} of {whose} could not be processed {self.failures} times ({error}); "
            f"it is kept as row {self.id} of set_aside_report since {stamp(self.set_aside_at)}"
        )

    @property
    def task(self) -> str:
        """The task instance in words."""
        index = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id} {self.run_id} {self.task_id}{index}"


_SET_ASIDE: Final = """
    SELECT s.id, r.dag_id, r.run_id, coalesce(v.spec -> 'tasks' -> s.task_index ->> 'task_id', '?'), s.map_index,
           s.try_number, s.outcome, s.failures, s.error, s.set_aside_at
      FROM set_aside_report AS s JOIN dag_run AS r ON r.id = s.run_id JOIN dag_version AS v ON v.id = r.version_id
"""
# The table has few rows.
RECENTLY_SET_ASIDE: Final = f"{_SET_ASIDE} WHERE s.set_aside_at > $1 ORDER BY s.id DESC LIMIT $2"
# Index: ix_set_aside_report_run_id.
SET_ASIDE_OF: Final = (
    f"{_SET_ASIDE} WHERE s.run_id = $1 AND s.task_index = $2 AND s.map_index = $3 ORDER BY s.id DESC LIMIT 3"
)


async def recently_set_aside(db: Database, since: datetime, *, limit: int) -> list[SetAsideRow]:
    """The reports that were set aside after `since`, the newest first."""
    return [SetAsideRow(*row) for row in await db.fetch(RECENTLY_SET_ASIDE, since, limit)]


async def set_aside_of(conn: DatabaseConnection, run: int, task_index: int, map_index: int) -> list[SetAsideRow]:
    """The newest reports of a task instance that are set aside; at most three."""
    return [SetAsideRow(*row) for row in await conn.fetch(SET_ASIDE_OF, run, task_index, map_index)]


@dataclass(frozen=True, slots=True)
class GivenUpRow:
    """The newest callback of a DAG that was given up, and is kept as row `id` of callback_outbox.

    `task_id` is None for callbacks of runs. `others` more of the DAG were given up.
    """

    id: int
    dag_id: str
    run_id: str
    task_id: str | None
    map_index: int
    kind: str
    deliveries: int
    error: str
    given_up_at: datetime
    others: int

    def __str__(self) -> str:
        error = textwrap.shorten(self.error, _LONGEST_ERROR, placeholder=" …")
        whose = f"{self.dag_id} {self.run_id}"
        if self.task_id is not None:
            whose += f" {instance_name(self.task_id, self.map_index)}"
        more = f"; {self.others} more of this DAG" if self.others else ""
        return (
            f"{whose}: {self.kind} was lost {self.deliveries} times, and given up at {stamp(self.given_up_at)} "
            f"({error}){more}"
        )

    @property
    def log(self) -> str:
        """Its log file, in the folder of its run."""
        return f"callback={self.kind}/attempt={self.id}.log"


# Deliveries of alerts, which have no run, are made again. There are few such rows.
GIVEN_UP: Final = """
    SELECT DISTINCT ON (c.dag_id) c.id, c.dag_id, r.run_id, CASE WHEN c.kind LIKE 'task_%' THEN c.task_id END,
           coalesce(c.map_index, -1), c.kind, c.attempts, coalesce(c.error, ''), c.given_up_at,
           count(*) OVER (PARTITION BY c.dag_id)::int - 1
      FROM callback_outbox AS c JOIN dag_run AS r ON r.id = c.run_id
     WHERE c.given_up_at IS NOT NULL ORDER BY c.dag_id, c.given_up_at DESC, c.id DESC LIMIT $1
"""


async def newest_given_up(db: Database, *, limit: int) -> list[GivenUpRow]:
    """The newest callback that was given up of each DAG, by DAG."""
    return [GivenUpRow(*row) for row in await db.fetch(GIVEN_UP, limit)]
