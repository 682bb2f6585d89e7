"""Statements that store what checks of assets say. Reading: db/queries/check_queries.py."""

from __future__ import annotations

from typing import Final

from aiosched.core.values.asset_checks import CheckReport
from aiosched.db.server.connection import DatabaseConnection

KEPT: Final = 200  # results of a check, besides those of the run that reports

# Of the asset that the DAG's file says the task checks, whatever the attempt names; nothing if it has no such check.
# Guard: the current try, which has not ended. Once for a try. Indexes: the primary keys of dag_run, version_task,
# task_instance and asset_reference, uq_asset_name, ix_asset_uri.
RECORD: Final = """
    INSERT INTO asset_check (asset_id, dag_id, task_id, run_id, map_index, try_number, status, message, metadata)
    SELECT a.id, r.dag_id, t.task_id, r.id, ti.map_index, ti.try_number, $5, $6, $7::json
      FROM dag_run AS r
      JOIN version_task AS t ON t.version_id = r.version_id AND t.task_id = $2
      JOIN task_instance AS ti ON ti.run_id = r.id AND ti.task_index = t.task_index
       AND ti.map_index = $3 AND ti.try_number = $4 AND ti.state IN ('queued', 'running')
      JOIN asset_reference AS m ON m.dag_id = r.dag_id AND m.role = 'inlet' AND m.task_id = t.task_id AND m.is_check
     CROSS JOIN LATERAL (
           SELECT id FROM asset WHERE is_active AND CASE m.kind WHEN 'uri' THEN uri = m.name ELSE name = m.name END
            ORDER BY name LIMIT 1
     ) AS a
     WHERE r.id = $1
    ON CONFLICT DO NOTHING
    RETURNING asset_id, dag_id, task_id, run_id
"""
# Those beyond the newest $5 of its other runs. Index: ix_asset_check_asset_id_dag_id_task_id_id.
TRIM: Final = """
    DELETE FROM asset_check WHERE id IN (
        SELECT id FROM asset_check
         WHERE asset_id = $1 AND dag_id = $2 AND task_id = $3 AND run_id <> $4
         ORDER BY id DESC OFFSET $5 LIMIT 1000 FOR UPDATE SKIP LOCKED
    )
"""


async def record_check(conn: DatabaseConnection, run: int, report: CheckReport) -> bool:
    """Store the result of the current try of a check in a run (its key), and forget old ones of the check.

    False, and nothing is stored, if it was stored before, if the try has ended or is another one by now, or if the
    file of the DAG has no such check.
    """
    place = run, report.task_id, report.map_index, report.try_number
    stored = await conn.fetchrow(RECORD, *place, str(report.status), report.message, report.metadata_text)
    if stored is None:
        return False
    await conn.execute(TRIM, *stored, KEPT)
    return True
