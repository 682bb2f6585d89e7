"""The instruments read what they say they read."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from benchmarks import measure


@pytest.fixture
async def conn(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def test_each_execution_counts_as_a_statement_and_each_copy_as_one(conn: asyncpg.Connection) -> None:
    with measure.count_statements() as counter:
        async with conn.transaction():
            await conn.execute("CREATE TABLE numbers (n int)")
            await conn.copy_records_to_table("numbers", records=[(1,), (2,)])
        await conn.fetch("SELECT n FROM numbers WHERE n > $1", 0)

    assert counter.count == 5  # BEGIN, CREATE, COPY, COMMIT, SELECT


async def test_a_batch_counts_as_many_statements_as_it_has_rows(conn: asyncpg.Connection) -> None:
    await conn.execute("CREATE TABLE numbers (n int)")

    with measure.count_statements() as counter:
        await conn.executemany("INSERT INTO numbers VALUES ($1)", [(1,), (2,), (3,)])

    assert counter.count == 3


async def test_nothing_is_counted_outside(conn: asyncpg.Connection) -> None:
    with measure.count_statements() as counter:
        await conn.execute("SELECT 1")
    await conn.execute("SELECT 1")

    assert counter.count == 1


async def test_writing_moves_the_write_ahead_log(conn: asyncpg.Connection) -> None:
    await conn.execute("CREATE TABLE texts (t text)")
    before = await measure.wal_position(conn)

    await conn.execute("INSERT INTO texts SELECT repeat('x', 100) FROM generate_series(1, 100)")

    assert await measure.wal_position(conn) - before > 10_000


async def test_processor_time_and_memory_are_told_apart_by_process(conn: asyncpg.Connection) -> None:
    before = await measure.usages(conn)
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass

    used = (await measure.usages(conn)).since(before)

    assert used.scheduler.cpu_seconds >= 0.05  # read in steps of 10 ms
    assert used.scheduler.peak_bytes > 2**20
    assert used.postgres.peak_bytes > 2**20


async def test_the_cost_of_each_commit_is_positive_and_leaves_nothing_behind(conn: asyncpg.Connection) -> None:
    took = await measure.durable_commits(conn, times=5)

    assert len(took) == 5
    assert min(took) > 0
    assert await conn.fetchval("SELECT to_regclass('benchmark_commit')") is None
