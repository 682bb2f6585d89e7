"""Instants that Python cannot hold."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import text

from aiosched.config import DatabaseSettings
from aiosched.db.server.any_instant import FIRST, LAST
from aiosched.db.server.engine import Database
from tests.pooler import PROGRAM, WHY_NOT, pgbouncer

NOON = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)
SHOWN = {
    "infinity": LAST,
    "20000-01-01Z": LAST,
    "-infinity": FIRST,
    "4000-01-01Z BC": FIRST,
    "2026-11-20T12:00:00.123456Z": NOON,
    "0001-01-01Z": FIRST,
}


@pytest.mark.parametrize(("stored", "shown"), SHOWN.items())
async def test_the_nearest_instant_is_read(db: Database, stored: str, shown: datetime) -> None:
    query = f"SELECT '{stored}'::timestamptz"
    dedicated = await db.connect()
    async with db.acquire() as conn, db.engine.connect() as queries:
        found = [await conn.fetchval(query), await dedicated.fetchval(query), await queries.scalar(text(query))]
    await dedicated.close()

    assert found == [shown] * 3


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (NOON, "2026-11-20 12:00:00.123456+00"),
        (NOON.astimezone(timezone(timedelta(hours=5))), "2026-11-20 12:00:00.123456+00"),
        (LAST, "infinity"),
        (FIRST, "-infinity"),
    ],
)
async def test_what_is_read_can_be_sent_again(db: Database, given: datetime, stored: str) -> None:
    async with db.acquire() as conn:
        assert await conn.fetchval("SELECT $1::timestamptz::text", given) == stored
        assert await conn.fetchval("SELECT $1::timestamptz[]::text[]", [given]) == [stored]


@pytest.mark.skipif(PROGRAM is None, reason=WHY_NOT)
async def test_connections_behind_a_pgbouncer_show_them(dsn: str) -> None:
    async def ask(address: str) -> list[datetime]:
        async with (
            await Database.open(address, settings=DatabaseSettings(pgbouncer=True, pool_size=2)) as db,
            db.acquire() as conn,
            db.engine.connect() as queries,
        ):
            query = "SELECT 'infinity'::timestamptz"
            return [await conn.fetchval(query), await queries.scalar(text(query))]

    with pgbouncer(dsn, servers=2) as address:
        found = await asyncio.gather(*(ask(address) for _ in range(12)))

    assert found == [[LAST, LAST]] * 12
