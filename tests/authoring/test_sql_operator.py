"""Tasks that run SQL: by a thread (SQLite) and by an async driver (PostgreSQL)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from aiosched.authoring.operators.sql import SQLExecuteQueryOperator, fetch_one_handler, split_sql, url_of
from aiosched.authoring.runtime.connections import Connection
from aiosched.errors import AioschedError
from tests.authoring.authoring_builders import context_of, run_task

Run = Callable[..., Any]


@pytest.fixture
def lite(tmp_path: Path) -> Run:
    """Runs SQL on one SQLite file."""

    async def run(sql: Any, **options: Any) -> Any:
        options = {"conn_id": f"sqlite:///{tmp_path}/test.db", **options}
        return (await run_task(SQLExecuteQueryOperator(task_id="t", sql=sql, **options)))[0]

    return run


async def test_several_statements_are_one_transaction_and_the_last_result_is_pushed(lite: Run) -> None:
    assert await lite(
        "CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (1, 'x;y'), (2, NULL); SELECT * FROM t"
    ) == [
        [1, "x;y"],
        [2, None],
    ]
    with pytest.raises(OperationalError, match="no such table: nowhere"):
        await lite(["INSERT INTO t VALUES (3, 'z')", "SELECT * FROM nowhere"])

    assert await lite("SELECT count(*) FROM t") == [[2]]


async def test_what_comes_back_is_what_the_handler_makes_of_it(lite: Run) -> None:
    sql = ["SELECT 1 AS a", "SELECT 2 AS a"]

    assert await lite(sql) == [[2]]
    assert await lite(sql, return_last=False) == [[[1]], [[2]]]
    assert await lite(sql, handler=fetch_one_handler) == [2]
    assert await lite(sql, handler=lambda result: result.mappings().one()["a"]) == 2
    assert await lite(sql, handler=None) is None
    assert await lite("CREATE TABLE t (a INT)") is None


async def test_parameters_fill_names_or_the_drivers_own_marks(lite: Run) -> None:
    assert await lite("SELECT :a, '12:30'", parameters={"a": "it's"}) == [["it's", "12:30"]]
    assert await lite("SELECT ?, ?", parameters=[1, 2]) == [[1, 2]]
    assert await lite("""SELECT '{"a":1}'""") == [['{"a":1}']]


async def test_sql_and_parameters_are_templates(lite: Run) -> None:
    assert await lite("SELECT '{{ ds }}', :d", parameters={"d": "{{ ds_nodash }}"}) == [["2026-01-02", "20260102"]]


async def test_a_text_may_stay_whole(lite: Run) -> None:
    with pytest.raises(Exception, match="one statement at a time"):
        await lite("SELECT 1; SELECT 2", split_statements=False)


async def test_nothing_to_run_is_an_error(lite: Run) -> None:
    with pytest.raises(AioschedError, match="has no SQL statement"):
        await lite(" ; -- nothing\n;")


async def test_postgresql_is_reached_by_its_async_driver(dsn: str) -> None:
    url = dsn.replace("postgresql://", "postgresql+asyncpg://")
    operator = SQLExecuteQueryOperator(
        task_id="t", conn_id=url, sql="CREATE TEMP TABLE t (a int); INSERT INTO t VALUES (7); SELECT a::text FROM t"
    )

    assert operator.is_async
    assert await operator.execute(context_of(operator)) == [["7"]]


async def test_a_connection_is_looked_up_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOSCHED_CONN_FILES", json.dumps({"conn_type": "sqlite", "host": f"{tmp_path}/x.db"}))
    operator = SQLExecuteQueryOperator(task_id="t", conn_id="files", sql="SELECT 5", autocommit=True)

    assert await operator.execute(context_of(operator)) == [[5]]


@pytest.mark.parametrize(
    ("uri", "database", "url"),
    [
        ("postgres://me:p%40ss@db:5433/sales", None, "postgresql+asyncpg://me:p%40ss@db:5433/sales"),
        ("postgres://db/sales", "other", "postgresql+asyncpg://db/other"),
        ("postgres://db/sales?driver=psycopg", None, "postgresql+psycopg://db/sales"),
        ("oracle://me@db/x", None, "oracle://me@db/x"),
    ],
)
def test_a_connection_becomes_a_url(uri: str, database: str | None, url: str) -> None:
    assert url_of(Connection.from_uri("c", uri), database) == url


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        ("SELECT 1;\n\n;SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' ; SELECT 'it''s;'", ["SELECT ';'", "SELECT 'it''s;'"]),
        ('SELECT ";" FROM `a;b`', ['SELECT ";" FROM `a;b`']),
        ("SELECT 1 -- a; b\n; SELECT 2 /* c; d */", ["SELECT 1 -- a; b", "SELECT 2 /* c; d */"]),
        ("-- only a comment;\n", []),
        ("DO $$ BEGIN a; b; END $$; SELECT $x$;$x$", ["DO $$ BEGIN a; b; END $$", "SELECT $x$;$x$"]),
        ("SELECT 'open ; ", ["SELECT 'open"]),  # the database will say what is wrong with it
    ],
)
def test_text_is_cut_at_the_semicolons_that_end_statements(text: str, statements: list[str]) -> None:
    assert split_sql(text) == statements


@given(st.lists(st.sampled_from(["SELECT 1", "SELECT ';'", "INSERT INTO t VALUES ('a''b;')", "SELECT $$;$$"])))
def test_joined_statements_come_apart_again(statements: list[str]) -> None:
    assert split_sql(" ;\n".join(statements)) == statements
