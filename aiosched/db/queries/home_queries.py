"""Queries of the first page: recent runs, late DAGs, what needs attention. Read only, and bounded.

`seen`: of these DAGs only (None: of all).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiosched.db.access.visibility import ScopedStatement, Seen
from aiosched.db.server.engine import Database

NEWEST: Final = 5_000  # maximum number of runs to read, newest first
_NEWEST_FAILURES: Final = 500  # looked at before all DAGs are


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
class DagProblem:
    """Something about a DAG that needs attention: how many (`number`), and since when."""

    dag_id: str
    run_id: str | None
    number: int
    since: datetime | None


_OF_DAG: Final = "d.dag_id = ANY (?::text[])"

# Index: the primary key of dag_run, backwards.
RECENT: Final = ScopedStatement.of("""
    SELECT dag_id, run_id, run_type, state, start_date, end_date
      FROM (SELECT * FROM dag_run WHERE true [seen] ORDER BY id DESC LIMIT $4) AS newest
     WHERE start_date < $2 AND coalesce(end_date, $2) >= $1
     ORDER BY start_date DESC LIMIT $3
""")
COMING: Final = ScopedStatement.of("""
    SELECT dag_id, next_dagrun AS logical_date, next_dagrun_create_after AS run_after
      FROM dag
     WHERE NOT is_paused AND NOT is_stale AND next_dagrun_create_after >= $1 AND next_dagrun_create_after < $2 [seen]
     ORDER BY next_dagrun_create_after, dag_id LIMIT $3
""")
LATE: Final = ScopedStatement.of("""
    SELECT dag_id, NULL AS run_id, 1 AS number, next_dagrun_create_after AS since
      FROM dag
     WHERE NOT is_paused AND NOT is_stale AND NOT has_import_errors AND next_dagrun_create_after < $1 [seen]
     ORDER BY next_dagrun_create_after LIMIT $2
""")
# Of the newest runs: a DAG may have any number that wait.
_LAST_END: Final = """
         SELECT id FROM (SELECT id, state FROM dag_run AS newest WHERE newest.dag_id = {}.dag_id
                          ORDER BY id DESC LIMIT 1000) AS newest
          WHERE state IN ('success', 'failed') ORDER BY id DESC LIMIT 1"""
# Of the newest failures those that are the newest end of a run of their DAG: one that runs has not mended anything yet.
# Indexes: ix_dag_run_failed; ix_dag_run_dag_id_id, until enough are found.
NEWEST_FAILED: Final = ScopedStatement.of(
    f"""
    SELECT d.dag_id, r.run_id, 1 AS number, r.end_date AS since
      FROM (SELECT id, dag_id, run_id, end_date FROM dag_run WHERE state = 'failed'
             ORDER BY end_date DESC, id DESC LIMIT $2) AS r
     CROSS JOIN LATERAL ({_LAST_END.format("r")}) AS newest
      JOIN dag AS d ON d.dag_id = r.dag_id
     WHERE newest.id = r.id AND NOT d.is_stale [seen]
     ORDER BY r.end_date DESC, r.id DESC LIMIT $1
""",
    _OF_DAG,
)
# The same of all DAGs. Indexes: ix_dag_run_failed_of_dag for the last failure of each; ix_dag_run_dag_id_id for the
# last end of those that have failed at all.
LAST_FAILED: Final = ScopedStatement.of(
    f"""
    WITH failure AS (SELECT dag_id, max(id) AS id FROM dag_run WHERE state = 'failed' GROUP BY dag_id)
    SELECT d.dag_id, r.run_id, 1 AS number, r.end_date AS since
      FROM failure AS f
     CROSS JOIN LATERAL ({_LAST_END.format("f")}) AS newest
      JOIN dag_run AS r ON r.id = f.id
      JOIN dag AS d ON d.dag_id = f.dag_id
     WHERE newest.id = f.id AND NOT d.is_stale [seen]
     ORDER BY r.end_date DESC, r.id DESC LIMIT $1
""",
    _OF_DAG,
)
# Index: ix_dag_run_unfinished.
PAUSED_WITH_RUNS: Final = ScopedStatement.of(
    """
    SELECT d.dag_id, min(r.run_id) AS run_id, count(*)::int AS number, min(r.run_after) AS since
      FROM dag_run AS r JOIN dag AS d ON d.dag_id = r.dag_id
     WHERE r.state IN ('queued', 'running') AND d.is_paused [seen]
     GROUP BY d.dag_id ORDER BY d.dag_id LIMIT $1
""",
    _OF_DAG,
)
GIVEN_UP: Final = ScopedStatement.of("""
    SELECT dag_id, NULL AS run_id, count(*)::int AS number, min(given_up_at) AS since
      FROM callback_outbox WHERE given_up_at IS NOT NULL [seen] GROUP BY dag_id ORDER BY dag_id LIMIT $1
""")
ACTIVE_RUNS: Final = ScopedStatement.of("""
    SELECT count(*) FILTER (WHERE state = 'running')::int AS running,
           count(*) FILTER (WHERE state = 'queued')::int AS queued
      FROM dag_run WHERE state IN ('queued', 'running') [seen]
""")


async def recent_runs(
    db: Database, since: datetime, until: datetime, *, limit: int, seen: Seen = None
) -> list[RecentRun]:
    """Runs that were running at some time in [since, until), among the newest ones; latest start first."""
    return [RecentRun(**dict(row)) for row in await RECENT.fetch(db, since, until, limit, NEWEST, seen=seen)]


async def coming_runs(
    db: Database, since: datetime, until: datetime, *, limit: int, seen: Seen = None
) -> list[ComingRun]:
    """The next runs of DAGs that are due in [since, until), in order."""
    return [ComingRun(**dict(row)) for row in await COMING.fetch(db, since, until, limit, seen=seen)]


async def active_runs(db: Database, *, seen: Seen = None) -> tuple[int, int]:
    """The numbers of running and of queued runs."""
    (row,) = await ACTIVE_RUNS.fetch(db, seen=seen)
    return row["running"], row["queued"]


# Index: ix_dag_run_unfinished; the primary key of task_instance, once for each run.
ACTIVE_TASKS: Final = """
    SELECT ti.state, count(*)::int AS number, min(ti.queued_at) AS first
      FROM dag_run AS r JOIN task_instance AS ti ON ti.run_id = r.id
     WHERE r.state IN ('queued', 'running') AND r.dag_id = ANY ($1::text[])
       AND ti.state IN ('scheduled', 'queued', 'running', 'deferred')
     GROUP BY ti.state
"""


async def active_tasks(db: Database, dag_ids: Collection[str]) -> tuple[dict[str, int], datetime | None]:
    """How many task instances of these DAGs are in each state, and since when the oldest one is queued."""
    rows = await db.fetch(ACTIVE_TASKS, list(dag_ids))
    first = next((row["first"] for row in rows if row["state"] == "queued"), None)
    return {row["state"]: row["number"] for row in rows}, first


async def late_dags(db: Database, before: datetime, *, limit: int, seen: Seen = None) -> list[DagProblem]:
    """DAGs whose next run was due before that instant."""
    return [DagProblem(**dict(row)) for row in await LATE.fetch(db, before, limit, seen=seen)]


async def last_failed(db: Database, *, limit: int, seen: Seen = None) -> list[DagProblem]:
    """DAGs whose newest run failed, latest first.

    If many fail, enough are among the newest failures. Only if they are not, all DAGs are looked at.
    """
    async with db.acquire() as conn:
        rows = await NEWEST_FAILED.fetch(conn, limit, _NEWEST_FAILURES, seen=seen)
        if len(rows) < limit:
            rows = await LAST_FAILED.fetch(conn, limit, seen=seen)
    return [DagProblem(**dict(row)) for row in rows]


async def paused_with_runs(db: Database, *, limit: int, seen: Seen = None) -> list[DagProblem]:
    """Paused DAGs with waiting runs."""
    return [DagProblem(**dict(row)) for row in await PAUSED_WITH_RUNS.fetch(db, limit, seen=seen)]


async def callbacks_given_up(db: Database, *, limit: int, seen: Seen = None) -> list[DagProblem]:
    """DAGs with callbacks that were given up after too many losses."""
    return [DagProblem(**dict(row)) for row in await GIVEN_UP.fetch(db, limit, seen=seen)]
