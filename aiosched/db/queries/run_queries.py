"""Queries for pages on runs and task instances: filtered lists, the grid, the calendar, statistics.

Read only. Every list is paged by key, so its cost does not depend on the size of the history; the grid and the bars
read the task instances of the runs on the page by key.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from aiosched.db.access.only_seen import only_seen
from aiosched.db.access.visibility import Seen
from aiosched.db.queries.queries import RUN_COLUMNS, RunRow, fetch, like
from aiosched.db.schema.schema import dag_run
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are selected; empty fields do not filter. `since` and `until` filter by `run_after`."""

    dag_id: str | None = None
    states: Collection[str] = ()
    run_types: Collection[str] = ()
    search: str | None = None  # part of the run id
    since: datetime | None = None
    until: datetime | None = None


async def find_runs(db: Database, wanted: RunFilter, *, limit: int = 25, seen: Seen = None) -> list[RunRow]:
    """Runs, newest first; only of DAGs that are `seen`."""
    query = only_seen(RUN_COLUMNS.order_by(dag_run.c.id.desc()).limit(limit), dag_run.c.dag_id, seen)
    if wanted.dag_id is not None:
        query = query.where(dag_run.c.dag_id == wanted.dag_id)
    if wanted.states:
        query = query.where(dag_run.c.state.in_(sorted(wanted.states)))
    if wanted.run_types:
        query = query.where(dag_run.c.run_type.in_(sorted(wanted.run_types)))
    if wanted.search:
        query = query.where(dag_run.c.run_id.like(like(f"*{wanted.search}*"), escape="\\"))
    if wanted.since is not None:
        query = query.where(dag_run.c.run_after >= wanted.since)
    if wanted.until is not None:
        query = query.where(dag_run.c.run_after < wanted.until)
    return [RunRow(**row._mapping) for row in await fetch(db, query)]


# ---- the grid ----


@dataclass(frozen=True, slots=True)
class Cell:
    """The number of instances of a task in a state, in one run; None: no state yet."""

    run: int
    task_index: int
    state: str | None
    number: int


# Index: the primary key, once for each run.
CELLS: Final = """
    SELECT run_id AS run, task_index, state, count(*)::int AS number
      FROM task_instance WHERE run_id = ANY ($1::bigint[])
     GROUP BY run_id, task_index, state
"""


async def read_cells(db: Database, runs: Collection[int]) -> list[Cell]:
    """The states of all tasks in these runs, with counts of mapped instances."""
    return [Cell(*row) for row in await db.fetch(CELLS, list(runs))]


# Index: the primary key.
MAPPED_CELLS: Final = """
    SELECT run_id AS run, task_index, state, count(*)::int AS number
      FROM task_instance WHERE run_id = $1 AND map_index >= 0
     GROUP BY run_id, task_index, state
"""


async def read_mapped_cells(db: Database, run: int) -> list[Cell]:
    """The numbers of instances of the mapped tasks of a run, by state."""
    return [Cell(*row) for row in await db.fetch(MAPPED_CELLS, run)]


TASK_IDS: Final = """
    SELECT id, ARRAY(SELECT task ->> 'task_id'
                       FROM json_array_elements(CASE json_typeof(spec -> 'tasks') WHEN 'array' THEN spec -> 'tasks'
                                                ELSE '[]' END) WITH ORDINALITY AS each (task, position)
                      ORDER BY position)
      FROM dag_version WHERE id = ANY ($1::bigint[])
"""


async def read_task_ids(db: Database, versions: Collection[int]) -> dict[int, tuple[str, ...]]:
    """The task ids of DAG versions, by their keys."""
    return {row[0]: tuple(row[1]) for row in await db.fetch(TASK_IDS, list(versions))}


# ---- statistics ----


# PostgreSQL makes the document: creating 3,000 Python objects would cost several times as much. Index:
# ix_dag_run_dag_id_id, once for each DAG.
LAST_RUNS: Final = """
    SELECT json_build_object('items', json_agg(json_build_object(
               'dag_id', d.dag_id, 'last_runs', s.last_runs, 'success_rate', s.success_rate, 'p50', s.p50, 'p95', s.p95
           ) ORDER BY d.place))::text
      FROM unnest($1::text[]) WITH ORDINALITY AS d (dag_id, place)
     CROSS JOIN LATERAL (
           SELECT coalesce(json_agg(json_build_object(
                      'run_id', run_id, 'state', state, 'seconds', seconds,
                      'run_after', to_char(greatest(least(run_after, '9999-12-31T23:59:59.999999Z'), '0001-01-01Z')
                                           AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
                  ) ORDER BY id), '[]') AS last_runs,
                  avg((state = 'success')::int) FILTER (WHERE ended)::float8 AS success_rate,
                  percentile_disc(0.5) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE ended) AS p50,
                  percentile_disc(0.95) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE ended) AS p95
             FROM (SELECT id, run_id, state, run_after, state IN ('success', 'failed') AS ended,
                          CASE WHEN isfinite(end_date) AND isfinite(start_date)
                               THEN extract(epoch FROM end_date - start_date)::float8 END AS seconds
                     FROM dag_run WHERE dag_run.dag_id = d.dag_id ORDER BY id DESC LIMIT $2) AS r
     ) AS s
"""


async def last_runs(db: Database, dag_ids: Collection[str], *, limit: int = 30) -> str:
    """The last runs of each of these DAGs, oldest first, with their success rate and usual durations, as JSON.

    `{"items": [...]}` with one entry for each DAG, in the given order; `run_after` is RFC 3339 in UTC.
    """
    return str(await db.fetchval(LAST_RUNS, list(dag_ids), limit))


@dataclass(frozen=True, slots=True)
class CalendarDay:
    """The number of runs of a day that are in a state."""

    day: date
    state: str
    number: int


# Index: uq_dag_run_dag_id_logical_date, for both halves.
DAYS: Final = """
    SELECT (at AT TIME ZONE 'UTC')::date AS day, state, count(*)::int AS number
      FROM (SELECT logical_date AS at, state FROM dag_run
             WHERE dag_id = $1 AND logical_date >= $2 AND logical_date < $3
             UNION ALL
            SELECT run_after, state FROM dag_run
             WHERE dag_id = $1 AND logical_date IS NULL AND run_after >= $2 AND run_after < $3) AS runs
     GROUP BY 1, 2 ORDER BY 1, 2
"""


async def read_days(db: Database, dag_id: str, since: datetime, until: datetime) -> list[CalendarDay]:
    """The runs of a DAG by day (UTC) of their logical date, or of their run-after if they have none."""
    return [CalendarDay(*row) for row in await db.fetch(DAYS, dag_id, since, until)]


# ---- a run's tries ----


@dataclass(frozen=True, slots=True)
class TryPeriod:
    """The period of one try of a task instance."""

    task_index: int
    map_index: int
    try_number: int
    state: str | None
    scheduled_at: datetime | None
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None


# Index: both primary keys. The kept details of a current try (its traceback) are not another try.
SEGMENTS: Final = """
    SELECT task_index, map_index, try_number, state, NULL::timestamptz AS scheduled_at, queued_at, start_date, end_date
      FROM task_try AS old
     WHERE run_id = $1 AND NOT EXISTS (
           SELECT FROM task_instance AS now
            WHERE (now.run_id, now.task_index, now.map_index) = (old.run_id, old.task_index, old.map_index)
              AND now.try_number = old.try_number)
    UNION ALL
    SELECT task_index, map_index, try_number, state, scheduled_at, queued_at, start_date, end_date
      FROM task_instance WHERE run_id = $1 AND try_number > 0
     ORDER BY task_index, map_index, try_number LIMIT $2
"""


@dataclass(frozen=True, slots=True)
class DeferredPeriod:
    """A period in which a try waited for a trigger. `until` is None while it waits, and if it ended with the try."""

    task_index: int
    map_index: int
    try_number: int
    since: datetime
    until: datetime | None


# Index: the primary key.
STRETCHES: Final = """
    SELECT task_index, map_index, try_number, since, until FROM deferral
     WHERE run_id = $1 ORDER BY task_index, map_index, try_number, since LIMIT $2
"""


async def read_stretches(db: Database, run: int, *, limit: int) -> Sequence[DeferredPeriod]:
    """The periods in which the tries of a run were deferred, in the order of the DAG."""
    return [DeferredPeriod(*row) for row in await db.fetch(STRETCHES, run, limit)]


async def read_segments(db: Database, run: int, *, limit: int) -> Sequence[TryPeriod]:
    """Every try of every instance of a run, in the order of the DAG."""
    return [TryPeriod(*row) for row in await db.fetch(SEGMENTS, run, limit)]


# The mean over the latest finished runs of each DAG, so its cost does not grow with history.
# Indexes: ix of dag_run by DAG id and logical date or id; the primary key of task_instance.
AVERAGE_DURATIONS: Final = """
    SELECT d.dag_id, t.task ->> 'task_id' AS task_id, avg(ti.end_date - ti.start_date) AS duration
      FROM unnest($1::text[]) AS d (dag_id)
     CROSS JOIN LATERAL (
        SELECT id, version_id FROM dag_run
         WHERE dag_id = d.dag_id AND state IN ('success', 'failed') ORDER BY id DESC LIMIT $2
     ) AS r
      JOIN task_instance AS ti ON ti.run_id = r.id AND ti.state = 'success' AND ti.end_date >= ti.start_date
                              AND isfinite(ti.end_date) AND isfinite(ti.start_date)
      JOIN dag_version AS v ON v.id = r.version_id
     CROSS JOIN LATERAL (SELECT v.spec -> 'tasks' -> ti.task_index AS task) AS t
     GROUP BY 1, 2
"""


async def average_durations(
    conn: DatabaseConnection, dag_ids: Sequence[str], *, runs: int = 20
) -> dict[tuple[str, str], timedelta]:
    """The average duration of each task by (DAG id, task id); tasks without a success are absent.

    Counts the successes in the latest `runs` finished runs of each DAG.
    """
    rows = await conn.fetch(AVERAGE_DURATIONS, list(dag_ids), runs)
    return {(row["dag_id"], row["task_id"]): row["duration"] for row in rows}
