"""Databases and connections of tests that are used again keep nothing of the test that had them: tests/warm.py."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from aiosched.db.server.dsn import address_of
from tests.databases import Server

TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1"
SEQUENCES = "SELECT sequencename, last_value FROM pg_sequences ORDER BY 1"
OF_THE_SESSION = """
    SELECT current_setting('work_mem'), to_regclass('mine'),
           (SELECT count(*) FROM pg_prepared_statements WHERE name = 'left_over'),
           (SELECT count(*) FROM pg_listening_channels()),
           (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711)
"""


async def contents(conn: Any) -> list[Any]:
    tables = [row[0] for row in await conn.fetch(TABLES)]
    counts = [await conn.fetchval(f"SELECT count(*) FROM public.{table}") for table in tables]
    found = [await conn.fetch(query) for query in (SEQUENCES, OF_THE_SESSION, "SELECT name, slots FROM pool")]
    return [tables, counts, *found]


async def given_again(server: Server, name: str) -> str | None:
    """The address of the database of this name, if it is given out again."""
    for _ in range(3):
        dsn = await server.take()
        if address_of(dsn).database == name:
            return dsn
        await server.give_back(dsn)
    return None


async def test_rows_sequences_and_what_a_session_had_are_gone(server: Server, connections: None) -> None:
    dsn = await server.take()
    conn, holder = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    before, session = await contents(conn), conn.get_server_pid()
    await conn.execute("INSERT INTO pool (name, slots) VALUES ('left', 3); UPDATE pool SET slots = 99")
    await conn.execute("DELETE FROM partition_lease; INSERT INTO asset (name, uri) VALUES ('a', 'x://a')")
    await conn.execute("SET work_mem = '64kB'; LISTEN left_over; PREPARE left_over AS SELECT 1")
    await conn.execute("SELECT pg_advisory_lock(4711)")
    await conn.close()
    await holder.execute("BEGIN; UPDATE pool SET slots = 100")  # it neither ends nor goes on

    await server.give_back(dsn)
    again = await given_again(server, str(address_of(dsn).database))

    assert again is not None
    conn = await asyncpg.connect(again)
    assert conn.get_server_pid() == session  # the connection is used again
    assert await contents(conn) == before
    await conn.close()
    await server.give_back(again)
    assert holder.is_closed()


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE left_over (id int)",
        "CREATE TEMP TABLE left_over (id int)",
        "ALTER TABLE pool ADD COLUMN left_over int",
        "DROP VIEW task_instance_named",
        "ALTER TABLE dag_run ALTER COLUMN id RESTART WITH 1000000",
        "CREATE FUNCTION left_over() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "REVOKE ALL ON pool FROM PUBLIC",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = ''64kB''', current_database()); END $$",
    ],
)
async def test_a_database_whose_schema_or_settings_were_touched_is_not_given_again(
    server: Server, connections: None, change: str
) -> None:
    dsn = await server.take()
    conn = await asyncpg.connect(dsn)
    await conn.execute(change)
    await conn.close()

    await server.give_back(dsn)

    assert await given_again(server, str(address_of(dsn).database)) is None


async def test_a_connection_whose_closing_is_cancelled_is_closed(server: Server, connections: None) -> None:
    dsn = await server.take()
    conn = await asyncpg.connect(dsn)
    closing = asyncio.create_task(conn.close())
    await asyncio.sleep(0)  # it has begun
    closing.cancel()

    assert (await asyncio.gather(closing, return_exceptions=True))[0] is not None

    assert conn.is_closed()
    await server.give_back(dsn)
