"""Deleting a DAG with everything that belongs to it."""

from __future__ import annotations

from typing import Final

from aiosched.db.schema.tables import OF_RUNS
from aiosched.db.server.connection import DatabaseConnection

_OF_DAGS: Final = (
    "dag_run", "asset_reference", "dag_dependency", "asset_queue", "asset_consumption", "asset_key_event",
    "asset_partition", "backfill", "dag_schedule", "sla_miss", "dag", "dag_version",
)  # fmt: skip
DELETE_DAG: Final = (
    *(f"DELETE FROM {table} WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)" for table in OF_RUNS),
    *(f"DELETE FROM {table} WHERE dag_id = $1" for table in _OF_DAGS),
)


async def delete_dag(conn: DatabaseConnection, dag_id: str) -> None:
    """Delete every row of a DAG; the caller has made sure that none of its tasks run."""
    for statement in DELETE_DAG:
        await conn.execute(statement, dag_id)
