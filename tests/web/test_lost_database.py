"""A database that goes away, or cuts a connection, is answered as such: nobody is told that something is wrong here."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from aiosched.db.server.engine import Database
from tests.db.waiting import until_a_lock_is_awaited


@pytest.mark.parametrize(
    ("path", "table"),
    [("runs", "dag_run"), ("pools", "pool")],
    ids=["by SQLAlchemy", "by asyncpg"],
)
async def test_a_connection_that_is_cut_in_the_middle_of_a_query(
    db: Database, api: httpx2.AsyncClient, path: str, table: str
) -> None:
    async with db.transaction() as conn:
        await conn.execute(f"LOCK TABLE {table}")
        answer = asyncio.create_task(api.get(path))
        await until_a_lock_is_awaited(conn)
        await conn.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE NOT granted")

    cut = await answer
    assert (cut.status_code, cut.json()["code"], cut.headers["retry-after"]) == (503, "database", "2")
    assert "PostgreSQL" in cut.json()["detail"]
    assert "SELECT" not in cut.json()["detail"]
    assert (await api.get(path)).status_code == 200
