"""What a run needs besides its own rows when it is loaded: lengths of values, decisions, code, its previous run.

No decisions live here. Source: the semantics reference, sections 6, 7.4 and 26.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from aiosched.core.values.states import TaskState
from aiosched.db.server.connection import DatabaseConnection
from aiosched.errors import UnreadableRow

Place = tuple[int, int]  # task index, map index

# Lengths of collections, as typed_json.json_length has them; NULL for other values. Index: primary key, once for each
# task.
LOAD_MAP_LENGTHS: Final = """
    SELECT x.run_id, x.task_index, x.map_index,
           CASE WHEN x.stored ->> 'length' ~ '^[0-9]{1,15}$' THEN (x.stored ->> 'length')::bigint
                WHEN x.stored ->> 'path' IS NOT NULL THEN NULL
                WHEN json_typeof(items) = 'array' THEN json_array_length(items)
                WHEN json_typeof(items) = 'object' THEN (SELECT count(*) FROM json_object_keys(items))
           END
      FROM unnest($1::bigint[], $2::int[]) AS w (run_id, task_index)
      JOIN xcom AS x ON x.run_id = w.run_id AND x.task_index = w.task_index AND x.key = 'return_value'
     CROSS JOIN LATERAL (
           SELECT CASE WHEN json_typeof(x.value) <> 'object' OR x.value -> '$aiosched' IS NULL THEN x.value
                       WHEN json_typeof(x.value -> 'value') = 'object' AND x.value -> 'value' -> '$aiosched' IS NOT NULL
                       THEN x.value -> 'value' -> 'value' ELSE x.value -> 'value' END) AS marked (items)
"""


async def load_map_lengths(
    conn: DatabaseConnection, wanted: Sequence[tuple[int, int]]
) -> dict[int, dict[Place, int | None]]:
    """The lengths of the stored return values of (run, task index), by run; None for a value without a length."""
    found: dict[int, dict[Place, int | None]] = {}
    for run, task, map_index, length in await conn.fetch(LOAD_MAP_LENGTHS, *_columns(wanted)):
        found.setdefault(run, {})[task, map_index] = length
    return found


# Index: primary key, once for each task.
LOAD_DECISIONS: Final = """
    SELECT x.run_id, x.task_index, x.map_index, x.value
      FROM unnest($1::bigint[], $2::int[]) AS w (run_id, task_index)
      JOIN xcom AS x ON x.run_id = w.run_id AND x.task_index = w.task_index AND x.key = $3
"""


async def load_decisions(
    conn: DatabaseConnection, wanted: Sequence[tuple[int, int]], key: str
) -> tuple[dict[int, dict[Place, list[str]]], dict[int, UnreadableRow]]:
    """The task ids that the branches (run, task index) skipped, by run; `key` is that of their XComs.

    Also returns the runs with a decision that is not a list of task ids, each with the reason.
    """
    found: dict[int, dict[Place, list[str]]] = {}
    unreadable: dict[int, UnreadableRow] = {}
    if not wanted:
        return found, unreadable
    for run, task, map_index, value in await conn.fetch(LOAD_DECISIONS, *_columns(wanted), key):
        try:
            found.setdefault(run, {})[task, map_index] = msgspec.json.decode(value, type=list[str])
        except msgspec.MsgspecError as error:
            unreadable[run] = UnreadableRow(f"The decision of task {task} of the run with key {run} is {error}")
    return found, unreadable


# Index: primary key.
LOAD_SOURCES: Final = """
    SELECT DISTINCT ON (run_id, task_index, map_index) run_id, task_index, map_index, try_number, source_hash
      FROM try_source WHERE run_id = ANY($1::bigint[])
     ORDER BY run_id, task_index, map_index, try_number DESC
"""


async def load_sources(conn: DatabaseConnection, runs: Sequence[int]) -> dict[int, dict[Place, tuple[int, str | None]]]:
    """The newest tries of the runs' task instances that ran other code than their version's: number and source."""
    found: dict[int, dict[Place, tuple[int, str | None]]] = {}
    for run, task, map_index, number, source in await conn.fetch(LOAD_SOURCES, runs):
        found.setdefault(run, {})[task, map_index] = (number, source)
    return found


class RunBefore(NamedTuple):
    """The previous run of a run."""

    key: int
    version_id: int
    logical_date: datetime
    is_incomplete: bool  # some of its task instances are not stored yet


# The latest run with an earlier logical date, of any of the types. Index: uq_dag_run_dag_id_logical_date, backwards.
RUNS_BEFORE: Final = """
    SELECT w.run_id, r.id, r.version_id, r.logical_date, r.partition < 0 AS is_incomplete
      FROM unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::bool[])
        AS w (run_id, dag_id, logical_date, without_manual)
     CROSS JOIN LATERAL (
        SELECT id, version_id, logical_date, partition FROM dag_run
         WHERE dag_id = w.dag_id AND logical_date < w.logical_date AND NOT (w.without_manual AND run_type = 'manual')
         ORDER BY logical_date DESC LIMIT 1
     ) AS r
"""


async def runs_before(
    conn: DatabaseConnection, wanted: Sequence[tuple[int, str, datetime, bool]]
) -> dict[int, RunBefore]:
    """The previous run for each (run, DAG id, logical date, whether manual runs do not count), if there is one."""
    rows = await conn.fetch(RUNS_BEFORE, *map(list, zip(*wanted, strict=True)))
    return {run: RunBefore(*before) for run, *before in rows}


# Index: primary key.
LOAD_STATES: Final = "SELECT run_id, task_index, state FROM task_instance WHERE run_id = ANY($1::bigint[])"


async def load_states(conn: DatabaseConnection, runs: Iterable[int]) -> dict[int, list[tuple[int, TaskState]]]:
    """The (task index, state) of all task instances of the runs, by run; without runs that have an unknown state."""
    keys = list(runs)
    found: dict[int, list[tuple[int, TaskState]]] = {key: [] for key in keys}
    for run, task, state in await conn.fetch(LOAD_STATES, keys):
        try:
            if run in found:
                found[run].append((task, TaskState.of(state)))
        except UnreadableRow:
            del found[run]
    return found


# Index: uq_dag_run_dag_id_logical_date.
VERSIONS_BEFORE: Final = "SELECT DISTINCT version_id FROM dag_run WHERE dag_id = $1 AND logical_date < $2"


async def versions_before(conn: DatabaseConnection, dag_id: str, logical_date: datetime) -> list[int]:
    """The versions of the DAG's runs with an earlier logical date."""
    return [row["version_id"] for row in await conn.fetch(VERSIONS_BEFORE, dag_id, logical_date)]


# An incomplete run may have instances that are not stored yet. Indexes: uq_dag_run_dag_id_logical_date, then the
# primary key.
SEEN_BEFORE: Final = """
    SELECT w.version_id, w.task_index
      FROM unnest($3::bigint[], $4::int[]) AS w (version_id, task_index)
     WHERE EXISTS (
        SELECT FROM dag_run AS r
         WHERE r.dag_id = $1 AND r.logical_date < $2 AND r.version_id = w.version_id
           AND (r.partition < 0
                OR EXISTS (SELECT FROM task_instance AS t WHERE t.run_id = r.id AND t.task_index = w.task_index)))
"""


async def seen_before(
    conn: DatabaseConnection, dag_id: str, logical_date: datetime, places: Sequence[tuple[int, int]]
) -> set[tuple[int, int]]:
    """Those of the tasks (version, task index) with an instance in a run with an earlier logical date."""
    return {(row[0], row[1]) for row in await conn.fetch(SEEN_BEFORE, dag_id, logical_date, *_columns(places))}


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [first for first, _ in pairs], [second for _, second in pairs]
