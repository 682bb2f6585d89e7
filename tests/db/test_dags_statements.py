"""The statements that store what parsing found."""

from __future__ import annotations

from datetime import timedelta

from aiosched.clock import FakeClock
from aiosched.core.values.ids import partition_of
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements.dags import (
    FileRow,
    NewDag,
    NewVersion,
    add_dags,
    files_of,
    known_pools,
    lock_dags,
    store_files,
    touch_files,
    unused_versions,
    withdraw_dags,
    write_versions,
)


def a_file(name: str, *dag_ids: str, error: str | None = None) -> FileRow:
    return FileRow(
        file=name,
        content_hash="h",
        dag_ids=dag_ids,
        parse_seconds=0.1,
        error=error,
        error_line=None,
        traceback=None,
        code_frame=None,
        warnings=(),
    )


async def flags(conn: DatabaseConnection) -> dict[str, tuple[bool, bool]]:
    rows = await conn.fetch("SELECT dag_id, is_stale, has_import_errors FROM dag")
    return {row["dag_id"]: (row["is_stale"], row["has_import_errors"]) for row in rows}


async def test_adding_a_dag_twice_keeps_the_first_row(db: Database) -> None:
    async with db.transaction() as conn:
        await add_dags(conn, [NewDag("x", "a.py", is_paused=True)])
        await add_dags(conn, [NewDag("x", "b.py", is_paused=False), NewDag("y", "b.py", is_paused=False)])

        rows = await conn.fetch("SELECT dag_id, partition, file, is_paused FROM dag ORDER BY dag_id")
        found = await lock_dags(conn, ["x", "y", "z"])

    assert [tuple(row) for row in rows] == [
        ("x", partition_of("x"), "a.py", True),
        ("y", partition_of("y"), "b.py", False),
    ]
    assert found.keys() == {"x", "y"}
    assert found["x"].version_id is None


async def test_a_dag_is_withdrawn_only_from_the_file_that_has_it(db: Database) -> None:
    async with db.transaction() as conn:
        await add_dags(conn, [NewDag("x", "a.py", is_paused=False), NewDag("y", "a.py", is_paused=False)])

        changed = await withdraw_dags(conn, {("x", "a.py", True), ("y", "b.py", True)})
        again = await withdraw_dags(conn, {("x", "a.py", True)})

        assert (changed, again) == (["x"], [])
        assert await flags(conn) == {"x": (True, True), "y": (False, False)}


async def test_touching_files_answers_which_rows_are_as_they_should_be(db: Database, clock: FakeClock) -> None:
    now, later = clock.now(), clock.now() + timedelta(minutes=5)
    async with db.transaction() as conn:
        await add_dags(conn, [NewDag(d, "good.py", is_paused=False) for d in ("a", "b")])
        await add_dags(conn, [NewDag("c", "stale.py", is_paused=False)])
        await withdraw_dags(conn, {("c", "stale.py", False)})
        await store_files(
            conn,
            [
                a_file("good.py", "a", "b"),
                a_file("empty.py"),
                a_file("stale.py", "c"),
                a_file("deleted_dag.py", "d"),
                a_file("broken.py", "e", error="no"),
            ],
            now=now,
        )

        names = ("good.py", "empty.py", "stale.py", "deleted_dag.py", "broken.py", "deleted.py")
        intact = await touch_files(conn, [(name, later, 0.2) for name in names])

        assert intact == {"good.py", "empty.py", "broken.py"}
        assert await conn.fetchval("SELECT parsed_at FROM dag_file WHERE file = 'good.py'") == later
        assert await conn.fetchval("SELECT last_parsed_at FROM dag WHERE dag_id = 'a'") == later


async def test_the_files_of_partitions(db: Database, clock: FakeClock) -> None:
    async with db.transaction() as conn:
        await store_files(conn, [a_file("a.py", "x"), a_file("b.py", error="no")], now=clock.now())

        mine = await files_of(conn, [partition_of("b.py")])

    assert partition_of("a.py") != partition_of("b.py")
    assert [(f.file, f.dag_ids, f.has_error) for f in mine.values()] == [("b.py", (), True)]


async def test_versions_in_use_are_not_unused(db: Database) -> None:
    async with db.transaction() as conn:
        await add_dags(conn, [NewDag(d, None, is_paused=False) for d in ("x", "y")])
        ids = await write_versions(
            conn, [NewVersion(d, 1, "h", "{}", None, None, None) for d in ("x", "y")], replaced=[]
        )
        await conn.execute(
            "INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after) "
            "VALUES ('x', 'r', 0, $1, 'manual', 'test', 'success', now())",
            ids["x"],
        )

        assert await unused_versions(conn, ids.values()) == {ids["y"]}


async def test_which_pools_are_known(db: Database) -> None:
    async with db.transaction() as conn:
        await conn.execute("INSERT INTO pool (name, slots) VALUES ('etl', 1)")

        assert await known_pools(conn, ["etl", "nobodys"]) == {"etl"}
        assert await known_pools(conn, []) == frozenset()
