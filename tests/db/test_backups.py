"""`db backup` and `db restore`: from and to every version of PostgreSQL that this machine has."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from aiosched.db.server import backups
from aiosched.db.server.admin import client
from aiosched.db.server.backups import Script, backup, restore
from aiosched.db.server.dsn import address_of, with_database
from aiosched.db.server.embedded_host import binaries
from aiosched.db.server.engine import Database
from aiosched.db.server.migrate import migrate
from aiosched.db.server.schema_version import HEAD
from aiosched.errors import DatabaseError, NotFound, Refused, UnsupportedDatabase
from tests.conftest import OLDER_SERVERS
from tests.db.conftest import ExternalServer

pytestmark = pytest.mark.slow

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


@pytest.fixture
def only_newer_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that has the programs of PostgreSQL 18 and no others."""
    monkeypatch.setattr(backups, "_pg_dump_for", lambda _: (str(binaries() / "pg_dump"), False))


async def programs_of(dsn: str) -> Path:
    return OLDER_SERVERS[int(await ask(dsn, "SELECT current_setting('server_version_num')::int / 10000"))]


async def run(program: Path, dsn: str, *arguments: str) -> None:
    command = client(str(program), dsn, *arguments)
    environment = {**os.environ, **command.environment}
    await asyncio.to_thread(subprocess.run, command.argv, env=environment, check=True, capture_output=True)


async def test_a_backup_is_an_archive_that_the_servers_own_programs_restore(
    older_dsn: str, older_empty: str, tmp_path: Path
) -> None:
    await fill(older_dsn)

    made = await backup(older_dsn, tmp_path / "jobs.dump")
    await run(await programs_of(older_dsn) / "pg_restore", older_empty, "--exit-on-error", str(made.path))

    assert made.is_archive
    await assert_restored(older_empty)


@pytest.mark.usefixtures("only_newer_tools")
async def test_without_the_programs_of_its_version_a_backup_is_sql_that_they_understand(
    older_dsn: str, older_empty: str, tmp_path: Path
) -> None:
    await fill(older_dsn)

    made = await backup(older_dsn, tmp_path / "jobs.sql")
    await run(await programs_of(older_dsn) / "psql", older_empty, "-v", "ON_ERROR_STOP=1", "-f", str(made.path))

    assert not made.is_archive
    await assert_restored(older_empty)


@pytest.mark.parametrize("kind", ["archive", "sql"])
async def test_a_restore_brings_an_older_server_back(
    older_dsn: str, older_empty: str, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "sql":
        request.getfixturevalue("only_newer_tools")
    await fill(older_dsn)

    made = await backup(older_dsn, tmp_path / "jobs.dump")
    done = await restore(older_empty, made.path)

    assert made.is_archive is (kind == "archive")
    assert done.revision == HEAD
    assert (done.rows["pool"], done.rows["partition_lease"]) == (2, 64)
    await assert_restored(older_empty)


async def test_a_restore_goes_from_any_version_to_any_other(
    older_dsn: str, older_empty: str, dsn: str, empty_dsn: str, tmp_path: Path
) -> None:
    await fill(older_dsn)
    await add_pool(dsn)
    await ask(dsn, "INSERT INTO asset (name, uri) VALUES ('first', 'x://first')")

    up = await backup(older_dsn, tmp_path / "older.dump")
    down = await backup(dsn, tmp_path / "newer.dump")
    await restore(empty_dsn, up.path)
    await restore(older_empty, down.path)

    await assert_restored(empty_dsn)
    await assert_restored(older_empty)


async def test_a_restore_leaves_a_database_alone_that_is_not_empty(dsn: str, empty_dsn: str, tmp_path: Path) -> None:
    made = await backup(dsn, tmp_path / "jobs.dump")
    await ask(empty_dsn, "CREATE TABLE somebody_else_s (x int)")

    with pytest.raises(Refused, match=r"is not empty: it has public\.somebody_else_s\. Restore into a new one"):
        await restore(empty_dsn, made.path)

    assert await ask(empty_dsn, "SELECT to_regclass('pool')") is None


def changed(made: Path, change: str, dsn: str) -> Path:
    """A backup of another kind of content, made from a good one."""
    whole = made.read_bytes()
    other = made.with_name(change)
    match change:
        case "cut":
            other.write_bytes(whole[: len(whole) * 2 // 3])
        case "text":
            other.write_text("hello")
        case "cut.sql" | "stranger.sql":
            text = subprocess.check_output([str(binaries() / "pg_dump"), f"--dbname={dsn}"])
            middle = text.index(b"ALTER TABLE ONLY")
            bad = text[:middle] + b"\\! touch made_by_a_stranger\n" + text[middle:]
            other.write_bytes(text[:middle] if change == "cut.sql" else bad)
    return other


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("cut", "could not be restored, the database is unchanged"),
        ("text", "neither an archive nor plain SQL of pg_dump"),
        ("cut.sql", "the end of the dump is missing"),
        ("stranger.sql", "could not be restored, the database is unchanged"),
    ],
)
async def test_a_file_that_is_not_whole_or_not_ours_changes_nothing(
    dsn: str, empty_dsn: str, tmp_path: Path, change: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = await backup(dsn, tmp_path / "jobs.dump")
    bad = await asyncio.to_thread(changed, made.path, change, dsn)

    with pytest.raises(DatabaseError, match=says):
        await restore(empty_dsn, bad)

    assert await ask(empty_dsn, "SELECT to_regclass('dag')") is None
    assert not (tmp_path / "made_by_a_stranger").exists()


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "its schema is 9999, which this aiosched does not know"),
        ("DROP TABLE alembic_version", "holds no tables of aiosched"),
        ("DROP TABLE asset_event CASCADE", "the tables asset_event are missing"),
    ],
)
async def test_what_is_not_a_whole_aiosched_is_not_restored(
    dsn: str, empty_dsn: str, tmp_path: Path, statement: str, says: str
) -> None:
    await ask(dsn, statement)
    made = await backup(dsn, tmp_path / "jobs.dump")

    with pytest.raises(DatabaseError, match=says):
        await restore(empty_dsn, made.path)

    assert await ask(empty_dsn, "SELECT to_regclass('dag')") is None


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
    monkeypatch.setattr(backups, "INSTALLED", (f"{tmp_path}/{{version}}",))
    monkeypatch.setattr(backups, "binaries", lambda: tmp_path / "bundled")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}{os.pathsep}{os.environ['PATH']}")
    add_pg_dump(tmp_path / "bundled", "18.4")
    add_pg_dump(tmp_path / "path", "16.2 (Debian 16.2-1)")
    return tmp_path


def add_pg_dump(folder: Path, version: str) -> None:
    folder.mkdir()
    program = folder / "pg_dump"
    program.write_text(f"#!/bin/sh\necho 'pg_dump (PostgreSQL) {version}'\n")
    program.chmod(0o755)


def test_the_pg_dump_of_the_servers_version_is_taken_wherever_it_is(pg_dumps: Path) -> None:
    add_pg_dump(pg_dumps / "15", "15.18")

    assert [backups._pg_dump_for(version) for version in (15, 16, 17, 18)] == [
        (str(pg_dumps / "15" / "pg_dump"), True),
        (str(pg_dumps / "path" / "pg_dump"), True),
        (str(pg_dumps / "bundled" / "pg_dump"), False),
        (str(pg_dumps / "bundled" / "pg_dump"), True),
    ]


def test_a_server_that_is_newer_than_every_pg_dump_is_said(pg_dumps: Path) -> None:
    with pytest.raises(UnsupportedDatabase, match=r"newest pg_dump here is version 18, .* Install the PostgreSQL 19"):
        backups._pg_dump_for(19)


def test_lines_that_only_newer_programs_know_are_left_out_but_never_data() -> None:
    lines = [
        b"\\restrict word\n",
        b"SET transaction_timeout = 0;\n",
        b"SET lock_timeout = 0;\n",
        b'COPY public."order" (a, b) FROM stdin;\n',
        b"SET transaction_timeout = 0;\n",
        b"\\restrict\t-- PostgreSQL database dump complete\n",
        b"\\.\n",
        b"\\unrestrict word\n",
    ]

    script = Script(lines)

    assert list(script) == lines[2:7]
    assert (script.rows, script.is_complete) == ({"order": 2}, False)


async def test_a_backup_of_a_database_named_strangely(server: Any, tmp_path: Path) -> None:
    name = 'it\'s 50% "flows"'
    quoted = '"' + name.replace('"', '""') + '"'
    await server.execute(f"CREATE DATABASE {quoted} TEMPLATE template0")
    dsn = with_database(server.dsn, name)
    try:
        await migrate(dsn)
        made = await backup(dsn, tmp_path / "jobs.dump")
    finally:
        await server.execute(f"DROP DATABASE {quoted} WITH (FORCE)")

    assert made.size > 0
