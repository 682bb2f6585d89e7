"""`db info`, `db reset` and `db shell`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from aiosched.db.server import admin
from aiosched.db.server.admin import RowCount, info, reset, shell
from aiosched.db.server.dsn import address_of
from aiosched.db.server.engine import Database
from aiosched.db.server.schema_version import HEAD, current_revision
from aiosched.errors import Refused, SchemaOutOfDate


def name_of(dsn: str) -> str:
    name = address_of(dsn).database
    assert name is not None
    return name


async def add_pool(db: Database, name: str) -> None:
    await db.execute("INSERT INTO pool (name, slots) VALUES ($1, 1)", name)


async def pools(db: Database) -> set[str]:
    return {row["name"] for row in await db.fetch("SELECT name FROM pool")}


async def test_info_tells_server_size_schema_and_rows(db: Database) -> None:
    await add_pool(db, "etl")

    told = await info(db)

    assert told.server_version.startswith("18.")
    assert told.database == name_of(db.dsn)
    assert told.user == "postgres"
    assert told.size_bytes > 1_000_000
    assert (told.revision, told.needed_revision) == (HEAD, HEAD)
    assert told.tables["pool"] == RowCount(2, exact=True)
    assert told.tables["task_instance"] == RowCount(0, exact=True)


async def test_info_answers_for_an_empty_database_too(empty_dsn: str) -> None:
    async with await Database.open(empty_dsn, check=False) as db:
        told = await info(db)

    assert told.revision is None
    assert told.tables == {}


async def test_big_tables_are_estimated(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "EXACT_UP_TO", 10)
    async with db.acquire() as conn:
        await conn.execute("INSERT INTO pool (name, slots) SELECT 'p' || n, 1 FROM generate_series(1, 99) AS n")
        await conn.execute("ANALYZE pool")

    told = await info(db)

    assert told.tables["pool"] == RowCount(100, exact=False)


async def test_reset_makes_everything_anew_and_leaves_the_tables_of_others(db: Database) -> None:
    await add_pool(db, "etl")
    await db.execute("CREATE TABLE somebody_else_s AS SELECT 1 AS x")

    await reset(db.dsn, confirm=name_of(db.dsn))

    assert await pools(db) == {"default_pool"}
    assert await current_revision(db) == HEAD
    assert await db.fetchval("SELECT count(*) FROM somebody_else_s") == 1


async def test_reset_makes_the_schema_of_an_empty_database(empty_dsn: str) -> None:
    await reset(empty_dsn, confirm=name_of(empty_dsn))

    async with await Database.open(empty_dsn) as db:
        assert await pools(db) == {"default_pool"}


async def test_reset_needs_the_name_of_the_database(db: Database) -> None:
    await add_pool(db, "etl")

    with pytest.raises(Refused, match=f"Everything in database '{name_of(db.dsn)}'.*would be lost") as caught:
        await reset(db.dsn, confirm="yes")

    assert caught.value.exit_code == 4
    assert "etl" in await pools(db)


async def test_reset_is_refused_while_a_scheduler_is_alive(db: Database) -> None:
    await db.execute(
        "INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at)"
        " VALUES ('a', 'a', 1, '0', 'inline', 1, now() + interval '1 minute'),"
        "        ('b', 'b', 1, '0', 'inline', 1, now() - interval '1 minute')"
    )

    with pytest.raises(Refused, match=r"1 scheduler\(s\) are alive"):
        await reset(db.dsn, confirm=name_of(db.dsn))


async def test_reset_does_not_touch_a_newer_schema(db: Database) -> None:
    await db.execute("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(SchemaOutOfDate, match="newer"):
        await reset(db.dsn, confirm=name_of(db.dsn))


async def test_reset_replaces_a_schema_of_development(db: Database) -> None:
    async with db.acquire() as conn:
        await conn.execute("UPDATE alembic_version SET version_num = '0031'")
        await conn.execute("INSERT INTO asset (name, uri) VALUES ('a', 'x://a')")

    await reset(db.dsn, confirm=name_of(db.dsn))

    assert await current_revision(db) == HEAD
    assert await db.fetchval("SELECT count(*) FROM asset") == 0


def test_a_shell_gets_the_address_without_the_password_which_goes_through_the_environment() -> None:
    command = shell("postgresql+asyncpg://ann:s3cret@db:5433/jobs?sslmode=require")

    assert Path(command.argv[0]).name == "psql"
    assert command.argv[1:] == ("--dbname=postgresql://ann@db:5433/jobs?sslmode=require",)
    assert command.environment == {"PGPASSWORD": "s3cret"}


def test_a_shell_on_the_embedded_server_answers(dsn: str) -> None:
    command = shell(dsn)

    answer = subprocess.check_output([*command.argv, "-Atc", "SELECT slots FROM pool"], text=True)

    assert answer.strip() == "128"


async def test_a_reset_that_meets_a_held_lock_is_refused(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async with db.transaction() as holder:
        await holder.execute("LOCK TABLE xcom IN ACCESS SHARE MODE")
        monkeypatch.setattr(admin, "LOCK_TIMEOUT", "10ms")

        with pytest.raises(Refused, match="The tables are in use"):
            await reset(db.dsn, confirm=name_of(db.dsn))

    assert await pools(db) == {"default_pool"}
