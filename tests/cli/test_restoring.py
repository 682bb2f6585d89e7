"""`db backup` and `db restore` as people use them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import asyncpg
import pytest

from aiosched.db.server.engine import Database
from aiosched.db.statements.ownership import LOCK_CLASS
from tests.cli.conftest import Cli


@pytest.mark.slow  # two homes with servers of their own
def test_an_embedded_database_is_backed_up_and_restored_into_a_new_home(short_path: Path) -> None:
    old, new = Cli(home=short_path / "old"), Cli(home=short_path / "new")
    file = str(short_path / "flows.dump")
    old("db", "migrate")
    old("variables", "set", "greeting", "hello")
    old("db", "backup", file)

    result = new("db", "restore", file)
    refused = new("db", "restore", file, code=4)

    assert "1 secret in it can be read with the keys of the database that was backed up: fernet.key" in result.stderr
    assert "is not empty" in refused.stderr
    (short_path / "new" / "fernet.key").write_bytes((short_path / "old" / "fernet.key").read_bytes())
    assert "hello" in new("variables", "get", "greeting", "--reveal").stdout


def test_a_restore_is_told_as_data(on_db: Cli, empty_dsn: str, tmp_path: Path) -> None:
    on_db("pools", "set", "etl", "4")
    on_db("db", "backup", "now.dump")

    told = Cli(empty_dsn).json("db", "restore", "now.dump")

    assert told.keys() == {"file", "database", "revision"}
    assert Cli(empty_dsn).json("pools", "get", "etl")["slots"] == 4


@pytest.mark.parametrize(
    ("revision", "says"), [("0031", "use a new database, or empty this one: `aiosched db reset`"), ("9999", "upgrade")]
)
def test_a_backup_of_another_schema_says_what_to_do_with_it(
    on_db: Cli, empty_dsn: str, tmp_path: Path, revision: str, says: str
) -> None:
    async def pretend(db: Database) -> None:
        await db.execute(f"UPDATE alembic_version SET version_num = '{revision}'")

    on_db.work(pretend)
    on_db("db", "backup", "other.dump")

    told = Cli(empty_dsn)("db", "restore", "other.dump").stderr

    assert f"The database is at schema {revision}" in told
    assert says in told
    assert "db migrate" not in told


def test_what_is_not_there_is_said(cli: Cli, empty_dsn: str) -> None:
    assert "There is no file gone.dump" in Cli(empty_dsn)("db", "restore", "gone.dump", code=3).stderr


def test_a_restored_copy_is_for_a_fleet_of_its_own_until_it_accepts_the_other(
    on_db: Cli, empty_dsn: str, tmp_path: Path
) -> None:
    original, copy = on_db.json("db", "fleet"), Cli(empty_dsn)
    on_db("db", "backup", "now.dump")

    told = copy("db", "restore", "now.dump")

    assert "aiosched db fleet --accept-former" in told.stderr
    restored = copy.json("db", "fleet")
    assert restored["id"] != original["id"]
    assert (restored["former"], restored["accepts_former"]) == ([original["id"]], False)
    assert copy.json("db", "fleet", "--accept-former") == {**restored, "accepts_former": True}
    again = copy.json("db", "fleet", "--new")
    assert (again["former"], again["accepts_former"]) == ([original["id"], restored["id"]], False)
    assert on_db.json("db", "fleet") == original
    assert "exclude each other" in copy("db", "fleet", "--new", "--accept-former", code=2).stderr


async def test_the_fleet_is_shown_with_how_its_machines_differ(on_db: Cli, dsn: str) -> None:
    conn = await asyncpg.connect(dsn)
    try:
        for name, remarks in (("one", []), ("two", ["lacks sales.py, which one has", "noticed: the clock went back"])):
            number = await conn.fetchval(
                """INSERT INTO scheduler (name, hostname, pid, version, executor, slots, draining, started_at,
                                          lease_expires_at, figures)
                   VALUES ($1, 'h', 1, '1', 'inline', 1, true, now(), now() + interval '1 h', $2)
                   RETURNING incarnation""",
                name,
                json.dumps({"remarks": remarks}),
            )
            await conn.execute("SELECT pg_advisory_lock($1::int, $2::int)", LOCK_CLASS, number % 2**31)

        found = await asyncio.to_thread(on_db.json, "db", "fleet")
        words = await asyncio.to_thread(on_db, "db", "fleet")
        await conn.execute("SELECT pg_advisory_unlock_all()")
        await conn.execute("UPDATE scheduler SET lease_expires_at = now() - interval '1 h'")
        gone = await asyncio.to_thread(on_db.json, "db", "fleet")
    finally:
        await conn.close()

    assert found["machines"] == ["two lacks sales.py, which one has", "two noticed: the clock went back"]
    assert "two lacks sales.py, which one has; two noticed" in " ".join(words.stdout.split())
    assert gone["machines"] == []
