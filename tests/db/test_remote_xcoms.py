"""Files of XComs in remote storage: the database knows which of them nothing refers to, whoever deletes rows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from aiosched.authoring.runtime.xcom_values import write_xcom
from aiosched.core.values.messages import StoredXCom, XComPlace, XComRef
from aiosched.core.values.typed_json import json_length
from aiosched.db.queries.xcom_queries import list_xcoms
from aiosched.db.server.engine import Database
from aiosched.db.statements import journal, rehydration, runs
from aiosched.db.statements.journal import XComRow, xcom_row
from aiosched.db.upkeep import remote_xcoms

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def large(path: str, key: str = "return_value", *, run: int = 1, length: int | None = 3) -> XComRow:
    return xcom_row(run, 0, -1, StoredXCom(key=key, path=path, size=5_000_000, length=length, value='"[1, 2"'))


async def unreferenced(conn: Any) -> list[str]:
    return [row["path"] for row in await conn.fetch("SELECT path FROM unreferenced_xcom ORDER BY path")]


async def test_a_stored_value_has_a_place_instead_of_a_text(db: Database) -> None:
    async with db.acquire() as conn:
        await journal.upsert_xcoms(conn, [large("a/1"), XComRow(1, 0, -1, "small", "7")])
        refs = [(0, XComRef("t")), (0, XComRef("t", "small"))]

        found = await runs.get_xcoms(conn, 1, refs)

    assert found == [[(-1, XComPlace("a/1", 5_000_000))], [(-1, "7")]]


async def test_its_length_is_stored_for_mapped_tasks(db: Database) -> None:
    async with db.acquire() as conn:
        await journal.upsert_xcoms(conn, [large("a/1"), large("a/2", run=2, length=None)])

        found = await rehydration.load_map_lengths(conn, [(1, 0), (2, 0)])

    assert found == {1: {(0, -1): 3}, 2: {(0, -1): None}}


async def test_the_length_of_a_marked_value_is_that_of_what_it_holds(db: Database) -> None:
    values = [(1, 2, 3), {1: "a", 2: "b"}, [4], {"value": 1}, Decimal(5), date(2026, 1, 1), {"$aiosched": 1}, "text"]
    texts = [write_xcom(value).decode() for value in values]
    async with db.acquire() as conn:
        await journal.upsert_xcoms(conn, [XComRow(1, 0, i, "return_value", text) for i, text in enumerate(texts)])

        found = await rehydration.load_map_lengths(conn, [(1, 0)])

    expected = [3, 2, 1, 1, None, None, 1, None]
    assert found == {1: {(0, i): length for i, length in enumerate(expected)}}
    assert list(map(json_length, texts)) == expected


async def test_people_see_its_size_and_its_beginning(db: Database) -> None:
    async with db.acquire() as conn:
        await journal.upsert_xcoms(conn, [large("a/1"), XComRow(1, 0, -1, "small", "[7]")])

    stored, small = await list_xcoms(db, (1, 0, -1), longest=100)

    assert (stored.size, stored.value, stored.path) == (5_000_000, "[1, 2", "a/1")
    assert (small.size, small.value, small.path) == (3, "[7]", None)


async def test_a_reserved_file_is_referred_to_once_its_value_is_stored(db: Database) -> None:
    async with db.acquire() as conn:
        for _ in range(2):  # a question is asked again if its answer got lost
            await remote_xcoms.reserve(conn, ["a/1", "a/2"], (1, 0, -1, 1))
        assert await unreferenced(conn) == ["a/1", "a/2"]

        await journal.upsert_xcoms(conn, [large("a/1")])

        assert await unreferenced(conn) == ["a/2"]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM xcom",
        "UPDATE xcom SET stored = NULL, value = '1'",
        """UPDATE xcom SET stored = '{"path": "a/9", "size": 1}'""",
    ],
)
async def test_a_file_whose_value_is_deleted_or_replaced_is_to_be_removed(db: Database, statement: str) -> None:
    async with db.acquire() as conn:
        await journal.upsert_xcoms(conn, [large("a/1"), XComRow(1, 1, -1, "small", "7")])

        await conn.execute(statement)

        assert await unreferenced(conn) == ["a/1"]
        assert await remote_xcoms.count_released(conn) == 1


async def test_a_value_that_is_stored_twice_or_moves_with_its_task_keeps_its_file(db: Database) -> None:
    async with db.acquire() as conn:
        for _ in range(2):
            await journal.upsert_xcoms(conn, [large("a/1")])
        await conn.execute("UPDATE xcom SET task_index = 5")

        assert await unreferenced(conn) == []


async def test_a_retry_and_a_later_push_of_a_key_release_the_earlier_file(db: Database) -> None:
    async with db.acquire() as conn:
        await journal.upsert_xcoms(conn, [large("a/1"), large("a/2", "other")])
        await journal.upsert_xcoms(conn, [large("b/1")])
        assert await unreferenced(conn) == ["a/1"]

        await journal.delete_xcoms(conn, [(1, 0, -1)])

        assert await unreferenced(conn) == ["a/1", "a/2", "b/1"]


async def test_a_transaction_that_is_rolled_back_releases_nothing(db: Database) -> None:
    async with db.acquire() as conn:
        await journal.upsert_xcoms(conn, [large("a/1")])
        await conn.execute("BEGIN; DELETE FROM xcom; ROLLBACK")

        assert await unreferenced(conn) == []


async def take(db: Database, *, released_for: float = 60, reserved_for: float = 3600, most: int = 10) -> list[str]:
    async with db.transaction() as conn:
        return sorted(
            await remote_xcoms.take_unreferenced(conn, released_for=released_for, reserved_for=reserved_for, most=most)
        )


async def test_a_released_file_is_taken_after_a_while(db: Database) -> None:
    async with db.acquire() as conn:
        await journal.upsert_xcoms(conn, [large("a/1"), large("a/2", "other")])
        await conn.execute("DELETE FROM xcom")
        await conn.execute("UPDATE unreferenced_xcom SET since = now() - interval '2 minutes' WHERE path = 'a/1'")

    assert await take(db) == ["a/1"]
    assert await take(db, released_for=0.0) == ["a/2"]
    assert await take(db, released_for=0.0) == []


@pytest.mark.parametrize(
    ("state", "try_number", "taken"),
    [
        ("running", 1, []),
        ("queued", 1, []),
        ("deferred", 1, []),
        ("running", 2, ["a/1"]),  # it was lost, and the task runs again
        ("success", 1, ["a/1"]),
        (None, 0, ["a/1"]),
    ],
)
async def test_a_reserved_file_is_taken_once_its_try_is_over(
    db: Database, state: str | None, try_number: int, taken: list[str]
) -> None:
    async with db.acquire() as conn:
        await remote_xcoms.reserve(conn, ["a/1"], (1, 0, -1, 1))
        await conn.execute(
            "INSERT INTO task_instance (run_id, task_index, map_index, state, try_number, max_tries) "
            "VALUES (1, 0, -1, $1, $2, 3)",
            state, try_number,
        )  # fmt: skip
        assert await take(db) == []  # its report may still come
        await conn.execute("UPDATE unreferenced_xcom SET since = now() - interval '2 hours'")

    assert await take(db) == taken


async def test_files_are_taken_in_batches_oldest_first(db: Database) -> None:
    await db.execute(
        "INSERT INTO unreferenced_xcom (path, since) SELECT 'a/' || n, now() - make_interval(hours => n) "
        "FROM generate_series(1, 5) AS n"
    )

    assert await take(db, most=2) == ["a/4", "a/5"]
    assert await take(db, most=9) == ["a/1", "a/2", "a/3"]


async def test_two_that_remove_files_never_take_the_same(db: Database) -> None:
    await db.execute(
        "INSERT INTO unreferenced_xcom (path, since) SELECT 'a/' || n, now() - interval '1 day' "
        "FROM generate_series(1, 5) AS n"
    )
    options = {"released_for": 60.0, "reserved_for": 60.0, "most": 3}
    async with db.transaction() as one, db.transaction() as two:
        first = await remote_xcoms.take_unreferenced(one, **options)  # type: ignore[arg-type]
        second = await remote_xcoms.take_unreferenced(two, **options)  # type: ignore[arg-type]

    assert (len(first), len(second)) == (3, 2)
    assert not {*first} & {*second}


@pytest.mark.parametrize(
    "stored", ["null", "[1]", "7", "{}", '{"path": null}', '{"path": "a", "size": [1], "length": "x"}', '{"size": {}}']
)
async def test_what_somebody_wrote_into_the_column_harms_nothing_else(db: Database, stored: str) -> None:
    async with db.acquire() as conn:
        await conn.execute(
            "INSERT INTO xcom (run_id, task_index, map_index, key, value, stored) "
            "VALUES (1, 0, -1, 'return_value', '[1, 2]', $1::text::json)",
            stored,
        )
        found = await runs.get_xcoms(conn, 1, [(0, XComRef("t"))])
        lengths = await rehydration.load_map_lengths(conn, [(1, 0)])
        (row,) = await list_xcoms(db, (1, 0, -1), longest=100)
        await conn.execute("UPDATE xcom SET value = '[]'")
        await conn.execute("DELETE FROM xcom")

    has_path = '"a"' in stored
    assert found == [[(-1, XComPlace("a", -1) if has_path else "[1, 2]")]]
    assert lengths == {1: {(0, -1): None if has_path else 2}}
    assert row.value == "[1, 2]"
