"""Average durations of tasks over their latest successes. No decisions here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from aiosched.db.server.connection import DatabaseConnection

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
