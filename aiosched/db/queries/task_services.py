"""Statements behind the services of running tasks: runs and task instances of any DAG.

No decisions here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from aiosched.db.server.connection import DatabaseConnection, Queryable


@dataclass(frozen=True, slots=True)
class DagOutline:
    """An existing DAG: whether it is paused, and the task and group ids of its newest version."""

    is_paused: bool
    task_ids: frozenset[str]
    group_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class AskedRun:
    """A run of any DAG."""

    key: int
    dag_id: str
    run_id: str
    state: str
    logical_date: datetime | None
    run_after: datetime
    version_id: int


class AskedTask(NamedTuple):
    """A task instance: the state is None before it has one."""

    task_id: str
    map_index: int
    state: str | None


# Index: primary keys.
DAG_FACTS: Final = """
    SELECT d.is_paused,
           ARRAY(SELECT t ->> 'task_id' FROM json_array_elements(v.spec -> 'tasks') AS t) AS task_ids,
           ARRAY(SELECT g ->> 'group_id' FROM json_array_elements(v.spec -> 'groups') AS g) AS group_ids
      FROM dag AS d JOIN dag_version AS v ON v.id = d.version_id
     WHERE d.dag_id = $1
"""


async def dag_outline(conn: DatabaseConnection, dag_id: str) -> DagOutline | None:
    """The details of a DAG; None if it does not exist."""
    row = await conn.fetchrow(DAG_FACTS, dag_id)
    return row and DagOutline(row["is_paused"], frozenset(row["task_ids"]), frozenset(row["group_ids"]))


_RUN: Final = "id, dag_id, run_id, state, logical_date, run_after, version_id"

# Index: the primary key.
RUN_BY_KEY: Final = f"SELECT {_RUN} FROM dag_run WHERE id = $1"


async def run_by_key(conn: Queryable, key: int) -> AskedRun | None:
    """The run with this bigint key."""
    row = await conn.fetchrow(RUN_BY_KEY, key)
    return None if row is None else AskedRun(*row)


async def who_asks(conn: Queryable, key: int) -> str:
    """The name of the run with this key, for the audit log."""
    asking = await run_by_key(conn, key)
    return "a task" if asking is None else f"{asking.dag_id} {asking.run_id}"


# Index: uq_dag_run_dag_id_run_id, uq_dag_run_dag_id_logical_date.
FIND_RUNS: Final = f"""
    SELECT {_RUN} FROM dag_run
     WHERE dag_id = $1 AND (run_id = ANY($2::text[]) OR logical_date = ANY($3::timestamptz[]))
"""


async def find_runs(
    conn: DatabaseConnection, dag_id: str, *, run_ids: Sequence[str] = (), logical_dates: Sequence[datetime] = ()
) -> list[AskedRun]:
    """The runs of a DAG with one of these run ids or logical dates, unordered."""
    rows = await conn.fetch(FIND_RUNS, dag_id, list(run_ids), list(logical_dates))
    return [AskedRun(*row) for row in rows]


# Index: ix_dag_run_dag_id_id, backwards.
NEWEST_RUN: Final = f"SELECT {_RUN} FROM dag_run WHERE dag_id = $1 ORDER BY id DESC LIMIT 1"


async def newest_run(conn: DatabaseConnection, dag_id: str) -> AskedRun | None:
    """The run of a DAG that was created last."""
    row = await conn.fetchrow(NEWEST_RUN, dag_id)
    return None if row is None else AskedRun(*row)


class EndedRun(NamedTuple):
    """The times and the data interval of a run."""

    data_interval_start: datetime | None
    data_interval_end: datetime | None
    start_date: datetime | None
    end_date: datetime | None


# Index: uq_dag_run_dag_id_logical_date, backwards.
PREVIOUS_SUCCESS: Final = """
    SELECT before.data_interval_start, before.data_interval_end, before.start_date, before.end_date
      FROM dag_run AS this
      JOIN dag_run AS before ON before.dag_id = this.dag_id AND before.logical_date < this.logical_date
     WHERE this.id = $1 AND before.state = 'success' ORDER BY before.logical_date DESC LIMIT 1
"""


async def previous_success(conn: Queryable, run: int) -> EndedRun | None:
    """The latest successful run of the DAG with an earlier logical date than the run with this key."""
    row = await conn.fetchrow(PREVIOUS_SUCCESS, run)
    return None if row is None else EndedRun(*row)


class EarlierTask(NamedTuple):
    """A task instance of an earlier run."""

    state: str | None
    try_number: int
    start_date: datetime | None
    end_date: datetime | None


class PrecedingRun(NamedTuple):
    """The run of a DAG before another one."""

    key: int
    run_id: str
    state: str
    run_type: str
    logical_date: datetime
    run_after: datetime
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    start_date: datetime | None
    end_date: datetime | None


# A task's index is in the version to which a run is pinned. Index: uq_dag_run_dag_id_logical_date, backwards.
PREVIOUS_RUN: Final = """
    WITH this AS (SELECT dag_id, logical_date FROM dag_run WHERE id = $1),
    place AS MATERIALIZED (
        SELECT v.id AS version_id, t.position - 1 AS task_index
          FROM dag_version AS v
          JOIN json_array_elements(v.spec -> 'tasks') WITH ORDINALITY AS t (task, position)
            ON t.task ->> 'task_id' = $5
         WHERE $4::text IS NOT NULL AND v.dag_id = (SELECT dag_id FROM this))
    SELECT before.id, before.run_id, before.state, before.run_type, before.logical_date, before.run_after,
           before.data_interval_start, before.data_interval_end, before.start_date, before.end_date
      FROM this
      JOIN dag_run AS before
        ON before.dag_id = this.dag_id AND before.logical_date < coalesce($7::timestamptz, this.logical_date)
     WHERE ($2::text IS NULL OR before.state = $2) AND ($3 OR before.run_type <> 'manual')
       AND ($4::text IS NULL OR EXISTS (
           SELECT FROM place
             JOIN task_instance AS ti
               ON ti.run_id = before.id AND ti.task_index = place.task_index AND ti.map_index = $6 AND ti.state = $4
            WHERE place.version_id = before.version_id))
     ORDER BY before.logical_date DESC LIMIT 1
"""


class EarlierRun(NamedTuple):
    """Which earlier run is meant: the latest of those before a logical date, by default that of the asking run."""

    task_id: str
    map_index: int
    state: str | None = None  # of the run
    task_state: str | None = None
    with_manual: bool = True
    date: datetime | None = None


async def previous_run(conn: DatabaseConnection, run: int, which: EarlierRun) -> PrecedingRun | None:
    """The run of the same DAG before the one with this key."""
    row = await conn.fetchrow(
        PREVIOUS_RUN,
        run,
        which.state,
        which.with_manual,
        which.task_state,
        which.task_id,
        which.map_index,
        which.date,
    )
    return None if row is None else PrecedingRun(*row)


# The task's index is in the version to which the run is pinned. Index: primary keys.
EARLIER_TASK: Final = """
    SELECT ti.state, ti.try_number, ti.start_date, ti.end_date
      FROM dag_run AS r
      JOIN dag_version AS v ON v.id = r.version_id
      JOIN task_instance AS ti ON ti.run_id = r.id
     WHERE r.id = $1 AND ti.map_index = $3
       AND ti.task_index = (
           SELECT t.position - 1
             FROM json_array_elements(v.spec -> 'tasks') WITH ORDINALITY AS t (task, position)
            WHERE t.task ->> 'task_id' = $2)
"""


async def earlier_task(conn: DatabaseConnection, run: int, task_id: str, map_index: int) -> EarlierTask | None:
    """One task instance of a run; None if there is none."""
    row = await conn.fetchrow(EARLIER_TASK, run, task_id, map_index)
    return None if row is None else EarlierTask(*row)


# Task names are in the version to which the run is pinned. Index: primary keys.
TASK_STATES: Final = """
    SELECT v.spec -> 'tasks' -> ti.task_index::int ->> 'task_id' AS task_id, ti.map_index, ti.state
      FROM dag_run AS r
      JOIN dag_version AS v ON v.id = r.version_id
      JOIN task_instance AS ti ON ti.run_id = r.id
     WHERE r.id = $1
       AND ti.task_index = ANY(
           SELECT t.position - 1
             FROM json_array_elements(v.spec -> 'tasks') WITH ORDINALITY AS t (task, position)
            WHERE t.task ->> 'task_id' = ANY($2::text[])
               OR t.task ->> 'group_id' = $3 OR starts_with(t.task ->> 'group_id', $3 || '.'))
     ORDER BY ti.task_index, ti.map_index
"""


async def task_states(
    conn: DatabaseConnection, run: int, *, task_ids: Sequence[str] = (), group_id: str | None = None
) -> list[AskedTask]:
    """The instances of the tasks with these ids, and of those in the group, of one run; in the DAG's order."""
    rows = await conn.fetch(TASK_STATES, run, list(task_ids), group_id)
    return [AskedTask(*row) for row in rows]
