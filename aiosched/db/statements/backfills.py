"""Statements on backfills and their runs. No decisions live here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import asyncpg

from aiosched.core.values.states import RunState
from aiosched.db.schema.tables import BACKFILL
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.errors import Refused


@dataclass(slots=True)
class Backfill:
    """A backfill that is not completed, as its owner holds it."""

    id: int
    dag_id: str
    max_active_runs: int
    is_paused: bool


class ExistingRun(NamedTuple):
    """A run that exists at one of a backfill's dates."""

    id: int
    run_id: str
    state: RunState


INSERT_BACKFILL: Final = """
    INSERT INTO backfill (dag_id, partition, from_date, to_date, max_active_runs, backwards, rerun, conf)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id
"""


async def insert_backfill(
    conn: DatabaseConnection,
    *,
    dag_id: str,
    partition: int,
    first: datetime,
    final: datetime,
    max_active_runs: int,
    backwards: bool,
    rerun: str,
    conf: str,
) -> int:
    """Insert a backfill; returns its id. Raises Refused if the DAG has an unfinished one."""
    try:
        number: int = await conn.fetchval(
            INSERT_BACKFILL, dag_id, partition, first, final, max_active_runs, backwards, rerun, conf
        )
    except asyncpg.UniqueViolationError:
        raise Refused(
            f"DAG {dag_id!r} has an unfinished backfill; wait for its end or `aiosched backfill cancel` it."
        ) from None
    return number


# Index: uq_dag_run_dag_id_logical_date.
EXISTING_RUNS: Final = """
    SELECT logical_date, id, run_id, state FROM dag_run WHERE dag_id = $1 AND logical_date = ANY($2::timestamptz[])
"""


async def existing_runs(conn: Queryable, dag_id: str, dates: Sequence[datetime]) -> dict[datetime, ExistingRun]:
    """The runs of a DAG at these logical dates. Raises UnreadableRow for one in an unknown state."""
    rows = await conn.fetch(EXISTING_RUNS, dag_id, list(dates))
    return {
        row["logical_date"]: ExistingRun(row["id"], row["run_id"], RunState.of(row["state"], f"Run {row['run_id']!r}"))
        for row in rows
    }


# Runs that a backfill takes over; their task instances are cleared in the same transaction.
TAKE_RUNS: Final = """
    UPDATE dag_run AS r
       SET run_type = 'backfill', backfill_id = $1, backfill_order = t.position,
           conf = CASE WHEN $4::text IS NULL THEN r.conf ELSE $4::json END
      FROM unnest($2::bigint[], $3::int[]) AS t (id, position)
     WHERE r.id = t.id
"""


async def take_runs(conn: DatabaseConnection, backfill: int, runs: Sequence[tuple[int, int]], conf: str | None) -> None:
    """Make existing runs (key, order number) part of a backfill; `conf` replaces theirs if it is given."""
    await conn.execute(TAKE_RUNS, backfill, [key for key, _ in runs], [order for _, order in runs], conf)


LOAD_BACKFILLS: Final = f"""
    SELECT {", ".join(BACKFILL.columns_of(Backfill))} FROM backfill
     WHERE completed_at IS NULL AND partition = ANY($1::smallint[]) ORDER BY id
"""


async def load_backfills(conn: DatabaseConnection, partitions: Iterable[int]) -> list[Backfill]:
    """The uncompleted backfills of the partitions."""
    return [Backfill(*row) for row in await conn.fetch(LOAD_BACKFILLS, list(partitions))]


PAUSE_BACKFILL: Final = "UPDATE backfill SET is_paused = $2 WHERE id = $1 AND completed_at IS NULL"


async def pause_backfill(conn: DatabaseConnection, backfill: int, is_paused: bool) -> None:
    await conn.execute(PAUSE_BACKFILL, backfill, is_paused)


# Its queued runs fail, their task instances do not change (29.1).
CANCEL_RUNS: Final = """
    UPDATE dag_run SET state = 'failed', end_date = $2, reason = 'cancelled'
     WHERE backfill_id = $1 AND state = 'queued' RETURNING id
"""
COMPLETE: Final = "UPDATE backfill SET completed_at = $2, is_paused = is_paused OR $3 WHERE id = $1"


async def cancel_backfill(conn: DatabaseConnection, backfill: int, now: datetime) -> list[int]:
    """Pause and complete a backfill; returns the keys of its queued runs, which have failed."""
    rows = await conn.fetch(CANCEL_RUNS, backfill, now)
    await conn.execute(COMPLETE, backfill, now, True)
    return [row["id"] for row in rows]


async def complete_backfill(conn: DatabaseConnection, backfill: int, now: datetime) -> None:
    """Complete a backfill, all of whose runs have ended."""
    await conn.execute(COMPLETE, backfill, now, False)
