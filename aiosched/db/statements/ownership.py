"""Statements on schedulers and partition leases.

Source: docs/architecture.md, "Who writes what" and "Ownership and fencing".

The life of a scheduler: `register` issues its incarnation; its lease thread holds a session advisory lock on that
number, renews the lease and checks its peers; `take_over` fences a dead one and frees its partitions; `acquire` and
`release` move free partitions; `leave` ends it cleanly. Leases are compared only by PostgreSQL's clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import asyncpg

from aiosched.core.values.figures import read_figures
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.db.statements.pool_demands import withdraw_demands
from aiosched.errors import FencedOut

LOCK_CLASS: Final = 1_634_300_755  # "aios" in ASCII: the first key of our advisory locks


@dataclass(frozen=True, slots=True)
class Peer:
    """A scheduler's row as seen by its peers."""

    incarnation: int
    draining: bool
    process_gone: bool  # its session lock was released
    expired: bool  # its lease has expired
    age: float = field(default=0.0, compare=False)  # seconds since its start

    @property
    def dead(self) -> bool:
        return self.process_gone or self.expired


@dataclass(frozen=True, slots=True)
class FleetView:
    """A snapshot of the fleet: the rows of all schedulers, and the owner of each partition (None: free)."""

    peers: tuple[Peer, ...]
    leases: dict[int, int | None]
    at: float = 0.0  # monotonic second before it was read
    loads: Mapping[int, float] = field(default_factory=dict)  # of partitions: rows a second (core/fleet/loads.py)
    settled_for: float = math.inf  # seconds since a partition changed hands


REGISTER: Final = """
    INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at, partition_loads)
    VALUES ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7), '{}') RETURNING incarnation
"""


async def register(
    conn: DatabaseConnection,
    *,
    name: str,
    hostname: str,
    pid: int,
    version: str,
    executor: str,
    slots: int,
    lease: float,
) -> int:
    """Start a new incarnation with a lease of `lease` seconds, and lock its number on this session.

    Row and lock appear together, so that no peer sees a living scheduler without its lock.
    """
    async with conn.transaction():
        incarnation: int = await conn.fetchval(REGISTER, name, hostname, pid, version, executor, slots, lease)
        await conn.execute("SELECT pg_advisory_lock($1::int, $2::int)", LOCK_CLASS, incarnation % 2**31)
    return incarnation


class Renewal(NamedTuple):
    """A renewed lease: how often it was renewed, when by PostgreSQL's clock, and the number of the transaction."""

    renewals: int
    at: datetime
    number: int


# What a copy of the database has of the renewals tells how old it is (core/fleet/positions.py).
RENEW: Final = """
    UPDATE scheduler SET renewed_at = now(), lease_expires_at = now() + make_interval(secs => $2), figures = $3::json,
           partition_loads = coalesce($4::real[], partition_loads), renewals = renewals + 1
     WHERE incarnation = $1
    RETURNING renewals, renewed_at, pg_current_xact_id()::text::bigint AS number
"""


async def lock_again(conn: DatabaseConnection, incarnation: int) -> None:
    """Take the lock of `incarnation` on a new session, after the old one was lost."""
    await conn.execute("SELECT pg_advisory_lock($1::int, $2::int)", LOCK_CLASS, incarnation % 2**31)


async def renew(
    conn: DatabaseConnection,
    incarnation: int,
    lease: float,
    *,
    figures: str | None = None,
    loads: Sequence[float | None] | None = None,
) -> Renewal | None:
    """Renew the lease, and publish the scheduler's figures (JSON) and the loads of its partitions.

    None if its row is gone: it was taken over.
    """
    row = await conn.fetchrow(RENEW, incarnation, lease, figures, loads)
    return None if row is None else Renewal(*row)


FLEET_FIGURES: Final = "SELECT figures FROM scheduler WHERE figures IS NOT NULL AND lease_expires_at > now()"


async def fleet_figures(conn: Queryable) -> list[dict[str, Any]]:
    """The figures that each scheduler with a valid lease last published."""
    rows = await conn.fetch(FLEET_FIGURES)
    return [figures for row in rows if (figures := read_figures(row["figures"])) is not None]


# A lock that was released by a restart of PostgreSQL proves nothing until its holder has had time to reconnect.
_PROCESS_GONE: Final = f"""
    s.renewed_at > pg_postmaster_start_time() AND NOT EXISTS (
        SELECT FROM pg_locks AS l
         WHERE l.locktype = 'advisory' AND l.granted
           AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND l.classid = {LOCK_CLASS} AND l.objid = (s.incarnation % 2147483648)::bigint::oid
    )
"""
# Finite, and not negative, whatever the row has.
_SECONDS_SINCE: Final = "least(greatest(extract(epoch FROM now()) - extract(epoch FROM {}), 0), 1e9)::float8"
# The load of a partition is what its owner has published last, or else what it was when it changed hands.
# `seconds`: since the start of the scheduler; in the row of the free partitions, since any partition changed hands.
READ_FLEET: Final = f"""
    SELECT s.incarnation, s.draining, s.lease_expires_at < now() AS expired,
           {_PROCESS_GONE} AS process_gone, {_SECONDS_SINCE.format("s.started_at")} AS seconds,
           array(SELECT partition FROM partition_lease AS p
                  WHERE p.incarnation = s.incarnation ORDER BY partition) AS partitions,
           array(SELECT coalesce(s.partition_loads[p.partition + 1], p.load, 0) FROM partition_lease AS p
                  WHERE p.incarnation = s.incarnation ORDER BY partition) AS loads
      FROM scheduler AS s
    UNION ALL
    SELECT NULL, NULL, NULL, NULL,
           (SELECT {_SECONDS_SINCE.format("coalesce(max(since), '-infinity')")} FROM partition_lease),
           array(SELECT partition FROM partition_lease WHERE incarnation IS NULL ORDER BY partition),
           array(SELECT coalesce(load, 0) FROM partition_lease WHERE incarnation IS NULL ORDER BY partition)
"""


async def read_fleet(conn: DatabaseConnection) -> FleetView:
    """Which schedulers are alive, which are dead, and which one owns which partition: one statement."""
    at, settled_for = time.monotonic(), math.inf
    peers: list[Peer] = []
    leases: dict[int, int | None] = {}
    loads: dict[int, float] = {}
    for row in await conn.fetch(READ_FLEET):
        leases.update(dict.fromkeys(row["partitions"], row["incarnation"]))
        loads.update(zip(row["partitions"], map(_checked, row["loads"]), strict=True))
        if row["incarnation"] is None:
            settled_for = row["seconds"]
            continue
        peers.append(Peer(row["incarnation"], row["draining"], row["process_gone"], row["expired"], row["seconds"]))
    return FleetView(tuple(peers), leases, at, loads, settled_for)


def _checked(load: float) -> float:
    """A load; 0.0 for what somebody has written by hand and is none."""
    return load if 0.0 <= load < math.inf else 0.0


# Lock order: scheduler row, then partitions by number. FOR UPDATE waits for the last commit of the dead scheduler and
# blocks any later one. The reason why a peer considered it dead is checked again.
FENCE: Final = f"""
    SELECT 1 FROM scheduler AS s
     WHERE s.incarnation = $1 AND (s.lease_expires_at < now() OR ($2 AND {_PROCESS_GONE}))
       FOR UPDATE OF s
"""
SHORT_LOCK_TIMEOUT: Final = "SET LOCAL lock_timeout = '500ms'"
# One that was asked to stop, and was killed meanwhile, is not missed.
DELETE_LOST: Final = """
    WITH gone AS (
        DELETE FROM scheduler WHERE incarnation = $1
        RETURNING incarnation, name, hostname, draining, renewals, renewed_at
    )
    INSERT INTO lost_scheduler (incarnation, name, hostname, renewals, renewed_at)
    SELECT incarnation, name, hostname, renewals, renewed_at FROM gone WHERE NOT draining ON CONFLICT DO NOTHING
"""
_LAST_LOAD: Final = (
    "coalesce((SELECT s.partition_loads[partition + 1] FROM scheduler AS s WHERE s.incarnation = $1), load)"
)
FREE_PARTITIONS: Final = f"""
    UPDATE partition_lease SET incarnation = NULL, since = now(), load = {_LAST_LOAD} WHERE incarnation = $1
"""


async def take_over(conn: DatabaseConnection, dead: int, *, process_gone: bool) -> bool:
    """Fence a dead scheduler and free its partitions, in one transaction; False if a peer did it, or it is not dead.

    Its lease must have expired; with `process_gone` a missing advisory lock is enough. Also False while a transaction
    of the dead one still holds its row: the caller has other work, and tries again.
    """
    try:
        async with conn.transaction():
            await conn.execute(SHORT_LOCK_TIMEOUT)
            if await conn.fetchval(FENCE, dead, process_gone) is None:
                return False
            await conn.execute(FREE_PARTITIONS, dead)
            await withdraw_demands(conn, dead)
            await conn.execute(DELETE_LOST, dead)
    except asyncpg.LockNotAvailableError:
        return False
    return True


ACQUIRE: Final = """
    UPDATE partition_lease SET incarnation = $1, since = now()
     WHERE partition IN (SELECT partition FROM partition_lease
                          WHERE incarnation IS NULL AND partition = ANY($2::smallint[])
                          ORDER BY partition FOR UPDATE SKIP LOCKED)
       AND EXISTS (SELECT FROM scheduler WHERE incarnation = $1)
    RETURNING partition
"""


async def acquire(conn: Queryable, incarnation: int, wanted: Iterable[int]) -> set[int]:
    """Acquire those of `wanted` that are free, and return them. Raises FencedOut if this scheduler was taken over."""
    try:
        rows = await conn.fetch(ACQUIRE, incarnation, list(wanted))
    except asyncpg.ForeignKeyViolationError as error:
        raise FencedOut(f"Scheduler {incarnation} was taken over while it took partitions.") from error
    return {row["partition"] for row in rows}


RELEASE: Final = f"""
    UPDATE partition_lease SET incarnation = NULL, since = now(), load = {_LAST_LOAD}
     WHERE incarnation = $1 AND partition = ANY($2::smallint[])
"""


async def release(conn: DatabaseConnection, incarnation: int, partitions: Iterable[int]) -> None:
    """Release partitions, for other schedulers to acquire."""
    await conn.execute(RELEASE, incarnation, sorted(partitions))


SET_DRAINING: Final = "UPDATE scheduler SET draining = true WHERE incarnation = $1"


async def set_draining(conn: Queryable, incarnation: int) -> None:
    """Mark the scheduler as draining: it acquires no more partitions."""
    await conn.execute(SET_DRAINING, incarnation)


async def leave(conn: DatabaseConnection, incarnation: int) -> None:
    """End an incarnation cleanly: release its partitions, delete its row."""
    async with conn.transaction():
        await conn.execute("SELECT 1 FROM scheduler WHERE incarnation = $1 FOR UPDATE", incarnation)
        await conn.execute(FREE_PARTITIONS, incarnation)
        await withdraw_demands(conn, incarnation)
        await conn.execute("DELETE FROM scheduler WHERE incarnation = $1", incarnation)
