"""Statements of the hot transaction: the only writer of task instances while runs go on.

Every transaction here begins with `begin` (the fence) and locks in one order: scheduler
row, pools by name, then instances and runs by key. State changes are guarded: a row that
is not as expected makes the whole batch void, because then memory and rows disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from aiosched.core.board import FinishedTry
from aiosched.db.engine import Connection
from aiosched.errors import FencedOut, StaleRows


class PoolRow(NamedTuple):
    """A pool under lock: `slots` -1 is infinite, `used` includes everything committed."""

    slots: int
    used: int


class InstanceChange(NamedTuple):
    """One guarded update of a task instance: the state and try expected, then the new values."""

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


class XComRow(NamedTuple):
    run_id: int
    task_index: int
    map_index: int
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Written:
    """What the hot statement returns: the transaction's id settles an unknown commit."""

    xid: str


# A batch is planned once for tables of any size: by key, never by scanning.
PLANNER: Final = """
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET plan_cache_mode = force_generic_plan
"""


async def begin(conn: Connection, incarnation: int) -> None:
    """Open the transaction and take the fence: our own scheduler row, FOR KEY SHARE.

    Take-over locks that row FOR UPDATE and deletes it, so from then on this raises
    FencedOut. Source: the design, section 7.
    """
    fence = f"BEGIN; SELECT 1 FROM scheduler WHERE incarnation = {incarnation:d} FOR KEY SHARE"
    if await conn.execute(fence) != "SELECT 1":
        await conn.execute("ROLLBACK")
        raise FencedOut(
            f"Scheduler incarnation {incarnation} was declared dead and its partitions were taken over; "
            "it forgets what it holds and must start again as a new incarnation."
        )


LOCK_POOLS: Final = """
    SELECT name, slots, used FROM pool WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE
"""


async def lock_pools(conn: Connection, names: Iterable[str]) -> dict[str, PoolRow]:
    """Lock the named pools, in name order, until the transaction ends; missing ones are absent."""
    rows = await conn.fetch(LOCK_POOLS, sorted(names))
    return {row["name"]: PoolRow(row["slots"], row["used"]) for row in rows}


# Guards: state and try of each instance; a pool's use is moved under its lock, and raised
# only while it fits its slots. Indexes: the primary keys.
WRITE: Final = """
    WITH change AS (
        SELECT * FROM unnest(
            $1::bigint[], $2::int[], $3::int[], $4::text[], $5::int[], $6::text[], $7::int[], $8::int[], $9::int[],
            $10::bigint[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[],
            $15::timestamptz[], $16::text[]
        ) AS c (run_id, task_index, map_index, old_state, old_try, state, try_number, max_tries, losses,
                queued_by, scheduled_at, queued_at, start_date, end_date, next_at, reason)
    ), changed AS (
        UPDATE task_instance AS ti
           SET state = c.state, try_number = c.try_number, max_tries = c.max_tries, losses = c.losses,
               queued_by = c.queued_by, scheduled_at = c.scheduled_at, queued_at = c.queued_at,
               start_date = c.start_date, end_date = c.end_date, next_at = c.next_at, reason = c.reason
          FROM change AS c
         WHERE ti.run_id = c.run_id AND ti.task_index = c.task_index AND ti.map_index = c.map_index
           AND ti.state IS NOT DISTINCT FROM c.old_state AND ti.try_number = c.old_try
        RETURNING 1
    ), moved AS (
        UPDATE pool AS p
           SET used = p.used + m.delta
          FROM unnest($17::text[], $18::int[]) AS m (name, delta)
         WHERE p.name = m.name AND (m.delta <= 0 OR p.slots = -1 OR p.used + m.delta <= p.slots)
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM changed) AS changed, (SELECT count(*) FROM moved) AS moved,
           pg_current_xact_id()::text AS xid
"""

_COLUMNS: Final = len(InstanceChange._fields)
_NOTHING: Final[list[list[None]]] = [[] for _ in range(_COLUMNS)]


async def write(conn: Connection, changes: Sequence[InstanceChange], pool_deltas: Mapping[str, int]) -> Written:
    """Store instance changes and pool use in one round trip; all of it or StaleRows."""
    columns = list(map(list, zip(*changes, strict=True))) if changes else _NOTHING
    deltas = {name: delta for name, delta in pool_deltas.items() if delta}
    row = await conn.fetchrow(WRITE, *columns, list(deltas), list(deltas.values()))
    if row["changed"] != len(changes) or row["moved"] != len(deltas):
        raise StaleRows(
            f"{len(changes) - row['changed']} of {len(changes)} task instances and "
            f"{len(deltas) - row['moved']} of {len(deltas)} pools were not as expected"
        )
    return Written(row["xid"])


WRITE_RUNS: Final = """
    UPDATE dag_run AS r
       SET state = c.state, queued_at = c.queued_at, start_date = c.start_date, end_date = c.end_date,
           reason = c.reason
      FROM unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[],
                  $7::text[]) AS c (id, old_state, state, queued_at, start_date, end_date, reason)
     WHERE r.id = c.id AND r.state = c.old_state
"""


async def write_runs(conn: Connection, changes: Sequence[RunChange]) -> None:
    """Store run states, guarded by the state before; all of them or StaleRows."""
    tag = await conn.execute(WRITE_RUNS, *map(list, zip(*changes, strict=True)))
    if tag != f"UPDATE {len(changes)}":
        raise StaleRows(f"{tag} of {len(changes)} runs")


INSERT_TRIES: Final = """
    INSERT INTO task_try (run_id, task_index, map_index, try_number, state, queued_by, queued_at, start_date,
                          end_date, reason, details, hostname, pid)
    SELECT * FROM unnest($1::bigint[], $2::int[], $3::int[], $4::smallint[], $5::text[], $6::bigint[],
                         $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[],
                         $12::text[], $13::int[])
    ON CONFLICT DO NOTHING
"""


async def insert_tries(conn: Connection, tries: Sequence[FinishedTry]) -> None:
    """Keep finished attempts that their instance's row will not remember."""
    rows = [
        (
            *t.key, t.state, t.queued_by, t.queued_at, t.start_date, t.end_date,
            t.reason, t.details, t.hostname, t.pid,
        )
        for t in tries
    ]  # fmt: skip
    await conn.execute(INSERT_TRIES, *map(list, zip(*rows, strict=True)))


DELETE_XCOMS: Final = """
    DELETE FROM xcom AS x
     USING unnest($1::bigint[], $2::int[], $3::int[]) AS d (run_id, task_index, map_index)
     WHERE x.run_id = d.run_id AND x.task_index = d.task_index AND x.map_index = d.map_index
"""


async def delete_xcoms(conn: Connection, instances: Sequence[tuple[int, int, int]]) -> None:
    """Forget what earlier tries of (run, task index, map index) pushed."""
    await conn.execute(DELETE_XCOMS, *map(list, zip(*instances, strict=True)))


UPSERT_XCOMS: Final = """
    INSERT INTO xcom (run_id, task_index, map_index, key, value)
    SELECT run_id, task_index, map_index, key, value::json
      FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::text[])
        AS x (run_id, task_index, map_index, key, value)
    ON CONFLICT (run_id, task_index, map_index, key) DO UPDATE SET value = excluded.value, created_at = now()
"""


async def upsert_xcoms(conn: Connection, xcoms: Sequence[XComRow]) -> None:
    """Store pushed values; the last one of a key wins."""
    last = {row[:4]: row for row in xcoms}
    await conn.execute(UPSERT_XCOMS, *map(list, zip(*last.values(), strict=True)))


async def current_xid(conn: Connection) -> str:
    """The id of the transaction that is open on `conn`."""
    xid: str = await conn.fetchval("SELECT pg_current_xact_id()::text")
    return xid


TRANSACTION_STATUS: Final = "SELECT pg_xact_status($1::text::xid8)"


async def transaction_status(conn: Connection, xid: str) -> str | None:
    """`committed`, `aborted` or `in progress`; None when too old to be known."""
    status: str | None = await conn.fetchval(TRANSACTION_STATUS, xid)
    return status
