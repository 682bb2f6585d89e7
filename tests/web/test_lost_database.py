"""A database that goes away, or cuts a connection, is answered as such: nobody is told that something is wrong here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import httpx2
import pytest

from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.web.views.health import Status, examine
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


async def test_a_connection_that_ends_at_an_instant_that_confuses_the_driver(
    db: Database, api: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def confused(_: Database) -> AsyncIterator[DatabaseConnection]:
        raise asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")
        yield

    monkeypatch.setattr(Database, "acquire", confused)

    answer = await api.get("pools")
    found = await examine(db)

    assert (answer.status_code, answer.json()["code"]) == (503, "database")
    assert found.parts["database"].status is Status.UNHEALTHY
