"""Sessions that hold locks, and sessions that wait for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncpg

from aiosched.db.server.connection import DatabaseConnection
from tests.db.waiting import until_true

WAITERS = "SELECT count(*) = {} FROM pg_locks WHERE NOT granted AND waitstart IS NOT NULL"


@contextlib.asynccontextmanager
async def holding(dsn: str, statement: str) -> AsyncIterator[DatabaseConnection]:
    """A session of somebody else, in a transaction that has executed `statement`."""
    conn = await asyncpg.connect(dsn, server_settings={"application_name": "psql"})
    try:
        await conn.execute(f"BEGIN; {statement}")
        yield conn
    finally:
        await conn.close()


@contextlib.asynccontextmanager
async def waiting(dsn: str, name: str, statement: str, number: int = 1) -> AsyncIterator[None]:
    """A session `name` that waits for a lock, as the `number`th."""
    conn = await asyncpg.connect(dsn, server_settings={"application_name": name})
    looking = await asyncpg.connect(dsn)
    task = asyncio.ensure_future(conn.execute(statement))
    try:
        await until_true(looking, WAITERS.format(number))
        yield
    finally:
        conn.terminate()
        await asyncio.gather(task, looking.close(), return_exceptions=True)
