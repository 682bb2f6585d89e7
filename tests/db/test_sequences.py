"""Sequences that are behind their rows are put forward, and nothing takes a number in use for a row that exists."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from aiosched.db.schema.schema import metadata
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_retryable
from aiosched.db.server.migrate import migrate
from aiosched.db.server.roles import Purpose
from aiosched.db.server.sequences import CONSTRAINTS, NUMBERED, SequenceBehind, put_forward
from aiosched.errors import NumbersInUse
from tests.database_roles import roles_of

ADD_ASSET = "INSERT INTO asset (name, uri) VALUES ($1, $1) RETURNING id"


def test_all_numbered_tables_are_known() -> None:
    numbered = (t.name for t in metadata.tables.values() if any(c.identity is not None for c in t.columns))

    assert sorted(numbered) == list(NUMBERED)


async def test_a_number_in_use_is_known_by_the_names_of_the_constraints(db: Database) -> None:
    async with db.acquire() as conn:
        rows = await conn.fetch("""
            SELECT t.conname FROM pg_constraint AS t JOIN pg_attribute AS a ON a.attrelid = t.conrelid
             WHERE a.attidentity <> '' AND t.contype IN ('p', 'u') AND t.conkey = ARRAY[a.attnum]
        """)
    assert {row["conname"] for row in rows} == CONSTRAINTS


async def test_nothing_is_done_to_sequences_that_are_not_behind(db: Database) -> None:
    async with db.acquire() as conn:
        await conn.execute("SELECT setval('asset_id_seq', 70)")

        assert await put_forward(conn) == []
        assert await conn.fetchval(ADD_ASSET, "a") == 71


async def test_one_that_is_behind_is_put_forward_and_that_is_said(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async with db.acquire() as conn:
        last = [await conn.fetchval(ADD_ASSET, name) for name in "abc"][-1]
        await conn.execute("SELECT setval('asset_id_seq', 1, false)")

        assert await put_forward(conn) == [SequenceBehind("asset", 0, last)]
        assert await conn.fetchval(ADD_ASSET, "d") == last + 1
    assert f"numbers of asset that are in use (the last one was 0, rows have up to {last})" in caplog.text


async def test_many_at_once_put_back_nothing_that_was_issued_since(db: Database) -> None:
    async with db.acquire() as conn:
        for number in range(50):
            await conn.fetchval(ADD_ASSET, f"a{number}")
        await conn.execute("SELECT setval('asset_id_seq', 1, false)")

    async def works(number: int) -> None:
        async with db.acquire() as conn:
            await put_forward(conn)
            await conn.fetchval(ADD_ASSET, f"b{number}")

    await asyncio.gather(*map(works, range(20)))


async def test_an_incarnation_is_issued_once_even_if_only_old_rows_name_it(db: Database) -> None:
    async with db.acquire() as conn:
        await conn.execute("INSERT INTO lost_scheduler (incarnation, name, hostname) VALUES (41, 'gone', 'h')")

        assert await put_forward(conn) == [SequenceBehind("scheduler", 0, 41)]


async def test_whoever_meets_a_number_in_use_may_do_it_again(db: Database) -> None:
    async with db.acquire() as conn:
        last = [await conn.fetchval(ADD_ASSET, name) for name in "abc"][-1]
        await conn.execute("SELECT setval('asset_id_seq', 1, false)")

    with pytest.raises(NumbersInUse) as caught:
        await db.fetchval(ADD_ASSET, "d")

    assert is_retryable(caught.value)
    assert await db.fetchval(ADD_ASSET, "d") == last + 1


async def test_a_name_in_use_is_something_else(db: Database) -> None:
    await db.fetchval(ADD_ASSET, "a")

    with pytest.raises(asyncpg.UniqueViolationError) as caught:
        await db.fetchval(ADD_ASSET, "a")

    assert not is_retryable(caught.value)


@pytest.mark.parametrize("purpose", Purpose)
async def test_a_role_of_its_own_is_told_who_can_correct_them_and_a_migration_does(
    db: Database, dsn: str, purpose: Purpose
) -> None:
    async with roles_of(dsn) as roles:
        address = {Purpose.SCHEDULER: roles.scheduler, Purpose.WEB: roles.web}[purpose]
        async with await Database.open(address) as own:
            async with own.acquire() as conn:
                assert await put_forward(conn) == []
                add = "INSERT INTO request (verb, args, requested_by) VALUES ('x', '{}', 'me') RETURNING id"
                last = [await conn.fetchval(add) for _ in range(3)][-1]
            await db.execute("SELECT setval('request_id_seq', 1, false)")

            with pytest.raises(NumbersInUse, match="`aiosched db migrate` as the owner of the tables corrects them"):
                async with own.acquire() as conn:
                    await conn.fetchval(add)
            await migrate(dsn)
            async with own.acquire() as conn:
                assert await conn.fetchval(add) == last + 1
