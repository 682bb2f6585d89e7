"""Statements of the hot transaction: the only writer of task instances of running runs.

Every transaction here begins with `begin` (the fence) and locks in one order: scheduler row, pools by name, then
instances and runs by key. State changes are guarded: a row that is not as expected voids the whole batch, because
memory and rows disagree.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import asyncpg

from aiosched.core.graph.instances import TrySource
from aiosched.core.run.board import FinishedTry
from aiosched.core.values.messages import StoredXCom, XComValue
from aiosched.db.server.arrays import array_texts
from aiosched.db.server.connection import DatabaseConnection
from aiosched.errors import FencedOut, StaleRows


class PoolRow(NamedTuple):
    """A pool: `slots` -1 is infinite, `used` includes everything committed."""

    slots: int
    used: int
    include_deferred: bool = False  # whether tasks that defer keep their slots
    team: str | None = None  # whose DAGs may use it; None: all
    demands: str = "{}"  # what schedulers wait for (db/statements/pool_demands.py)
    read_at: float = 0.0  # under lock: seconds since 1970 by PostgreSQL's clock


class InstanceChange(NamedTuple):
    """One guarded update of a task instance: the expected state and try, then the new values."""

    run_id: int
    task_index: int
    map_index: int
    old_state: str | None
    old_try: int
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
    SELECT name, slots, used, include_deferred, team, demands::text
      FROM pool WHERE name = ANY($1::text[]) ORDER BY name
"""
# The clock is read when all of them are locked: a locking SELECT would read it before it waits, one that sorts only
# after.
LOCK_POOLS: Final = """
    SELECT name, slots, used, include_deferred, team, demands::text, extract(epoch FROM clock_timestamp())::float8
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
# again (recounts.py). The columns are passed as texts of arrays (arrays.py).
FENCED_INSTANCES: Final = """fence AS MATERIALIZED (
        SELECT 1 AS held FROM scheduler WHERE incarnation = $1 FOR KEY SHARE
    ), changed AS (
        UPDATE task_instance AS ti
           SET state = c.state, try_number = c.try_number, max_tries = c.max_tries, losses = c.losses,
               queued_by = c.queued_by, scheduled_at = c.scheduled_at, queued_at = c.queued_at,
               start_date = c.start_date, end_date = c.end_date, next_at = c.next_at, reason = c.reason
          FROM fence, unnest(
            $2::text::bigint[], $3::text::int[], $4::text::int[], $5::text::text[], $6::text::int[], $7::text::text[],
            $8::text::int[], $9::text::int[], $10::text::int[], $11::text::bigint[], $12::text::timestamptz[],
            $13::text::timestamptz[], $14::text::timestamptz[], $15::text::timestamptz[], $16::text::timestamptz[],
            $17::text::text[]
          ) AS c (run_id, task_index, map_index, old_state, old_try, state, try_number, max_tries, losses,
                  queued_by, scheduled_at, queued_at, start_date, end_date, next_at, reason)
         WHERE ti.run_id = c.run_id AND ti.task_index = c.task_index AND ti.map_index = c.map_index
           AND ti.state IS NOT DISTINCT FROM c.old_state AND ti.try_number = c.old_try
        RETURNING 1
    )
"""
ENDED_RUNS: Final = """ended AS (
        UPDATE dag_run AS r
           SET state = c.state, queued_at = c.queued_at, start_date = c.start_date, end_date = c.end_date,
               reason = c.reason, clear_number = c.clear_number
          FROM fence, unnest(
            $18::text::bigint[], $19::text::text[], $20::text::text[], $21::text::timestamptz[],
            $22::text::timestamptz[], $23::text::timestamptz[], $24::text::text[], $25::text::int[]
          ) AS c (id, old_state, state, queued_at, start_date, end_date, reason, clear_number)
         WHERE r.id = c.id AND r.state = c.old_state
        RETURNING 1
    )"""
MOVED_POOLS: Final = """moved AS (
        UPDATE pool AS p
           SET used = least(p.used::bigint + m.delta, 2147483647)
          FROM fence, unnest($26::text::text[], $27::text::int[]) AS m (name, delta)
         WHERE p.name = m.name AND (m.delta <= 0 OR p.slots < 0 OR p.used::bigint + m.delta <= p.slots)
        RETURNING p.name, p.slots, p.used, p.include_deferred, p.team
    )"""
AS_EXPECTED: Final = """1 / (
        (SELECT count(*) FROM fence) * ((SELECT count(*) FROM changed) = $28)::int
        * ((SELECT count(*) FROM ended) = $29)::int * ((SELECT count(*) FROM moved) = $30)::int
    )"""
WRITE: Final = f"""
    WITH {FENCED_INSTANCES}, {ENDED_RUNS}, {MOVED_POOLS}
    SELECT name, slots, used, include_deferred, team FROM moved
     UNION ALL
    SELECT NULL, NULL, {AS_EXPECTED}, NULL, NULL
"""
# The same for a batch of instances only, as in a chain: parts of a statement cost time even without rows.
WRITE_INSTANCES: Final = f"""
    WITH {FENCED_INSTANCES}
    SELECT 1 / ((SELECT count(*) FROM fence) * ((SELECT count(*) FROM changed) = $18)::int)
"""


async def write(
    conn: DatabaseConnection,
    incarnation: int,
    instances: Sequence[InstanceChange],
    runs: Sequence[RunChange],
    pool_deltas: Mapping[str, int],
) -> dict[str, PoolRow]:
    """Store changes of instances, runs and pool use, all or nothing; returns the pools whose use changed.

    Raises StaleRows if a row is not as expected, and FencedOut if our scheduler row no longer exists.
    """
    deltas = {name: delta for name, delta in sorted(pool_deltas.items()) if delta}
    try:
        if not runs and not deltas:
            columns = array_texts(instances, len(InstanceChange._fields))
            await conn.fetch(WRITE_INSTANCES, incarnation, *columns, len(instances))
            return {}
        rows = await conn.fetch(WRITE, *parameters(incarnation, instances, runs, deltas))
    except REFUSALS as error:
        raise await refused(conn, error, incarnation, instances, runs, deltas) from error
    return {name: PoolRow(*pool) for name, *pool in rows if name is not None}


def parameters(
    incarnation: int, instances: Sequence[InstanceChange], runs: Sequence[RunChange], deltas: Mapping[str, int]
) -> list[object]:
    """Those of WRITE; `deltas` are not zero, and in the order of their names."""
    return [
        incarnation,
        *array_texts(instances, len(InstanceChange._fields)),
        *array_texts(runs, len(RunChange._fields)),
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


# An unexpanded mapped task becomes the first of its instances and keeps its note. Guard: it was not expanded. Index:
# primary keys.
EXPAND: Final = """
    WITH noted AS (
        UPDATE task_note AS n SET map_index = 0 FROM unnest($1::bigint[], $2::int[]) AS e (run_id, task_index)
         WHERE n.run_id = e.run_id AND n.task_index = e.task_index AND n.map_index = -1
    )
    UPDATE task_instance AS ti SET map_index = 0 FROM unnest($1::bigint[], $2::int[]) AS e (run_id, task_index)
     WHERE ti.run_id = e.run_id AND ti.task_index = e.task_index AND ti.map_index = -1
"""


async def expand(conn: DatabaseConnection, tasks: Sequence[tuple[int, int]]) -> None:
    """Set the map index of the unexpanded instance of each (run, task index) to 0.

    Raises StaleRows if one is missing.
    """
    changed = await conn.execute(EXPAND, *map(list, zip(*tasks, strict=True)))
    if changed != f"UPDATE {len(tasks)}":
        raise StaleRows(f"Of {len(tasks)} mapped tasks to expand only some were not expanded yet: {changed}")


INSERT_TRIES: Final = """
    INSERT INTO task_try (run_id, task_index, map_index, try_number, state, queued_by, queued_at, start_date,
                          end_date, reason, details, hostname, pid)
    SELECT * FROM unnest($1::bigint[], $2::int[], $3::int[], $4::smallint[], $5::text[], $6::bigint[],
                         $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[],
                         $12::text[], $13::int[])
    ON CONFLICT DO NOTHING
"""


async def insert_tries(conn: DatabaseConnection, tries: Sequence[FinishedTry]) -> None:
    """Store finished attempts that their instance's row will no longer describe."""
    rows = [
        (
            *t.key, t.state, t.queued_by, t.queued_at, t.start_date, t.end_date,
            t.reason, t.details, t.hostname, t.pid,
        )
        for t in tries
    ]  # fmt: skip
    await conn.execute(INSERT_TRIES, *map(list, zip(*rows, strict=True)))


# Index: primary key. For a try that is called again the last code counts. The version may have been replaced.
STORE_SOURCES: Final = """
    INSERT INTO try_source (run_id, task_index, map_index, try_number, version_id, source_hash)
    SELECT * FROM unnest($1::bigint[], $2::int[], $3::int[], $4::smallint[], $5::bigint[], $6::text[])
    ON CONFLICT (run_id, task_index, map_index, try_number)
    DO UPDATE SET version_id = excluded.version_id, source_hash = excluded.source_hash
"""


async def store_sources(conn: DatabaseConnection, sources: Sequence[TrySource]) -> None:
    """Store the code of tries that run other code than that of their run's version.

    Raises StaleRows if parsing has replaced that version in the meantime: read the DAGs again.
    """
    last = {row[:4]: row for row in sources}
    try:
        await conn.execute(STORE_SOURCES, *map(list, zip(*last.values(), strict=True)))
    except asyncpg.ForeignKeyViolationError as error:
        raise StaleRows(f"A DAG version was replaced while its code was handed out ({error.detail})") from error


DELETE_XCOMS: Final = """
    DELETE FROM xcom AS x
     USING unnest($1::bigint[], $2::int[], $3::int[]) AS d (run_id, task_index, map_index)
     WHERE x.run_id = d.run_id AND x.task_index = d.task_index AND x.map_index = d.map_index
"""


async def delete_xcoms(conn: DatabaseConnection, instances: Sequence[tuple[int, int, int]]) -> None:
    """Delete what earlier tries of (run, task index, map index) pushed."""
    await conn.execute(DELETE_XCOMS, *map(list, zip(*instances, strict=True)))


UPSERT_XCOMS: Final = """
    INSERT INTO xcom (run_id, task_index, map_index, key, value, stored)
    SELECT run_id, task_index, map_index, key, value::json, stored::json
      FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::text[], $6::text[])
        AS x (run_id, task_index, map_index, key, value, stored)
    ON CONFLICT (run_id, task_index, map_index, key)
    DO UPDATE SET value = excluded.value, stored = excluded.stored, created_at = now()
"""


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
