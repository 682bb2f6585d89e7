"""Statements on the deadlines of runs, and on consecutive failed runs. No decisions live here.

Source: the semantics reference, sections 9.3, 23.4 and 23.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from aiosched.db.schema.tables import DEADLINE
from aiosched.db.server.connection import DatabaseConnection


class DeadlineRow(NamedTuple):
    """A deadline of the run with this key."""

    run_id: int
    deadline_index: int
    partition: int
    deadline_time: datetime


INSERT_DEADLINES: Final = f"""
    {DEADLINE.insert(DeadlineRow._fields)}
    ON CONFLICT (run_id, deadline_index) DO UPDATE SET deadline_time = excluded.deadline_time WHERE NOT deadline.missed
"""


async def store_deadlines(conn: DatabaseConnection, rows: Sequence[DeadlineRow]) -> None:
    """Store deadlines of new runs, or move those of cleared runs; a missed one stays missed."""
    if rows:
        await conn.execute(INSERT_DEADLINES, *map(list, zip(*rows, strict=True)))


# The latest ended runs of a DAG by logical date, failed ones included.
# Index: uq_dag_run_dag_id_logical_date, backwards.
AVERAGE_RUNTIME: Final = """
    SELECT count(*), avg(end_date - start_date)
      FROM (
        SELECT start_date, end_date FROM dag_run
         WHERE dag_id = $1 AND logical_date IS NOT NULL AND state IN ('success', 'failed')
           AND start_date IS NOT NULL AND end_date IS NOT NULL
         ORDER BY logical_date DESC LIMIT $2
      ) AS latest
"""


async def average_runtime(conn: DatabaseConnection, dag_id: str, *, max_runs: int, min_runs: int) -> timedelta | None:
    """The mean duration of the latest ended runs; None if there are fewer than `min_runs`."""
    count, mean = await conn.fetchrow(AVERAGE_RUNTIME, dag_id, max_runs)
    return mean if count >= max(min_runs, 1) else None


# Index: ix_deadline_pending (partial).
LOAD_PENDING: Final = """
    SELECT run_id, deadline_index, partition, deadline_time FROM deadline
     WHERE NOT missed AND partition = ANY($1::smallint[])
"""


async def load_pending(conn: DatabaseConnection, partitions: Iterable[int]) -> list[DeadlineRow]:
    """The deadlines of `partitions` that can still be missed, including those of finished runs."""
    return [DeadlineRow(*row) for row in await conn.fetch(LOAD_PENDING, list(partitions))]


# Guard: the time has passed (strictly), and it was not marked or pruned yet. Index: primary key.
MARK_MISSED: Final = """
    UPDATE deadline AS d SET missed = true
      FROM unnest($1::bigint[], $2::int[]) AS due (run_id, deadline_index), dag_run AS r
     WHERE d.run_id = due.run_id AND d.deadline_index = due.deadline_index AND r.id = d.run_id
       AND NOT d.missed AND d.deadline_time < $3
    RETURNING d.run_id, d.deadline_index, d.partition, r.dag_id
"""


async def mark_missed(
    conn: DatabaseConnection, due: Sequence[tuple[int, int]], now: datetime
) -> list[tuple[int, int, int, str]]:
    """Mark those of (run, index) that are missed at `now`; returns (run, index, partition, DAG id) of each."""
    rows = await conn.fetch(MARK_MISSED, [run for run, _ in due], [index for _, index in due], now)
    return sorted(tuple(row) for row in rows)


# Index: primary key.
PRUNE: Final = """
    DELETE FROM deadline AS d
     USING unnest($1::bigint[], $2::timestamptz[]) AS ended (run_id, end_date)
     WHERE d.run_id = ended.run_id AND NOT d.missed AND ended.end_date <= d.deadline_time
"""


async def prune(conn: DatabaseConnection, succeeded: Sequence[tuple[int, datetime]]) -> None:
    """Delete the deadlines that runs have met: (run, end date) of runs that succeeded."""
    await conn.execute(PRUNE, *map(list, zip(*succeeded, strict=True)))


# The DAGs whose newest N runs by run_after have all failed, and that are not paused yet; they are paused, with an entry
# in the audit log. It reads the DAG's runs, so use it only for a DAG that has the limit and a new failure.
PAUSE_FAILING: Final = """
    WITH failing AS (
        SELECT l.dag_id, l.runs
          FROM unnest($1::text[], $2::int[]) AS l (dag_id, runs)
         CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE state = 'failed') AS failed
              FROM (
                SELECT state FROM dag_run WHERE dag_id = l.dag_id ORDER BY run_after DESC, id DESC LIMIT l.runs
              ) AS newest
         ) AS n
         WHERE n.failed = l.runs
    ), paused AS (
        UPDATE dag AS d SET is_paused = true FROM failing AS f
         WHERE d.dag_id = f.dag_id AND NOT d.is_paused
        RETURNING d.dag_id, d.partition, f.runs
    ), audit AS (
        INSERT INTO request (partition, dag_id, verb, args, requested_by, reason, state, result, applied_by, applied_at)
        SELECT partition, dag_id, 'pause', '{}', 'scheduler', 'its newest ' || runs || ' runs failed '
               || '(max_consecutive_failed_dag_runs)', 'applied', $4::json, $3, now()
          FROM paused
    )
    SELECT dag_id FROM paused ORDER BY dag_id
"""


async def pause_failing(conn: DatabaseConnection, limits: Mapping[str, int], *, incarnation: int) -> list[str]:
    """Pause the DAGs whose newest runs, as many as their limit, have all failed; returns their ids."""
    rows = await conn.fetch(
        PAUSE_FAILING, list(limits), list(limits.values()), incarnation, msgspec.json.encode({}).decode()
    )
    return [row["dag_id"] for row in rows]
