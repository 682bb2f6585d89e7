"""A replica of the database, which is only read, and never where it is older than what the reader must see.

Each connection is asked what it has replayed, unless it is known to have enough: an address may lead to several
replicas. What the reader must see is of the context in which he reads (`reading_from`). Which position that is, and
whether the replica can be used at all: web/views/replica_watch.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aiosched.config import DatabaseSettings
from aiosched.core.fleet.replicas import LogPlace, difference, read_position
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.errors import DatabaseError

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

# What a replica has replayed, or where a server that can be written has begun with the next record. A standby's control
# file has its timeline since its last restart point: until then it counts as one of the timeline before.
PLACE: Final = """
    SELECT c.system_identifier AS system, d.oid::bigint AS database, pg_is_in_recovery() AS is_replica,
           CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
                ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END AS timeline,
           CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END::text
               AS position
      FROM pg_control_system() AS c JOIN pg_database AS d ON d.datname = current_database()
"""
BEGUN: Final = "SELECT pg_current_wal_insert_lsn()::text"


@dataclass(slots=True)
class Reading:
    """What somebody reads: not older than the position `needed`."""

    needed: int
    was_asked: bool = False  # the replica
    has_failed: bool = False  # a question to it


_READING: Final[ContextVar[Reading | None]] = ContextVar("reading", default=None)


@contextlib.contextmanager
def reading_from(needed: int) -> Iterator[Reading]:
    """What replicas are asked for within the block must not be older than this position."""
    reading = Reading(needed)
    before = _READING.set(reading)
    try:
        yield reading
    finally:
        _READING.reset(before)


async def place_of(conn: DatabaseConnection) -> LogPlace:
    """Where the server of a connection is. Raises what asyncpg raises, also where the server does not tell."""
    row = await conn.fetchrow(PLACE)
    return LogPlace(**{**dict(row.items()), "position": read_position(row["position"] or "0/0") or 0})


async def begun_position(conn: DatabaseConnection) -> int:
    """Where a primary has begun with its log: whatever was stored before is before that."""
    return read_position(await conn.fetchval(BEGUN)) or 0


@dataclass(slots=True)
class _Replayed:
    """The position that a connection's server has replayed, at least."""

    position: int = 0


class Replica(Database):
    """The database at `database.read_dsn`. Without `start` nothing can be read."""

    WRITES: ClassVar[bool] = False

    def __init__(self, dsn: str, settings: DatabaseSettings, application_name: str) -> None:
        direct = settings.model_copy(update={"pgbouncer": False, "direct_dsn": None})
        super().__init__(dsn, direct, application_name)
        self._session = {**self._session, "default_transaction_read_only": "on"}  # if it leads to the primary
        self.primary: LogPlace | None = None  # of which this must be a replica

    async def start(self) -> None:
        """Make the pool. The first statement connects."""
        self._home = asyncio.get_running_loop()
        await self._open_pool(at_once=False)

    @contextlib.asynccontextmanager
    async def acquire(self, *, unhurried: bool = False) -> AsyncIterator[DatabaseConnection]:
        """As of `Database`. Raises DatabaseError if this connection's server is behind what is to be read."""
        with self._noted() as reading:
            async with super().acquire(unhurried=unhurried) as conn:
                await self._check(conn, reading)
                yield conn

    @contextlib.asynccontextmanager
    async def for_query(self) -> AsyncIterator[AsyncConnection]:
        """As of `Database`. Raises DatabaseError if this connection's server is behind what is to be read."""
        with self._noted() as reading:
            async with super().for_query() as conn:
                await self._check((await conn.get_raw_connection()).driver_connection, reading)
                yield conn

    @contextlib.contextmanager
    def _noted(self) -> Iterator[Reading]:
        reading = _READING.get() or Reading(0)
        reading.was_asked = True
        try:
            yield reading
        except Exception:
            reading.has_failed = True
            raise

    async def _check(self, conn: Any, reading: Reading) -> None:
        replayed: _Replayed = conn.replayed
        if replayed.position >= reading.needed:
            return
        place = await place_of(conn)
        wrong = "its primary is not known" if self.primary is None else difference(self.primary, place)
        if wrong is not None:
            raise DatabaseError(f"PostgreSQL at {self.where} is not read: {wrong}. Ask the primary.")
        replayed.position = place.position
        if replayed.position < reading.needed:
            raise DatabaseError(f"PostgreSQL at {self.where} is behind what is to be read. Ask the primary.")

    def _keep(self, conn: Any) -> None:
        super()._keep(conn)
        conn.replayed = _Replayed()
