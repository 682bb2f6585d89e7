"""Statements on runs that are stored when they have ended already. No decisions live here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

import asyncpg

from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.runs import check_exist
from aiosched.errors import StaleRows


class FinishedRunRow(NamedTuple):
    """A run that has ended. The instants are aware."""

    dag_id: str
    run_id: str
    partition: int
    version_id: int
    run_type: str
    triggered_by: str
    state: str
    logical_date: datetime
    interval_start: datetime
    interval_end: datetime
    run_after: datetime
    start_date: datetime
    end_date: datetime
    note: str | None
    created_by: int


# A run with the same id or logical date wins.
INSERT_FINISHED_RUN: Final = """
    INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, logical_date,
                         data_interval_start, data_interval_end, run_after, start_date, end_date, note, created_by,
                         queued_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $12)
    ON CONFLICT DO NOTHING
    RETURNING id
"""
INSERT_FINISHED_INSTANCES: Final = """
    INSERT INTO task_instance (run_id, task_index, map_index, state, try_number, max_tries, start_date, end_date)
    SELECT $1, task_index, map_index, state, tries, max_tries, CASE WHEN tries > 0 THEN $7::timestamptz END, $8
      FROM unnest($2::int[], $3::int[], $4::text[], $5::smallint[], $6::smallint[])
        AS n (task_index, map_index, state, tries, max_tries)
"""


async def insert_finished_run(conn: DatabaseConnection, run: FinishedRunRow) -> int | None:
    """Store the run and return its key; None if the DAG has one with this id or logical date.

    Raises StaleRows if parsing has replaced the version in the meantime: read the DAG again.
    """
    try:
        key: int | None = await conn.fetchval(INSERT_FINISHED_RUN, *run)
    except asyncpg.ForeignKeyViolationError as error:
        raise StaleRows(f"A DAG version was replaced while a run of it was stored ({error.detail})") from error
    await check_exist(conn, [run] if key is None else [])
    return key


async def insert_finished_instances(
    conn: DatabaseConnection,
    key: int,
    instances: Sequence[tuple[int, int, str, int, int]],
    *,
    start: datetime,
    end: datetime,
) -> None:
    """Store task instances of the run `key`: (task index, map index, state, tries, max tries)."""
    columns = [list(column) for column in zip(*instances, strict=True)] or [[] for _ in range(5)]
    await conn.execute(INSERT_FINISHED_INSTANCES, key, *columns, start, end)
