"""Statements of the hot transaction: the only writer of task instances of running runs.

Every transaction here begins with `begin` (the fence) and locks in one order: scheduler row, pools by name, then
instances and runs by key. State changes are guarded: a row that is not as expected voids the whole batch, because
memory and rows disagree.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

import asyncpg

from aiosched.core.graph.instances import TrySource
from aiosched.core.run.board import FinishedTry, Run
from aiosched.core.values.messages import StoredXCom, XComValue
from aiosched.db.schema.table import same
from aiosched.db.schema.tables import DAG_RUN, TASK_INSTANCE, TASK_TRY, TRY_SOURCE, XCOM
from aiosched.db.server.arrays import array_texts
from aiosched.db.server.connection import DatabaseConnection
from aiosched.errors import FencedOut, StaleRows


class PoolRow(NamedTuple):
    """A pool: `slots` -1 is infinite, `used` includes everything committed."""

    slots: int
    used: int
    include_deferred: bool = False  # whether tasks that defer keep their slots
    team: str | None = None  # whose DAGs may use it; None: all
    rate: str | None = None  # most starts per period (core/slots/rates.py)
    demands: str = "{}"  # what schedulers wait for (db/statements/pool_demands.py)
    starts: str = "[]"  # under lock: the recent ones, if it has a rate
    read_at: float = 0.0  # under lock: seconds since 1970 by PostgreSQL's clock


class InstanceChange(NamedTuple):
    """One guarded update of a task instance: the expected state and try, then the new values."""

    run_id: int
    task_index: int
    map_index: int
    old_state: str | None
    old_try_number: int
    state: str | None
    try_number: int
    max_tries: int
    losses: int
    queued_by: int | None
    scheduled_at: datetime | None
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    next_at: datetime | None
    reason: str | None
    is_stopped: bool = False


class RunChange(NamedTuple):
    """One guarded update of a run."""

    id: int
    old_state: str
    state: str
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    reason: str | None
    clear_number: int = 0


_changing: Final = attrgetter(*RunChange._fields[2:])


def run_change(run: Run) -> RunChange:
    """What is to be stored of a run that has changed."""
    return RunChange(run.key, run.stored_state, *_changing(run))


class XComRow(NamedTuple):
    run_id: int
    task_index: int
    map_index: int
    key: str
    value: str
    stored: str | None = None  # of a value in remote storage: {"path": …, "size": …, "length": …}


def xcom_row(run: int, task_index: int, map_index: int, value: XComValue | StoredXCom) -> XComRow:
    """The row of a pushed value."""
    stored = None
    if isinstance(value, StoredXCom):
        stored = json.dumps({"path": value.path, "size": value.size, "length": value.length})
    return XComRow(run, task_index, map_index, value.key, value.value, stored)


class Backend(NamedTuple):
    """One server process of PostgreSQL: pids are reused, pairs of pid and start are not."""

    pid: int
    started: datetime


# A batch is planned once for tables of any size: by key, never by scanning.
PLANNER: Final = """
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET plan_cache_mode = force_generic_plan
"""


async def begin(conn: DatabaseConnection, incarnation: int) -> None:
    """Open the transaction and take the fence: our own scheduler row, FOR KEY SHARE.

    Take-over locks that row FOR UPDATE and deletes it; after that this raises FencedOut. Source: docs/architecture.md,
    "Ownership and fencing".
    """
    fence = f"BEGIN; SELECT 1 FROM scheduler WHERE incarnation = {incarnation:d} FOR KEY SHARE"
    if await conn.execute(fence) != "SELECT 1":
        await conn.execute("ROLLBACK")
        raise fenced_out(incarnation)


READ_POOLS: Final = """
    SELECT name, slots, used, include_deferred, team, rate, demands::text
      FROM pool WHERE name = ANY($1::text[]) ORDER BY name
"""
# The clock is read when all of them are locked: a locking SELECT would read it before it waits, one that sorts only
# after.
LOCK_POOLS: Final = """
    SELECT name, slots, used, include_deferred, team, rate, demands::text, starts::text,
           extract(epoch FROM clock_timestamp())::float8
      FROM (SELECT * FROM pool WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE) AS locked
     ORDER BY name
"""


async def read_pools(conn: DatabaseConnection, names: Iterable[str], *, lock: bool) -> dict[str, PoolRow]:
    """The named pools; missing ones are absent. With `lock` they stay locked until the transaction ends.

    Locks are taken in name order.
    """
    rows = await conn.fetch(LOCK_POOLS if lock else READ_POOLS, sorted(names))
    return {name: PoolRow(*pool) for name, *pool in rows}


# A whole batch in one round trip, in a transaction or as one. It includes the fence: without our own scheduler row
# nothing is changed. Guards: state and try of each instance, state of each run; a pool's use is raised only while it
# fits its slots. If anything is not as expected, a division by zero voids the statement. Indexes: the primary keys.
# Pools are updated in name order, as everywhere; a use that cannot be true is stored as the largest number, and counted
# again (recounts.py).
_CHANGE: Final = InstanceChange._fields
_RUN_CHANGE: Final = RunChange._fields
FENCE: Final = "fence AS MATERIALIZED (SELECT 1 AS held FROM scheduler WHERE incarnation = $1 FOR KEY SHARE)"


def _changed(changes: str) -> str:
    return f"""changed AS (
        UPDATE task_instance AS ti SET {TASK_INSTANCE.assignments(_CHANGE, "c")} FROM fence, {changes}
         WHERE {same(TASK_INSTANCE.key, "ti", "c")}
           AND ti.state IS NOT DISTINCT FROM c.old_state AND ti.try_number = c.old_try_number
        RETURNING 1
    )"""


def _ended(changes: str) -> str:
    return f"""ended AS (
        UPDATE dag_run AS r SET {DAG_RUN.assignments(_RUN_CHANGE, "c")} FROM fence, {changes}
         WHERE r.id = c.id AND r.state = c.old_state
        RETURNING 1
    )"""


def _moved(moves: str) -> str:
    return f"""moved AS (
        UPDATE pool AS p SET used = least(p.used::bigint + m.delta, 2147483647) FROM fence, {moves} AS m (name, delta)
         WHERE p.name = m.name AND (m.delta <= 0 OR p.slots < 0 OR p.used::bigint + m.delta <= p.slots)
        RETURNING p.name, p.slots, p.used, p.include_deferred, p.team, p.rate
    )"""


def _as_expected(**numbers: int | str) -> str:
    parts = (f" * ((SELECT count(*) FROM {part}) = {number})::int" for part, number in numbers.items())
    return f"1 / ((SELECT count(*) FROM fence){''.join(parts)})"


# Of the transaction: what became of it tells whether a database has lost it (core/fleet/positions.py).
NUMBER: Final = "pg_current_xact_id()::text::bigint"
_OF_POOLS: Final = "SELECT name, slots, used, include_deferred, team, rate FROM moved UNION ALL"

# Of any number of rows: the columns are passed as texts of arrays (arrays.py).
_RUNS: Final = 2 + len(_CHANGE)  # the first parameters of these, of the pools, and of what is expected
_POOLS: Final = _RUNS + len(_RUN_CHANGE)
_EXPECTED: Final = _POOLS + 2
NEXT: Final = _EXPECTED + 3  # the first parameter that `parameters` does not give
CHANGED: Final = _changed(TASK_INSTANCE.batch(_CHANGE, 2, name="c", as_texts=True))
ENDED: Final = _ended(DAG_RUN.batch(_RUN_CHANGE, _RUNS, name="c", as_texts=True))
MOVED: Final = _moved(f"unnest(${_POOLS}::text::text[], ${_POOLS + 1}::text::int[])")
AS_EXPECTED: Final = _as_expected(changed=f"${_EXPECTED}", ended=f"${_EXPECTED + 1}", moved=f"${_EXPECTED + 2}")
WRITE: Final = f"""
    WITH {FENCE}, {CHANGED}, {ENDED}, {MOVED}
    {_OF_POOLS} SELECT NULL, {NUMBER}, {AS_EXPECTED}, NULL, NULL, NULL
"""
# The same for a batch of instances only, as of many chains: parts of a statement cost time even without rows.
WRITE_INSTANCES: Final = f"""
    WITH {FENCE}, {CHANGED} SELECT NULL, {NUMBER}, {_as_expected(changed=f"${_RUNS}")}, NULL, NULL, NULL
"""

FEW: Final = 4  # instances; beside them at most one run and one pool


@cache
def write_few(instances: int, runs: int, pools: int) -> str:
    """The same for so few rows, each value a parameter of its own: a quarter to two fifths faster (decision 0077)."""
    run = 2 + instances * len(_CHANGE)
    pool = run + runs * len(_RUN_CHANGE)
    parts, numbers = [FENCE, _changed(TASK_INSTANCE.rows(_CHANGE, instances, 2, name="c"))], {"changed": instances}
    if runs:
        parts.append(_ended(DAG_RUN.rows(_RUN_CHANGE, runs, run, name="c")))
        numbers["ended"] = runs
    if pools:
        parts.append(_moved(f"(VALUES (${pool}::text, ${pool + 1}::int))"))
        numbers["moved"] = pools
    return f"""
        WITH {", ".join(parts)}
        {_OF_POOLS if pools else ""} SELECT NULL, {NUMBER}, {_as_expected(**numbers)}, NULL, NULL, NULL
    """


async def write(
    conn: DatabaseConnection,
    incarnation: int,
    instances: Sequence[InstanceChange],
    runs: Sequence[RunChange],
    pool_deltas: Mapping[str, int],
) -> tuple[dict[str, PoolRow], int]:
    """Store changes of instances, runs and pool use, all or nothing.

    Returns the pools whose use changed, and the number of the transaction.
    Raises StaleRows if a row is not as expected, and FencedOut if our scheduler row no longer exists.
    """
    deltas = {name: delta for name, delta in sorted(pool_deltas.items()) if delta}
    try:
        if 1 <= len(instances) <= FEW and len(runs) <= 1 and len(deltas) <= 1:
            statement = write_few(len(instances), len(runs), len(deltas))
            rows = await conn.fetch(statement, incarnation, *chain(*instances, *runs, *deltas.items()))
        elif not runs and not deltas:
            columns = array_texts(instances, len(_CHANGE))
            rows = await conn.fetch(WRITE_INSTANCES, incarnation, *columns, len(instances))
        else:
            rows = await conn.fetch(WRITE, *parameters(incarnation, instances, runs, deltas))
    except REFUSALS as error:
        raise await refused(conn, error, incarnation, instances, runs, deltas) from error
    *moved, (_, number, *_) = rows
    return {name: PoolRow(*pool) for name, *pool in moved}, number


def parameters(
    incarnation: int, instances: Sequence[InstanceChange], runs: Sequence[RunChange], deltas: Mapping[str, int]
) -> list[object]:
    """Those of WRITE; `deltas` are not zero, and in the order of their names."""
    return [
        incarnation,
        *array_texts(instances, len(_CHANGE)),
        *array_texts(runs, len(_RUN_CHANGE)),
        *array_texts(list(deltas.items()), 2),
        len(instances),
        len(runs),
        len(deltas),
    ]


REFUSALS: Final = (asyncpg.CheckViolationError, asyncpg.DivisionByZeroError)


async def refused(
    conn: DatabaseConnection,
    error: Exception,
    incarnation: int,
    instances: Collection[InstanceChange],
    runs: Collection[RunChange],
    deltas: Collection[str],
) -> Exception:
    """End the transaction of a batch that was refused with `error`; returns what to raise: StaleRows or FencedOut."""
    if isinstance(error, asyncpg.CheckViolationError) and "ck_pool_used" not in str(error):
        raise error
    await conn.execute("ROLLBACK")
    if isinstance(error, asyncpg.CheckViolationError):
        return StaleRows(f"Of {len(deltas)} pools some cannot be in use as much as they say: {error}")
    if await conn.fetchval("SELECT 1 FROM scheduler WHERE incarnation = $1", incarnation) is None:
        return fenced_out(incarnation)
    what = f"{len(instances)} task instances, {len(runs)} runs and {len(deltas)} pools"
    return StaleRows(f"Of a batch of {what} some were not as expected")


def fenced_out(incarnation: int) -> FencedOut:
    return FencedOut(
        f"Scheduler incarnation {incarnation} was declared dead and its partitions were taken over; "
        "it forgets what it holds and must start again as a new incarnation."
    )


# An unexpanded mapped task ($3 = -1) becomes the first of its instances ($4 = 0), or the other way round, and keeps its
# note. Guard: it was not yet. Index: primary keys.
PLACE: Final = """
    WITH noted AS (
        UPDATE task_note AS n SET map_index = $4 FROM unnest($1::bigint[], $2::int[]) AS e (run_id, task_index)
         WHERE n.run_id = e.run_id AND n.task_index = e.task_index AND n.map_index = $3
    )
    UPDATE task_instance AS ti SET map_index = $4 FROM unnest($1::bigint[], $2::int[]) AS e (run_id, task_index)
     WHERE ti.run_id = e.run_id AND ti.task_index = e.task_index AND ti.map_index = $3
"""


async def expand(conn: DatabaseConnection, tasks: Sequence[tuple[int, int]]) -> None:
    """Set the map index of the unexpanded instance of each (run, task index) to 0.

    Raises StaleRows if one is missing.
    """
    await _place(conn, tasks, -1, 0)


async def collapse(conn: DatabaseConnection, tasks: Sequence[tuple[int, int]]) -> None:
    """The first instance of each (run, task index) is the unexpanded one again. Raises StaleRows if one is missing."""
    await _place(conn, tasks, 0, -1)


async def _place(conn: DatabaseConnection, tasks: Sequence[tuple[int, int]], old: int, new: int) -> None:
    changed = await conn.execute(PLACE, *map(list, zip(*tasks, strict=True)), old, new)
    if changed != f"UPDATE {len(tasks)}":
        raise StaleRows(f"Of {len(tasks)} mapped tasks some have no instance {old} to become {new}: {changed}")


OF_TRY: Final = TASK_TRY.columns_of(FinishedTry)
TRY_COLUMNS: Final = (*TASK_TRY.key, *OF_TRY)
_of_try: Final = attrgetter(*OF_TRY)
INSERT_TRIES: Final = f"{TASK_TRY.insert(TRY_COLUMNS)} ON CONFLICT DO NOTHING"


async def insert_tries(conn: DatabaseConnection, tries: Sequence[FinishedTry]) -> None:
    """Store finished attempts that their instance's row will no longer describe."""
    rows = [(*done.key, *_of_try(done)) for done in tries]
    await conn.execute(INSERT_TRIES, *map(list, zip(*rows, strict=True)))


# Index: primary key. For a try that is called again the last code counts. The version may have been replaced.
STORE_SOURCES: Final = TRY_SOURCE.upsert(TrySource._fields)


async def store_sources(conn: DatabaseConnection, sources: Sequence[TrySource]) -> None:
    """Store the code of tries that run other code than that of their run's version.

    Raises StaleRows if parsing has replaced that version in the meantime: read the DAGs again.
    """
    last = {row[:4]: row for row in sources}
    try:
        await conn.execute(STORE_SOURCES, *map(list, zip(*last.values(), strict=True)))
    except asyncpg.ForeignKeyViolationError as error:
        raise StaleRows(f"A DAG version was replaced while its code was handed out ({error.detail})") from error


DELETE_XCOMS: Final = XCOM.delete(TASK_INSTANCE.key)


async def delete_xcoms(conn: DatabaseConnection, instances: Sequence[tuple[int, int, int]]) -> None:
    """Delete what earlier tries of (run, task index, map index) pushed."""
    await conn.execute(DELETE_XCOMS, *map(list, zip(*instances, strict=True)))


UPSERT_XCOMS: Final = f"{XCOM.upsert(XComRow._fields)}, created_at = now()"


async def upsert_xcoms(conn: DatabaseConnection, xcoms: Sequence[XComRow]) -> None:
    """Store pushed values; the last one of a key wins."""
    last = {row[:4]: row for row in xcoms}
    await conn.execute(UPSERT_XCOMS, *map(list, zip(*last.values(), strict=True)))


WHO_AM_I: Final = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"


async def who_am_i(conn: DatabaseConnection) -> Backend:
    """The server process of this connection."""
    return Backend(*await conn.fetchrow(WHO_AM_I))


END_BACKEND: Final = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2
"""


async def end_backend(conn: DatabaseConnection, backend: Backend) -> bool:
    """Ask a server process to end; returns whether it still existed.

    Once it has ended, its transaction is committed or never will be.
    """
    alive: int = await conn.fetchval(END_BACKEND, *backend)
    return alive > 0
