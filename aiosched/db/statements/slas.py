"""Statements on missed SLAs. No decisions live here. Source: the semantics reference, section 23.3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.outbox import NewCallback, WaitingCallback, insert_callbacks

MOST_BLOCKING: Final = 1000  # task instances that a notification names


class DatedRun(NamedTuple):
    """A run with a logical date."""

    dag_id: str
    key: int
    version_id: int
    logical_date: datetime


class Miss(NamedTuple):
    """A missed SLA to record."""

    partition: int
    dag_id: str
    task_id: str
    logical_date: datetime


class RecordedMiss(NamedTuple):
    """A missed SLA that was recorded at `timestamp`."""

    dag_id: str
    task_id: str
    logical_date: datetime
    timestamp: datetime


class BlockingInstance(NamedTuple):
    """A task instance that is not in success."""

    dag_id: str
    task_id: str
    map_index: int
    run_id: str
    logical_date: datetime
    state: str | None
    try_number: int


# Index: uq_dag_run_dag_id_logical_date, backwards.
NEWEST_RUNS: Final = """
    SELECT w.dag_id, r.id, r.version_id, r.logical_date
      FROM unnest($1::text[]) AS w (dag_id)
     CROSS JOIN LATERAL (
        SELECT id, version_id, logical_date FROM dag_run
         WHERE dag_id = w.dag_id AND logical_date IS NOT NULL ORDER BY logical_date DESC LIMIT $2
     ) AS r
     ORDER BY w.dag_id, r.logical_date DESC
"""


async def newest_runs(conn: DatabaseConnection, dag_ids: Sequence[str], *, limit: int) -> list[DatedRun]:
    """The newest `limit` runs of each DAG by logical date, newest first."""
    return [DatedRun(*row) for row in await conn.fetch(NEWEST_RUNS, list(dag_ids), limit)]


# All instances of a mapped task; removed ones do not count. Index: primary key.
DONE: Final = """
    SELECT ti.run_id, ti.task_index
      FROM unnest($1::bigint[], $2::int[]) AS w (run_id, task_index)
      JOIN task_instance AS ti ON ti.run_id = w.run_id AND ti.task_index = w.task_index
     WHERE ti.state IS DISTINCT FROM 'removed'
     GROUP BY ti.run_id, ti.task_index
    HAVING bool_and(coalesce(ti.state, '') IN ('success', 'skipped'))
"""


async def done_tasks(conn: DatabaseConnection, places: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those of the tasks (run key, task index) that are success or skipped."""
    rows = await conn.fetch(DONE, [run for run, _ in places], [task for _, task in places])
    return {(row[0], row[1]) for row in rows}


# Index: uq_sla_miss_dag_id_task_id_logical_date, backwards.
NEWEST_MISSES: Final = """
    SELECT w.dag_id, w.task_id, m.logical_date
      FROM unnest($1::text[], $2::text[]) AS w (dag_id, task_id)
     CROSS JOIN LATERAL (
        SELECT logical_date FROM sla_miss WHERE dag_id = w.dag_id AND task_id = w.task_id
         ORDER BY logical_date DESC LIMIT 1
     ) AS m
"""


async def newest_misses(conn: DatabaseConnection, tasks: Sequence[tuple[str, str]]) -> dict[tuple[str, str], datetime]:
    """The newest logical date recorded as a miss of each (DAG id, task id)."""
    rows = await conn.fetch(NEWEST_MISSES, [dag_id for dag_id, _ in tasks], [task_id for _, task_id in tasks])
    return {(row[0], row[1]): row[2] for row in rows}


# Guard: recorded once, whichever scheduler checks first; not for a DAG that was just deleted.
INSERT_MISSES: Final = """
    INSERT INTO sla_miss (partition, dag_id, task_id, logical_date, missed_at)
    SELECT m.partition, m.dag_id, m.task_id, m.logical_date, $5
      FROM unnest($1::smallint[], $2::text[], $3::text[], $4::timestamptz[])
        AS m (partition, dag_id, task_id, logical_date)
      JOIN dag AS d ON d.dag_id = m.dag_id
    ON CONFLICT (dag_id, task_id, logical_date) DO NOTHING
    RETURNING dag_id, task_id
"""
# All misses of the DAGs that no callback has reported, including older ones, are reported with these. Index:
# ix_sla_miss_callback_id.
ASSIGN_MISSES: Final = """
    UPDATE sla_miss AS m SET callback_id = c.id
      FROM callback_outbox AS c
     WHERE c.id = ANY($1::bigint[]) AND m.dag_id = c.dag_id AND m.callback_id IS NULL
"""


async def record_misses(
    conn: DatabaseConnection, misses: Sequence[Miss], now: datetime, *, notify: Mapping[str, int]
) -> tuple[list[tuple[str, str]], dict[int, WaitingCallback]]:
    """Record misses, and request one callback for each DAG that has a new one and is in `notify`.

    `notify` has the key of the run to which each of these callbacks belongs. Returns the (DAG id, task id) of the new
    misses, and the partitions of the callbacks by their ids. Call it inside a transaction.
    """
    rows = await conn.fetch(INSERT_MISSES, *map(list, zip(*misses, strict=True)), now)
    new = sorted((row[0], row[1]) for row in rows)
    partitions = {miss.dag_id: miss.partition for miss in misses}
    requests = [
        NewCallback(partitions[dag_id], "sla_miss", dag_id, notify[dag_id], reason="sla_miss")
        for dag_id in dict.fromkeys(dag_id for dag_id, _ in new)
        if dag_id in notify
    ]
    stored = await insert_callbacks(conn, requests) if requests else {}
    if stored:
        await conn.execute(ASSIGN_MISSES, list(stored))
    return new, stored


# Index: ix_sla_miss_callback_id.
MISSES_OF_CALLBACK: Final = """
    SELECT m.dag_id, m.task_id, m.logical_date, m.missed_at
      FROM dag_run AS r JOIN sla_miss AS m ON m.dag_id = r.dag_id
     WHERE r.id = $1 AND m.callback_id = $2 ORDER BY m.logical_date, m.task_id
"""


async def misses_of_callback(conn: DatabaseConnection, run: int, callback: int) -> list[RecordedMiss]:
    """The misses that a callback reports, by date; `run` is the run that it belongs to."""
    return [RecordedMiss(*row) for row in await conn.fetch(MISSES_OF_CALLBACK, run, callback)]


# Indexes: uq_dag_run_dag_id_logical_date, then the primary key.
BLOCKING: Final = f"""
    SELECT r.dag_id, v.spec -> 'tasks' -> ti.task_index::int ->> 'task_id', ti.map_index, r.run_id, r.logical_date,
           ti.state, ti.try_number
      FROM dag_run AS this
      JOIN dag_run AS r ON r.dag_id = this.dag_id AND r.logical_date = ANY($2::timestamptz[])
      JOIN dag_version AS v ON v.id = r.version_id
      JOIN task_instance AS ti ON ti.run_id = r.id
     WHERE this.id = $1 AND ti.state IS DISTINCT FROM 'success'
     ORDER BY r.logical_date, ti.task_index, ti.map_index LIMIT {MOST_BLOCKING}
"""


async def blocking_instances(conn: DatabaseConnection, run: int, dates: Sequence[datetime]) -> list[BlockingInstance]:
    """The task instances of these logical dates, of the DAG of `run` (a key), that are not in success."""
    return [BlockingInstance(*row) for row in await conn.fetch(BLOCKING, run, list(dates))]


# Index: uq_sla_miss_dag_id_task_id_logical_date, its first column.
LATEST_MISSES: Final = """
    SELECT dag_id, task_id, logical_date, missed_at FROM sla_miss
     WHERE dag_id = $1 ORDER BY logical_date DESC, task_id LIMIT $2
"""


async def latest_misses(conn: DatabaseConnection, dag_id: str, *, limit: int = 5) -> list[RecordedMiss]:
    """The newest missed SLAs of a DAG, to display."""
    return [RecordedMiss(*row) for row in await conn.fetch(LATEST_MISSES, dag_id, limit)]


# Index: the same.
LATE_TASKS: Final = "SELECT task_id FROM sla_miss WHERE dag_id = $1 AND logical_date = $2 ORDER BY task_id"


async def late_tasks(conn: DatabaseConnection, dag_id: str, logical_date: datetime | None) -> list[str]:
    """The tasks of a DAG that missed their SLA of this date."""
    return [row["task_id"] for row in await conn.fetch(LATE_TASKS, dag_id, logical_date)]
