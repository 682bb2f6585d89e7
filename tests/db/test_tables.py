"""Declarations of tables: the texts that are made of them, and what a class keeps in which column."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, get_type_hints

import pytest

from aiosched.core.run.board import Run
from aiosched.core.values.states import RunState
from aiosched.db.schema import tables
from aiosched.db.schema.table import Table
from aiosched.db.server.arrays import array_texts
from aiosched.db.server.engine import Database
from aiosched.db.statements import runs
from aiosched.db.statements.runs import NewRun, insert_runs, load_runs
from tests.db.test_runs import add_dag

PART = Table(
    "part",
    {
        "shelf": "text PRIMARY KEY",
        "number": "smallint PRIMARY KEY",
        "kind": "text NOT NULL DEFAULT 'screw'",
        "drawing": "json",
        "photo": "bytea",
    },
)


class Part(NamedTuple):
    place: str
    number: int
    kind: str
    is_counted: bool  # not stored


def test_the_fields_of_a_class_have_columns_unless_they_are_not_stored() -> None:
    assert PART.columns_of(Part, place="shelf") == {"place": "shelf", "number": "number", "kind": "kind"}


def test_a_batch_has_the_types_of_its_columns_and_json_comes_as_text() -> None:
    assert PART.batch(("number", "drawing"), 3, name="p") == "unnest($3::smallint[], $4::text[]) AS p (number, drawing)"
    assert PART.batch(["old_kind", "photo"], as_texts=True) == (
        "unnest($1::text::text[], $2::bytea[]) AS n (old_kind, photo)"
    )


def test_a_column_that_no_table_has_is_an_error_when_the_statement_is_made() -> None:
    with pytest.raises(KeyError, match="colour"):
        PART.insert(("shelf", "colour"))


def test_an_update_sets_neither_the_key_nor_what_is_expected() -> None:
    assert PART.assignments(("shelf", "number", "old_kind", "kind", "drawing"), "c") == (
        "kind = c.kind, drawing = c.drawing"
    )


@pytest.mark.parametrize("as_texts", [False, True], ids=["arrays", "texts of arrays"])
async def test_postgresql_carries_the_texts_out(db: Database, as_texts: bool) -> None:
    names = ("shelf", "number", "drawing")
    rows: list[tuple[Any, ...]] = [("a", 1, '{"x": 1}'), ("a", 2, None)]
    async with db.acquire() as conn:
        await conn.execute(
            "CREATE TEMPORARY TABLE part (shelf text, number smallint, kind text NOT NULL DEFAULT 'screw',"
            " drawing json, photo bytea, PRIMARY KEY (shelf, number))"
        )
        columns = array_texts(rows, 3) if as_texts else list(map(list, zip(*rows, strict=True)))
        await conn.execute(PART.insert(names, as_texts=as_texts), *columns)
        await conn.execute(PART.upsert(names), ["a", "b"], [1, 1], ['{"x": 2}', None])
        await conn.execute(PART.delete(PART.key), ["a", "c"], [2, 1])

        found = await conn.fetch("SELECT shelf, number, kind, drawing::text FROM part ORDER BY 1, 2")
        assert [tuple(row) for row in found] == [("a", 1, "screw", '{"x": 2}'), ("b", 1, "screw", None)]


async def test_a_run_comes_back_with_every_field_that_has_a_column(db: Database) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    hints = get_type_hints(Run)
    given: dict[str, Any] = {}
    for place, field in enumerate(runs.OF_RUN):
        samples = {datetime | None: noon + timedelta(hours=place), str | None: f"text {place}", int | None: place}
        if hints[field] in samples:
            given[field] = samples[hints[field]]
    given |= {"end_date": None, "reason": None}  # not of a new run

    async with db.transaction() as conn:
        dag = await add_dag(conn)
        run = Run(0, "d", "r", dag.version_id, "manual", RunState.RUNNING, noon, conf={"k": [1]}, is_incomplete=True)
        new = NewRun(dataclasses.replace(run, **given), -1 - dag.partition, "cli", 7)
        ((_, key),) = (await insert_runs(conn, [new])).items()
        (found,) = await load_runs(conn, [key])
        row = await conn.fetchrow("SELECT triggered_by, created_by, partition FROM dag_run")

    for field in runs.OF_RUN:
        assert getattr(found, field) == (key if field == "key" else getattr(new.run, field)), field
    assert tuple(row) == ("cli", 7, -1 - dag.partition)


def test_every_table_is_declared_with_a_key_and_under_its_own_name() -> None:
    declared = {name: table for name, table in vars(tables).items() if isinstance(table, Table)}

    assert {name.lower() for name in declared} == {table.name for table in declared.values()}
    assert [table.name for table in declared.values() if not table.key] == []
