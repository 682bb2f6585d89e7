"""Waiting for something that other sessions of the database do."""

from __future__ import annotations

import asyncio

from aiosched.db.server.connection import DatabaseConnection


async def until_true(conn: DatabaseConnection, query: str) -> None:
    """Return when `query` gives something true; fail after 10 seconds."""
    async with asyncio.timeout(10):
        while True:
            if await conn.fetchval(query):
                return
            await asyncio.sleep(0.001)


async def until_a_lock_is_awaited(conn: DatabaseConnection) -> None:
    """Return when a session waits for a lock."""
    await until_true(conn, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")
