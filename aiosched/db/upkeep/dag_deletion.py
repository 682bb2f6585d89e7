"""Deleting a DAG with everything that belongs to it."""

from __future__ import annotations

from typing import Final

from aiosched.db.server.connection import DatabaseConnection

DELETE_DAG: Final = (
    """DELETE FROM callback_outbox WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM deadline WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM deferred_trigger WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM deferral WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM xcom WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM rendered_fields WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM unwritten_log WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM map_label WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM try_source WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM task_try WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM task_note WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM task_state WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM asset_check WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM human_input WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM task_instance WHERE run_id IN (SELECT id FROM dag_run WHERE dag_id = $1)""",
    """DELETE FROM dag_run WHERE dag_id = $1""",
    """DELETE FROM asset_reference WHERE dag_id = $1""",
    """DELETE FROM dag_dependency WHERE dag_id = $1""",
    """DELETE FROM asset_queue WHERE dag_id = $1""",
    """DELETE FROM asset_consumption WHERE dag_id = $1""",
    """DELETE FROM asset_key_event WHERE dag_id = $1""",
    """DELETE FROM asset_partition WHERE dag_id = $1""",
    """DELETE FROM backfill WHERE dag_id = $1""",
    """DELETE FROM dag_schedule WHERE dag_id = $1""",
    """DELETE FROM sla_miss WHERE dag_id = $1""",
    """DELETE FROM dag WHERE dag_id = $1""",
    """DELETE FROM dag_version WHERE dag_id = $1""",
)


async def delete_dag(conn: DatabaseConnection, dag_id: str) -> None:
    """Delete every row of a DAG; the caller has made sure that none of its tasks run."""
    for statement in DELETE_DAG:
        await conn.execute(statement, dag_id)
