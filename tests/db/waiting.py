"""Waiting for something that other sessions of the database do."""

from __future__ import annotations

import asyncio

from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from tests.patience import PATIENCE


async def until_true(conn: DatabaseConnection, query: str) -> None:
    """Return when `query` gives something true; fail after 10 seconds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await conn.fetchval(query):
                return
            await asyncio.sleep(0.001)


async def until_a_lock_is_awaited(conn: DatabaseConnection) -> None:
    """Return when a session waits for a lock."""
    await until_true(conn, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")


async def lose(db: Database, conn: DatabaseConnection) -> None:
    """End a connection while its holder does something else; return when the driver has noticed."""
    closed = asyncio.Event()
    conn.add_termination_listener(lambda _: closed.set())
    await db.execute("SELECT pg_terminate_backend($1, 5000)", conn.get_server_pid())
    async with asyncio.timeout(PATIENCE):
        await closed.wait()
