"""Queries of the first page: recent runs, late DAGs, what needs attention. Read only, and bounded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiosched.db.server.engine import Database

NEWEST: Final = 5_000  # maximum number of runs to read, newest first


@dataclass(frozen=True, slots=True)
class RecentRun:
    """A run on the timeline."""

    dag_id: str
    run_id: str
    run_type: str
    state: str
    start_date: datetime | None
    end_date: datetime | None


@dataclass(frozen=True, slots=True)
class ComingRun:
    """The next scheduled run of a DAG."""

    dag_id: str
    logical_date: datetime | None
    run_after: datetime


@dataclass(frozen=True, slots=True)
class Concern:
    """Something about a DAG that needs attention: how many (`number`), and since when."""

    dag_id: str
    run_id: str | None
    number: int
    since: datetime | None


# Index: the primary key of dag_run, backwards.
RECENT: Final = """
    SELECT dag_id, run_id, run_type, state, start_date, end_date
      FROM (SELECT * FROM dag_run ORDER BY id DESC LIMIT $4) AS newest
     WHERE start_date < $2 AND coalesce(end_date, $2) >= $1
     ORDER BY start_date DESC LIMIT $3
"""
COMING: Final = """
    SELECT dag_id, next_dagrun AS logical_date, next_dagrun_create_after AS run_after
      FROM dag
     WHERE NOT is_paused AND NOT is_stale AND next_dagrun_create_after >= $1 AND next_dagrun_create_after < $2
     ORDER BY next_dagrun_create_after, dag_id LIMIT $3
"""
LATE: Final = """
    SELECT dag_id, NULL AS run_id, 1 AS number, next_dagrun_create_after AS since
      FROM dag
     WHERE NOT is_paused AND NOT is_stale AND NOT has_import_errors AND next_dagrun_create_after < $1
     ORDER BY next_dagrun_create_after LIMIT $2
"""
FAILED_SINCE: Final = """
    SELECT count(*) FROM (SELECT state, end_date FROM dag_run ORDER BY id DESC LIMIT $2) AS newest
     WHERE state = 'failed' AND end_date >= $1
"""
# Index: ix_dag_run_dag_id_id, once for each DAG.
LAST_FAILED: Final = """
    SELECT d.dag_id, r.run_id, 1 AS number, r.end_date AS since
      FROM dag AS d
     CROSS JOIN LATERAL (SELECT * FROM dag_run WHERE dag_run.dag_id = d.dag_id ORDER BY id DESC LIMIT 1) AS r
     WHERE NOT d.is_stale AND r.state = 'failed'
     ORDER BY r.end_date DESC LIMIT $1
"""
# Index: ix_dag_run_unfinished.
PAUSED_WITH_RUNS: Final = """
    SELECT d.dag_id, min(r.run_id) AS run_id, count(*)::int AS number, min(r.run_after) AS since
      FROM dag_run AS r JOIN dag AS d ON d.dag_id = r.dag_id
     WHERE r.state IN ('queued', 'running') AND d.is_paused
     GROUP BY d.dag_id ORDER BY d.dag_id LIMIT $1
"""
GIVEN_UP: Final = """
    SELECT dag_id, NULL AS run_id, count(*)::int AS number, min(given_up_at) AS since
      FROM callback_outbox WHERE given_up_at IS NOT NULL GROUP BY dag_id ORDER BY dag_id LIMIT $1
"""
ACTIVE_RUNS: Final = """
    SELECT count(*) FILTER (WHERE state = 'running')::int AS running,
           count(*) FILTER (WHERE state = 'queued')::int AS queued
      FROM dag_run WHERE state IN ('queued', 'running')
"""


async def recent_runs(db: Database, since: datetime, until: datetime, *, limit: int) -> list[RecentRun]:
    """Runs that were running at some time in [since, until), among the newest ones; latest start first."""
    async with db.acquire() as conn:
        return [RecentRun(**dict(row)) for row in await conn.fetch(RECENT, since, until, limit, NEWEST)]


async def coming_runs(db: Database, since: datetime, until: datetime, *, limit: int) -> list[ComingRun]:
    """The next runs of DAGs that are due in [since, until), in order."""
    async with db.acquire() as conn:
        return [ComingRun(**dict(row)) for row in await conn.fetch(COMING, since, until, limit)]


async def failed_since(db: Database, since: datetime) -> int:
    """The number of failed runs since then, among the newest runs."""
    async with db.acquire() as conn:
        return int(await conn.fetchval(FAILED_SINCE, since, NEWEST))


async def active_runs(db: Database) -> tuple[int, int]:
    """The numbers of running and of queued runs."""
    async with db.acquire() as conn:
        row = await conn.fetchrow(ACTIVE_RUNS)
    return row["running"], row["queued"]


async def late_dags(db: Database, before: datetime, *, limit: int) -> list[Concern]:
    """DAGs whose next run was due before that instant."""
    async with db.acquire() as conn:
        return [Concern(**dict(row)) for row in await conn.fetch(LATE, before, limit)]


async def last_failed(db: Database, *, limit: int) -> list[Concern]:
    """DAGs whose newest run failed, latest first."""
    async with db.acquire() as conn:
        return [Concern(**dict(row)) for row in await conn.fetch(LAST_FAILED, limit)]


async def paused_with_runs(db: Database, *, limit: int) -> list[Concern]:
    """Paused DAGs with waiting runs."""
    async with db.acquire() as conn:
        return [Concern(**dict(row)) for row in await conn.fetch(PAUSED_WITH_RUNS, limit)]


async def callbacks_given_up(db: Database, *, limit: int) -> list[Concern]:
    """DAGs with callbacks that were given up after too many losses."""
    async with db.acquire() as conn:
        return [Concern(**dict(row)) for row in await conn.fetch(GIVEN_UP, limit)]
