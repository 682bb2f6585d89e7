"""Which task of a failed run failed, and why: one of each run, for messages and the first page. Read only, bounded."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from aiosched.core.why.error_groups import FailedInstance
from aiosched.db.server.connection import Queryable

_TASKS_OF_RUN: Final = 1_000  # of a failed run, in the order of the DAG
# Indexes: uq_dag_run_dag_id_run_id; the primary keys of task_instance and version_task.
FAILED_TASKS: Final = """
    SELECT r.dag_id, r.run_id, coalesce(t.task_id, 'task ' || ti.task_index) AS task_id, ti.map_index, ti.reason,
           ti.number
      FROM unnest($1::text[], $2::text[]) AS wanted (dag_id, run_id)
      JOIN dag_run AS r ON r.dag_id = wanted.dag_id AND r.run_id = wanted.run_id
     CROSS JOIN LATERAL (
           SELECT task_index, map_index, reason, count(*) OVER ()::int AS number
             FROM (SELECT task_index, map_index, state, reason FROM task_instance WHERE run_id = r.id
                    ORDER BY task_index, map_index LIMIT $3) AS first
            WHERE state = 'failed' ORDER BY task_index, map_index LIMIT 1) AS ti
      LEFT JOIN version_task AS t ON t.version_id = r.version_id AND t.task_index = ti.task_index
"""


class FailedTask(NamedTuple):
    """The first failed task instance of a run, and how many of it failed."""

    first: FailedInstance
    number: int


async def failed_tasks(conn: Queryable, runs: Collection[tuple[str, str]]) -> dict[tuple[str, str], FailedTask]:
    """Of each of the runs (DAG and run id) of which one of the first task instances failed, by run."""
    if not runs:
        return {}
    found = {}
    for row in await conn.fetch(FAILED_TASKS, *map(list, zip(*runs, strict=True)), _TASKS_OF_RUN):
        dag_id, run_id, task_id, map_index, reason, number = row
        found[dag_id, run_id] = FailedTask(FailedInstance(dag_id, run_id, task_id, map_index, reason), number)
    return found
