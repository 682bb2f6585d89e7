"""Which DAG mentions which asset, as parsing stores it. Source: the semantics reference, sections 15.1 and 15.2."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.assets.conditions import (
    AliasRequired,
    AllRequired,
    AssetExpression,
    AssetRequired,
    ReferenceRequired,
)
from aiosched.core.graph.spec import AssetRef, DagSpec, TaskSpec, encode_spec
from aiosched.core.timetables import AssetTriggeredTimetable, NullTimetable
from aiosched.db.server.engine import Database
from aiosched.parsing.result import ParsedDag, parsed_dag
from aiosched.parsing.store import remove_files, store_results
from tests.parsing.builders import a_result

A = AssetRequired("a", "s3://a")


def a_dag(dag_id: str, waits_for: AssetExpression | None = None, *, makes: tuple[AssetRef, ...] = ()) -> ParsedDag:
    spec = DagSpec(
        dag_id=dag_id,
        timetable=NullTimetable() if waits_for is None else AssetTriggeredTimetable(waits_for),
        tasks=(TaskSpec(task_id="t", operator="O", outlets=makes),),
    )
    return parsed_dag(encode_spec(spec), spec)


class Shelf:
    """Stores, and reads what is stored."""

    def __init__(self, db: Database, clock: FakeClock) -> None:
        self.db, self.clock = db, clock

    async def store(self, file: str, *dags: ParsedDag, error: str | None = None) -> None:
        async with self.db.transaction() as conn:
            result = a_result(file, *dags, error=error, digest=str(self.clock.at))
            await store_results(conn, [result], now=self.clock.now(), paused_at_creation=False)

    async def references(self, dag_id: str) -> list[tuple[Any, ...]]:
        rows = await self.fetch(
            "SELECT role, kind, name, uri, task_id FROM asset_reference WHERE dag_id = $1 ORDER BY 1, 2, 3", dag_id
        )
        return [tuple(row) for row in rows]

    async def fetch(self, query: str, *args: object) -> list[Any]:
        return list(await self.db.fetch(query, *args))


@pytest.fixture
def shelf(db: Database, clock: FakeClock) -> Shelf:
    return Shelf(db, clock)


async def test_what_a_dag_waits_for_and_makes_can_be_queried(shelf: Shelf) -> None:
    waits_for = AllRequired((A, AliasRequired("late"), ReferenceRequired(name="n"), ReferenceRequired(uri="s3://u")))
    await shelf.store("f.py", a_dag("d", waits_for, makes=(AssetRef(name="b", extra={"k": 1}),)))

    assert await shelf.references("d") == [
        ("outlet", "asset", "b", "b", "t"),
        ("schedule", "alias", "late", "", ""),
        ("schedule", "asset", "a", "s3://a", ""),
        ("schedule", "name", "n", "", ""),
        ("schedule", "uri", "s3://u", "", ""),
    ]
    assets = await shelf.fetch("SELECT name, uri, extra, is_active FROM asset ORDER BY name")
    assert [tuple(row) for row in assets] == [("a", "s3://a", "{}", True), ("b", "b", '{"k":1}', True)]


async def test_a_new_version_replaces_what_the_dag_said(shelf: Shelf) -> None:
    await shelf.store("f.py", a_dag("d", A))
    await shelf.store("f.py", a_dag("d", AssetRequired("b")))

    assert await shelf.references("d") == [("schedule", "asset", "b", "b", "")]
    assert await shelf.fetch("SELECT 1 FROM dag WHERE asset_scheduled_at IS NULL") == []

    await shelf.store("f.py", a_dag("d"))
    assert await shelf.references("d") == []
    assert len(await shelf.fetch("SELECT 1 FROM dag WHERE asset_scheduled_at IS NULL")) == 1


async def test_a_stale_dag_takes_no_part_until_it_is_back(shelf: Shelf) -> None:
    await shelf.store("f.py", a_dag("d", A))

    await shelf.store("f.py", error="boom")
    assert await shelf.references("d") == []

    shelf.clock.at += timedelta(seconds=9)
    await shelf.store("f.py", a_dag("d", A))
    assert await shelf.references("d") == [("schedule", "asset", "a", "s3://a", "")]
    (row,) = await shelf.fetch("SELECT asset_scheduled_at FROM dag")
    assert row[0] == shelf.clock.at

    async with shelf.db.transaction() as conn:
        await remove_files(conn, ["f.py"])
    assert await shelf.references("d") == []


async def test_an_asset_that_is_mentioned_again_is_active_again(shelf: Shelf) -> None:
    await shelf.store("f.py", a_dag("d", A))
    await shelf.fetch("UPDATE asset SET is_active = false RETURNING 1")

    await shelf.store("g.py", a_dag("e", makes=(AssetRef(name="a"),)))

    assert [tuple(row) for row in await shelf.fetch("SELECT uri, is_active FROM asset")] == [("s3://a", True)]


async def test_two_files_that_put_an_asset_in_two_places_are_warned(shelf: Shelf) -> None:
    await shelf.store("f.py", a_dag("d", A))
    await shelf.store("g.py", a_dag("e", makes=(AssetRef(name="a", uri="s3://other"),)))

    (row,) = await shelf.fetch("SELECT warnings FROM dag_file WHERE file = 'g.py'")
    (warning,) = row["warnings"]
    assert "DAG 'e' has the asset 'a' at 's3://other', DAG 'd' has it at 's3://a'" in warning
