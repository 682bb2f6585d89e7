"""Statements for clearing and marking: which runs a request selects, and moving runs to another DAG version.

No decisions live here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from aiosched.db.server.connection import DatabaseConnection, Queryable


class RunOfRequest(NamedTuple):
    """A run that a request selects: its key, run id, the DAG version that it is pinned to, and its date."""

    key: int
    run_id: str
    version_id: int
    logical_date: datetime | None
    is_incomplete: bool  # some of its task instances are not stored yet


# Index: uq_dag_run_dag_id_run_id.
RUNS_BY_ID: Final = """
    SELECT id, run_id, version_id, logical_date, partition < 0 AS is_incomplete FROM dag_run
     WHERE dag_id = $1 AND run_id = ANY($2::text[]) ORDER BY id
"""


async def runs_by_id(conn: Queryable, dag_id: str, run_ids: Sequence[str]) -> list[RunOfRequest]:
    """The runs of a DAG with these run ids, oldest first; unknown ones are absent."""
    return [RunOfRequest(*row) for row in await conn.fetch(RUNS_BY_ID, dag_id, list(run_ids))]


# Index: uq_dag_run_dag_id_logical_date, or ix_dag_run_dag_id_id for all.
RUNS_BETWEEN: Final = """
    SELECT id, run_id, version_id, logical_date, partition < 0 AS is_incomplete FROM dag_run
     WHERE dag_id = $1 AND ($2::timestamptz IS NULL OR logical_date >= $2)
       AND ($3::timestamptz IS NULL OR logical_date <= $3)
     ORDER BY logical_date, id
"""


async def runs_between(
    conn: DatabaseConnection, dag_id: str, first: datetime | None, final: datetime | None
) -> list[RunOfRequest]:
    """The runs of a DAG with a logical date in [first, final]; without both, all its runs."""
    return [RunOfRequest(*row) for row in await conn.fetch(RUNS_BETWEEN, dag_id, first, final)]


# A task index is part of primary keys, so two tasks that swap places would collide: rows move to their new indexes by
# way of negative ones. Index: primary keys.
_DROP: Final = "DELETE FROM {table} WHERE run_id = ANY($1::bigint[]) AND task_index = ANY($2::int[])"
_LEAVE: Final = """
    UPDATE {table} AS t SET task_index = -1 - m.new
      FROM unnest($2::int[], $3::int[]) AS m (old, new)
     WHERE t.run_id = ANY($1::bigint[]) AND t.task_index = m.old
"""
_ARRIVE: Final = "UPDATE {table} SET task_index = -1 - task_index WHERE run_id = ANY($1::bigint[]) AND task_index < 0"
_WITH_TASK_INDEX: Final = (
    "task_instance", "task_try", "try_source", "rendered_fields", "deferral", "xcom", "task_note", "human_input",
    "map_label", "unwritten_log",
)  # fmt: skip
# Asset events outlive the tasks that created them: those of a removed task lose their reference to it. This reads all
# asset events: they have no index by source, so that inserting them stays cheap.
MOVE_EVENTS: Final = """
    UPDATE asset_event AS e
       SET source_task_index = m.new, source_map_index = CASE WHEN m.new IS NULL THEN NULL ELSE source_map_index END
      FROM unnest($2::int[], $3::int[]) AS m (old, new)
     WHERE e.source_run_id = ANY($1::bigint[]) AND e.source_task_index = m.old
"""
# Their tries so far ran the code of the version that they leave. Index: primary keys.
KEEP_SOURCES: Final = """
    INSERT INTO try_source (run_id, task_index, map_index, try_number, version_id, source_hash)
    SELECT t.run_id, t.task_index, t.map_index, t.try_number, v.id, v.source_hash
      FROM (SELECT run_id, task_index, map_index, try_number FROM task_try WHERE run_id = ANY($1::bigint[])
             UNION SELECT run_id, task_index, map_index, try_number FROM task_instance
                    WHERE run_id = ANY($1::bigint[]) AND try_number > 0) AS t
      JOIN dag_run AS r ON r.id = t.run_id
      JOIN dag_version AS v ON v.id = r.version_id
    ON CONFLICT DO NOTHING
"""
PIN_RUNS: Final = "UPDATE dag_run SET version_id = $2 WHERE id = ANY($1::bigint[])"


async def move_runs(
    conn: DatabaseConnection, runs: Sequence[int], version: int, moved: Mapping[int, int], gone: Sequence[int]
) -> None:
    """Pin runs (by key), all of one DAG version, to another `version`. None of them must be running.

    `moved` are the tasks that change their index, old to new; the rows of those in `gone` are deleted with their
    history, their asset events are kept without a task. Call it inside a transaction.
    """
    await conn.execute(KEEP_SOURCES, runs)
    for table in _WITH_TASK_INDEX:
        if gone:
            await conn.execute(_DROP.format(table=table), runs, gone)
        if moved:
            await conn.execute(_LEAVE.format(table=table), runs, list(moved), list(moved.values()))
            await conn.execute(_ARRIVE.format(table=table), runs)
    if moved or gone:
        await conn.execute(MOVE_EVENTS, runs, [*moved, *gone], [*moved.values(), *(None for _ in gone)])
    await conn.execute(PIN_RUNS, runs, version)
