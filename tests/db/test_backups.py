"""`db backup` and `db restore`: from and to every version of PostgreSQL that this machine has."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from aiosched.db.server.admin import client
from aiosched.db.server.dsn import address_of, with_database
from aiosched.db.server.engine import Database
from aiosched.db.server.migrate import migrate
from aiosched.db.server.schema_version import HEAD
from aiosched.db.upkeep import backups
from aiosched.db.upkeep.backups import backup, restore
from aiosched.errors import DatabaseError, NotFound, Refused, UnsupportedDatabase
from tests.conftest import OLDER_SERVERS
from tests.db.conftest import ExternalServer

pytestmark = [pytest.mark.slow, pytest.mark.fresh_database]

AWKWARD = "a\ttab, a \\ backslash\r\n\\.\nSET transaction_timeout = 0;\n\\restrict x\nCOPY a (b) FROM stdin;\n\restrict"


async def ask(dsn: str, query: str, *arguments: object) -> Any:
    conn = await asyncpg.connect(dsn)
    try:
        return await conn.fetchval(query, *arguments)
    finally:
        await conn.close()


async def add_pool(dsn: str) -> None:
    await ask(dsn, "INSERT INTO pool (name, slots, description) VALUES ('etl', 7, $1)", AWKWARD)


async def assert_restored(dsn: str) -> None:
    """The pool is there, sequences go on where they were, and the tables are those of a migration."""
    assert await ask(dsn, "SELECT description FROM pool WHERE name = 'etl'") == AWKWARD
    assert await ask(dsn, "SELECT count(*) FROM partition_lease") == 64
    async with await Database.open(dsn) as db, db.acquire() as conn:
        number = await conn.fetchval("INSERT INTO asset (name, uri) VALUES ('later', 'x://later') RETURNING id")
    assert number == 2


async def fill(dsn: str) -> None:
    await migrate(dsn)
    await add_pool(dsn)
    await ask(dsn, "INSERT INTO asset (name, uri) VALUES ('first', 'x://first')")


@pytest.fixture
async def older_empty(older_server: ExternalServer) -> AsyncIterator[str]:
    """A second, empty database on each older server."""
    await ask(older_server.dsn(), "CREATE DATABASE restored")
    yield older_server.dsn("restored")
    await ask(older_server.dsn(), "DROP DATABASE restored WITH (FORCE)")


async def programs_of(dsn: str) -> Path:
    return OLDER_SERVERS[int(await ask(dsn, "SELECT current_setting('server_version_num')::int / 10000"))]


async def run(program: Path, dsn: str, *arguments: str) -> None:
    command = client(str(program), dsn, *arguments)
    environment = {**os.environ, **command.environment}
    await asyncio.to_thread(subprocess.run, command.argv, env=environment, check=True, capture_output=True)


async def test_the_servers_own_programs_restore_a_backup(older_dsn: str, older_empty: str, tmp_path: Path) -> None:
    await fill(older_dsn)

    await backup(older_dsn, made := tmp_path / "jobs.dump")
    await run(await programs_of(older_dsn) / "pg_restore", older_empty, "--exit-on-error", str(made))

    await assert_restored(older_empty)


async def test_a_restore_brings_a_server_back_and_carries_it_to_a_newer_one(
    older_dsn: str, older_empty: str, empty_dsn: str, tmp_path: Path
) -> None:
    await fill(older_dsn)
    await ask(older_dsn, "INSERT INTO variable (key, value) VALUES ('greeting', 'hello')")

    await backup(older_dsn, made := tmp_path / "jobs.dump")

    for target in (older_empty, empty_dsn):
        done = await restore(target, made)
        assert (done.revision, done.secrets) == (HEAD, 1)
        await assert_restored(target)


async def test_a_restore_leaves_a_database_alone_that_is_not_empty(dsn: str, empty_dsn: str, tmp_path: Path) -> None:
    await backup(dsn, made := tmp_path / "jobs.dump")
    await ask(empty_dsn, "CREATE TABLE somebody_else_s (x int)")

    with pytest.raises(Refused, match=r"is not empty: it has public\.somebody_else_s\. Restore into a new one"):
        await restore(empty_dsn, made)

    assert await ask(empty_dsn, "SELECT to_regclass('pool')") is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (lambda whole: whole[: len(whole) * 2 // 3], "could not be restored, the database is unchanged: "),
        (lambda whole: whole[:20], "could not be restored, the database is unchanged: "),
        (lambda whole: b"", "could not be restored, the database is unchanged: "),
        (lambda whole: b"hello", "input file does not appear to be a valid archive"),
        (
            lambda whole: b"--\n-- PostgreSQL database dump\n--\n\n".ljust(2_000, b"-"),
            "input file appears to be a text format dump",
        ),
    ],
    ids=["cut", "only the beginning", "empty", "text", "plain SQL"],
)
async def test_a_file_that_is_not_a_whole_archive_changes_nothing(
    dsn: str, empty_dsn: str, tmp_path: Path, content: Callable[[bytes], bytes], says: str
) -> None:
    await backup(dsn, made := tmp_path / "jobs.dump")
    made.write_bytes(content(made.read_bytes()))

    with pytest.raises(DatabaseError, match=says):
        await restore(empty_dsn, made)

    assert await ask(empty_dsn, "SELECT to_regclass('dag')") is None


async def test_an_archive_of_something_else_is_not_restored(dsn: str, empty_dsn: str, tmp_path: Path) -> None:
    await ask(dsn, "DROP TABLE alembic_version")
    await backup(dsn, made := tmp_path / "jobs.dump")

    with pytest.raises(DatabaseError, match="holds no tables of aiosched"):
        await restore(empty_dsn, made)

    assert await ask(empty_dsn, "SELECT to_regclass('dag')") is None


@pytest.mark.parametrize(
    "changes",
    [
        "DELETE FROM alembic_version",
        "DROP TABLE fleet CASCADE; UPDATE alembic_version SET version_num = 'a1b2c3d4'",
    ],
    ids=["no version", "another program's"],
)
async def test_an_archive_that_has_versions_by_alembic_alone_is_no_backup(
    dsn: str, empty_dsn: str, tmp_path: Path, changes: str
) -> None:
    conn = await asyncpg.connect(dsn)
    await conn.execute(changes)
    await conn.close()
    await backup(dsn, made := tmp_path / "jobs.dump")

    with pytest.raises(DatabaseError, match="is no backup of aiosched: it lacks tables, or their version"):
        await restore(empty_dsn, made)


async def test_a_file_that_is_not_there_is_said(empty_dsn: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"There is no file .*jobs\.dump"):
        await restore(empty_dsn, tmp_path / "jobs.dump")


async def test_a_backup_overwrites_nothing(dsn: str, tmp_path: Path) -> None:
    target = tmp_path / "jobs.dump"
    target.write_text("precious")

    with pytest.raises(Refused, match=r"jobs\.dump exists"):
        await backup(dsn, target)

    assert target.read_text() == "precious"


async def test_a_backup_that_fails_says_why_and_leaves_nothing(dsn: str, tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"failed: .*No such file or directory"):
        await backup(dsn, tmp_path / "missing" / "jobs.dump")

    role = f"nobody_{address_of(dsn).database}"
    await ask(dsn, f"CREATE ROLE {role} LOGIN")
    with pytest.raises(DatabaseError, match=r"failed: .*permission denied for"):
        await backup(dsn.replace("postgres@", f"{role}@"), tmp_path / "jobs.dump")
    await ask(dsn, f"DROP ROLE {role}")

    assert await asyncio.to_thread(os.listdir, tmp_path) == []


@pytest.fixture
def pg_dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for programs of many versions; there are no others."""
    monkeypatch.setattr(backups, "program_folders", lambda: [*tmp_path.glob("[0-9]*"), tmp_path / "bundled"])
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}{os.pathsep}{os.environ['PATH']}")
    add_pg_dump(tmp_path / "bundled", "18.4")
    add_pg_dump(tmp_path / "path", "16.2 (Debian 16.2-1)")
    return tmp_path


def add_pg_dump(folder: Path, version: str) -> None:
    folder.mkdir()
    program = folder / "pg_dump"
    program.write_text(f"#!/bin/sh\necho 'pg_dump (PostgreSQL) {version}'\n")
    program.chmod(0o755)


async def test_the_program_of_the_servers_version_is_taken_wherever_it_is(pg_dumps: Path) -> None:
    add_pg_dump(pg_dumps / "15", "15.18")

    assert [await backups._program("pg_dump", version) for version in (15, 16, 17, 18)] == [
        str(pg_dumps / "15" / "pg_dump"),
        str(pg_dumps / "path" / "pg_dump"),
        str(pg_dumps / "bundled" / "pg_dump"),
        str(pg_dumps / "bundled" / "pg_dump"),
    ]


async def test_a_server_that_is_newer_than_every_program_is_said(pg_dumps: Path) -> None:
    with pytest.raises(UnsupportedDatabase, match=r"newest pg_dump here is of version 18\. Install .* PostgreSQL 19"):
        await backups._program("pg_dump", 19)


async def test_a_backup_of_a_database_named_strangely(server: Any, tmp_path: Path) -> None:
    name = 'it\'s 50% "flows"'
    quoted = '"' + name.replace('"', '""') + '"'
    await server.execute(f"CREATE DATABASE {quoted} TEMPLATE template0")
    dsn = with_database(server.dsn, name)
    try:
        await migrate(dsn)
        size = await backup(dsn, made := tmp_path / "jobs.dump")
    finally:
        await server.execute(f"DROP DATABASE {quoted} WITH (FORCE)")

    assert size == made.stat().st_size > 0
