"""What the answer to "why does it not run?" needs of the rows. Read only; no decisions live here.

Every statement is bounded: by the unfinished runs, of which the oldest are read, and by its limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from aiosched.core.graph.instances import Run
from aiosched.core.run.deferral import Deferred
from aiosched.core.values.ids import PARTITIONS
from aiosched.core.values.messages import AttemptKey
from aiosched.core.values.states import HOLDING_SLOT, TaskState
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import runs
from aiosched.db.statements.runs import DAG_COLUMNS, DagRow
from aiosched.db.statements.triggers import LOAD_DEFERRALS, DeferralRow, deferral_of

MOST_RUNS: Final = 2_000  # unfinished runs of one DAG, and running ones of the fleet
MOST_INSTANCES: Final = 2_000  # task instances that wait for slots, and such that hold some

GET_DAG: Final = f"SELECT {DAG_COLUMNS} FROM dag WHERE dag_id = $1 AND version_id IS NOT NULL"


async def get_dag_row(conn: DatabaseConnection, dag_id: str) -> DagRow | None:
    """A DAG's row as schedulers read it; None for one without a version."""
    row = await conn.fetchrow(GET_DAG, dag_id)
    return None if row is None else DagRow(*row)


# Index: ix_dag_run_unfinished (partial).
UNFINISHED_OF_DAG: Final = """
    SELECT id FROM dag_run
     WHERE state IN ('queued', 'running') AND partition = ANY($1::smallint[]) AND dag_id = $2
     ORDER BY state DESC, coalesce(backfill_order, 0), run_after, id LIMIT $3
"""


async def unfinished_runs(conn: DatabaseConnection, dag_id: str, partition: int) -> list[Run]:
    """The running runs of a DAG, then its queued ones in the order in which they may start; at most `MOST_RUNS`."""
    rows = await conn.fetch(UNFINISHED_OF_DAG, runs.in_rows([partition]), dag_id, MOST_RUNS)
    turns = {row["id"]: turn for turn, row in enumerate(rows)}
    return sorted(await runs.load_runs(conn, turns), key=lambda run: turns[run.key])


class ActiveCount(NamedTuple):
    """How many instances of a task are in a state, in one unfinished run."""

    run: int
    version_id: int
    task_index: int
    state: TaskState
    number: int


# Index: ix_dag_run_unfinished, then the primary key, once for each running run of the DAG.
ACTIVE_OF_DAG: Final = """
    SELECT r.id, r.version_id, ti.task_index, ti.state, count(*)::int
      FROM dag_run AS r JOIN task_instance AS ti ON ti.run_id = r.id
     WHERE r.state = 'running' AND r.partition = $1 AND r.dag_id = $2 AND ti.state = ANY($3::text[])
     GROUP BY 1, 2, 3, 4
"""


async def active_instances(conn: DatabaseConnection, dag_id: str, partition: int) -> list[ActiveCount]:
    """The task instances of a DAG that count against its limits."""
    states = [state.value for state in (*HOLDING_SLOT, TaskState.DEFERRED)]
    rows = await conn.fetch(ACTIVE_OF_DAG, partition, dag_id, states)
    return [ActiveCount(run, version, task, TaskState.of(state), number) for run, version, task, state, number in rows]


@dataclass(frozen=True, slots=True)
class Contender:
    """A task instance of any running run that holds slots, or waits for some."""

    run: int
    dag_id: str
    run_id: str
    version_id: int
    priority: int
    logical_date: datetime | None
    task_index: int
    map_index: int
    state: TaskState
    scheduled_at: datetime | None
    queued_at: datetime | None
    start_date: datetime | None


# Of a paused DAG nothing waits for slots. Indexes: ix_dag_run_unfinished, then the primary key, once for each run.
CONTENDERS: Final = """
    SELECT r.id AS run, r.dag_id, r.run_id, r.version_id, r.priority, r.logical_date, ti.task_index, ti.map_index,
           ti.state, ti.scheduled_at, ti.queued_at, ti.start_date
      FROM (SELECT r.* FROM dag_run AS r JOIN dag AS d ON d.dag_id = r.dag_id
             WHERE r.state = 'running' AND r.partition = ANY($1::smallint[]) AND NOT ($2 AND d.is_paused)
               AND ($5::text IS NULL OR r.dag_id = $5)
             ORDER BY r.id LIMIT $3) AS r
      JOIN task_instance AS ti ON ti.run_id = r.id AND ti.state = ANY($6::text[])
     ORDER BY coalesce(ti.start_date, ti.queued_at, ti.scheduled_at), ti.run_id, ti.task_index, ti.map_index
     LIMIT $4
"""


# Index: ix_dag_run_unfinished (partial), no further than the limit.
RUNNING_RUNS: Final = """
    SELECT count(*) FROM (
        SELECT FROM dag_run WHERE state = 'running' AND partition = ANY($1::smallint[]) LIMIT $2
    ) AS running
"""


async def more_run_than_are_read(conn: DatabaseConnection) -> bool:
    """Whether more than `MOST_RUNS` runs are running, so that contenders of the younger ones are not read."""
    return int(await conn.fetchval(RUNNING_RUNS, list(range(PARTITIONS)), MOST_RUNS + 1)) > MOST_RUNS


async def waiting_instances(conn: DatabaseConnection) -> list[Contender] | None:
    """Those of the oldest `MOST_RUNS` runs that wait for a slot; None when these are more than `MOST_INSTANCES`."""
    found = await _contenders(conn, [TaskState.SCHEDULED], None, without_paused=True)
    return None if len(found) > MOST_INSTANCES else found


async def holding_instances(conn: DatabaseConnection, dag_id: str | None = None) -> list[Contender]:
    """Those of the oldest `MOST_RUNS` runs, or of a DAG, that hold slots (deferred ones too), the oldest first.

    At most `MOST_INSTANCES` and one more, which says that there are others.
    """
    return await _contenders(conn, [*HOLDING_SLOT, TaskState.DEFERRED], dag_id, without_paused=False)


async def _contenders(
    conn: DatabaseConnection, states: Iterable[TaskState], dag_id: str | None, *, without_paused: bool
) -> list[Contender]:
    wanted = [state.value for state in states]
    partitions = list(range(PARTITIONS))
    rows = await conn.fetch(CONTENDERS, partitions, without_paused, MOST_RUNS, MOST_INSTANCES + 1, dag_id, wanted)
    return [Contender(**{**dict(row), "state": TaskState(row["state"])}) for row in rows]


# Index: ix_dag_run_dag_id_id, backwards, once for each DAG.
LATEST_RUNS: Final = """
    SELECT r.dag_id, r.id, r.version_id
      FROM unnest($1::text[]) AS d (dag_id)
     CROSS JOIN LATERAL (
        SELECT dag_id, id, version_id FROM dag_run
         WHERE dag_id = d.dag_id AND state IN ('success', 'failed') ORDER BY id DESC LIMIT $2
     ) AS r
"""


async def latest_runs(
    conn: DatabaseConnection, dag_ids: Collection[str], *, runs: int = 10
) -> list[tuple[str, int, int]]:
    """The latest finished runs of these DAGs: DAG id, key, version."""
    return [tuple(row) for row in await conn.fetch(LATEST_RUNS, sorted(dag_ids), runs)]


# Index: primary key, once for each run; a mapped task counts with some of its instances.
MEDIANS: Final = """
    SELECT w.place, percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM t.end_date - t.start_date)::float8)
      FROM unnest($1::int[], $2::bigint[], $3::int[]) AS w (place, run_id, task_index)
     CROSS JOIN LATERAL (
        SELECT start_date, end_date FROM task_instance AS ti
         WHERE ti.run_id = w.run_id AND ti.task_index = w.task_index AND ti.state = 'success'
           AND ti.end_date >= ti.start_date AND isfinite(ti.end_date) AND isfinite(ti.start_date)
         LIMIT 20
     ) AS t
     GROUP BY 1
"""


async def median_seconds(conn: DatabaseConnection, wanted: Sequence[tuple[int, int, int]]) -> dict[int, float]:
    """How long successes usually took, by place; wanted are (place, run, task index)."""
    columns = [list(column) for column in zip(*wanted, strict=True)] if wanted else [[], [], []]
    return {row[0]: row[1] for row in await conn.fetch(MEDIANS, *columns)}


async def stored_deferrals(conn: DatabaseConnection, run: int) -> dict[tuple[int, int], tuple[Deferred, bool]]:
    """What the instances of a run are deferred on, by (task index, map index); arguments stay encrypted."""
    rows = [DeferralRow._make(row) for row in await conn.fetch(LOAD_DEFERRALS, [run])]
    return {(row.task_index, row.map_index): deferral_of(row) for row in rows}


# Index: primary key.
DEFERRED_SINCE: Final = """
    SELECT created_at FROM deferred_trigger WHERE run_id = $1 AND task_index = $2 AND map_index = $3
"""


async def deferred_since(conn: DatabaseConnection, run: int, task_index: int, map_index: int) -> datetime | None:
    """From when a task instance has been deferred."""
    found: datetime | None = await conn.fetchval(DEFERRED_SINCE, run, task_index, map_index)
    return found


LATEST_RUN: Final = """
    SELECT run_id, logical_date, state, end_date FROM dag_run WHERE dag_id = $1 ORDER BY id DESC LIMIT 1
"""


class LatestRun(NamedTuple):
    """The newest run of a DAG."""

    run_id: str
    logical_date: datetime | None
    state: str
    end_date: datetime | None


async def latest_run(conn: DatabaseConnection, dag_id: str) -> LatestRun | None:
    """The newest run of a DAG. Index: ix_dag_run_dag_id_id."""
    row = await conn.fetchrow(LATEST_RUN, dag_id)
    return None if row is None else LatestRun(*row)


# Index: ix_dag_run_dag_id_id, backwards.
USUAL_RUN: Final = """
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM end_date - start_date)::float8)
      FROM (SELECT start_date, end_date FROM dag_run
             WHERE dag_id = $1 AND state = 'success' AND isfinite(end_date) AND isfinite(start_date)
             ORDER BY id DESC LIMIT 10) AS latest
"""


async def usual_run_seconds(conn: DatabaseConnection, dag_id: str) -> float | None:
    """How long the latest successful runs of a DAG usually took; None where there is none."""
    found: float | None = await conn.fetchval(USUAL_RUN, dag_id)
    return found


OWNER_OF: Final = "SELECT incarnation FROM partition_lease WHERE partition = $1"


async def owner_of(conn: DatabaseConnection, partition: int) -> int | None:
    """The incarnation that owns a partition; None: no scheduler does."""
    found: int | None = await conn.fetchval(OWNER_OF, partition)
    return found


# Index: uq_engine_attempt_run_id_task_index_map_index_try_number.
ON_ENGINE: Final = """
    SELECT executor, created_at, begun_at, alive_until, hostname, pid, attempt FROM engine_attempt
     WHERE run_id = $1 AND task_index = $2 AND map_index = $3 AND try_number = $4
"""


class EngineAttemptRow(NamedTuple):
    """An attempt that an engine was given; the instants are those of the database's clock."""

    name: str
    sent_at: datetime
    begun_at: datetime | None
    alive_until: datetime | None
    hostname: str | None
    pid: int | None
    attempt: bytes


async def on_engine(conn: DatabaseConnection, attempt: AttemptKey) -> EngineAttemptRow | None:
    """Where the attempt is on an engine; None if no engine has it."""
    row = await conn.fetchrow(ON_ENGINE, *attempt)
    return None if row is None else EngineAttemptRow(*row)
