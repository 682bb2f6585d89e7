"""Arrays that travel as PostgreSQL's text of an array arrive as what they were."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiosched.core.values.states import TaskState
from aiosched.db.server.arrays import array_text, array_texts
from aiosched.db.server.engine import Database

AT = datetime(2026, 11, 20, 15, 30, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        pytest.param("bigint", [], id="nothing"),
        pytest.param("bigint", [1, None, -(2**63), 2**63 - 1], id="numbers"),
        pytest.param("text", ["queued", None, "", "null", "NULL", "{}", "a,b", "it's", "ü", "😀"], id="texts"),
        pytest.param("text", ['"', "\\", "a\nb", "\t", "\x01", "\x7f", "\\n", None], id="texts to escape"),
        pytest.param("text", [TaskState.QUEUED], id="states"),
        pytest.param(
            "timestamptz", [AT, None, AT.replace(microsecond=0), datetime(1, 1, 1, tzinfo=UTC)], id="instants"
        ),
        pytest.param("timestamptz", [AT.astimezone(timezone(timedelta(hours=5, minutes=30)))], id="other time zones"),
    ],
)
async def test_an_array_arrives_as_it_was(db: Database, kind: str, values: list[Any]) -> None:
    assert await db.fetchval(f"SELECT $1::text::{kind}[]", array_text(values)) == values


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(values=st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
async def test_texts_arrive_whatever_stands_in_them(db: Database, values: list[str | None]) -> None:
    assert await db.fetchval("SELECT $1::text::text[]", array_text(values)) == values


def test_rows_become_columns_and_no_rows_become_empty_ones() -> None:
    assert array_texts([(1, "a"), (2, None)], 2) == ["{1,2}", '{"a",null}']
    assert array_texts([], 2) == ["{}", "{}"]


@given(rows=st.lists(st.tuples(st.none() | st.integers(), *[st.none() | st.text('[],"\\{}ü')] * 2), min_size=1))
def test_columns_are_the_arrays_of_their_values(rows: list[tuple[int | None, str | None, str | None]]) -> None:
    assert array_texts(rows, 3) == [array_text(column) for column in zip(*rows, strict=True)]
