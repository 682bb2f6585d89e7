"""Migrations: from nothing to the schema of this aiosched, once, whoever else tries at the same time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from aiosched.db.schema.schema import metadata
from aiosched.db.server.engine import Database
from aiosched.db.server.migrate import migrate, outstanding
from aiosched.db.server.schema_version import HEAD, MIGRATIONS, REVISIONS, current_revision
from aiosched.errors import DatabaseError, DatabaseReadOnly, SchemaOutOfDate
from tests.db.next_schema import NEXT, add_next_schema
from tests.db.waiting import until_a_lock_is_awaited


async def test_migrating_an_empty_database_gives_exactly_the_metadata(db: Database) -> None:
    async with db.engine.connect() as conn:
        differences = await conn.run_sync(lambda sync: compare_metadata(_context(sync), metadata))

    assert differences == []


@pytest.mark.parametrize("by_hand", [False, True])
async def test_a_new_database_is_made_as_the_newest_revision_has_it(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by_hand: bool
) -> None:
    """Its tables are those of tables.py: a migration, which is for older ones, does not run."""
    add_next_schema(monkeypatch, tmp_path)
    if by_hand:
        _, script = await outstanding(empty_dsn)
        conn = await asyncpg.connect(empty_dsn)
        await conn.execute(script)
        await conn.close()

    assert await migrate(empty_dsn) == (NEXT if by_hand else None)

    async with await Database.open(empty_dsn, check=False) as db:
        assert await current_revision(db) == NEXT
        async with db.engine.connect() as connection:
            assert await connection.run_sync(lambda sync: compare_metadata(_context(sync), metadata)) == []


async def test_the_rows_that_always_exist_are_there(db: Database) -> None:
    async with db.acquire() as conn:
        partitions = await conn.fetch("SELECT partition, incarnation FROM partition_lease ORDER BY partition")
        pools = await conn.fetch("SELECT name, slots, used, include_deferred FROM pool")

    assert [tuple(row) for row in partitions] == [(number, None) for number in range(64)]
    assert [tuple(row) for row in pools] == [("default_pool", 128, 0, False)]


def test_the_known_revisions_are_those_of_the_folder() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    script = ScriptDirectory.from_config(config)

    assert script.get_current_head() == HEAD
    assert tuple(reversed([revision.revision for revision in script.walk_revisions()])) == REVISIONS


async def test_migrating_tells_what_it_found(empty_dsn: str) -> None:
    assert await migrate(empty_dsn) is None
    assert await migrate(empty_dsn) == HEAD


async def test_a_new_database_has_a_default_pool_of_the_size_asked_for_and_an_older_one_keeps_its_own(
    empty_dsn: str,
) -> None:
    """The setting core.default_pool_task_slot_count, and decision 19 of section 34."""
    for slots in (7, 9):
        await migrate(empty_dsn, default_pool_slots=slots)

    conn = await asyncpg.connect(empty_dsn)
    try:
        assert await conn.fetchval("SELECT slots FROM pool WHERE name = 'default_pool'") == 7
    finally:
        await conn.close()


async def test_several_migrators_at_once_do_the_work_once(empty_dsn: str) -> None:
    found = await asyncio.gather(*(migrate(empty_dsn) for _ in range(5)))

    assert sorted(found, key=str) == [HEAD] * 4 + [None]


async def test_an_empty_database_is_out_of_date(empty_dsn: str) -> None:
    with pytest.raises(SchemaOutOfDate, match=r"schema none \(empty\).*`aiosched db migrate`") as caught:
        await Database.open(empty_dsn)

    assert (caught.value.found, caught.value.needed, caught.value.exit_code) == (None, HEAD, 5)


async def pretend_newer(dsn: str, *, oldest: str | None) -> None:
    """A schema as a newer aiosched leaves it: `oldest` is the oldest revision that it works with."""
    await pretend(dsn, "9999", oldest=oldest)


async def pretend(dsn: str, revision: str, *, oldest: str | None) -> None:
    conn = await asyncpg.connect(dsn)
    await conn.execute(f"UPDATE alembic_version SET version_num = '{revision}'")
    comment = "NULL" if oldest is None else f"'aiosched: works with schema {oldest} and later'"
    await conn.execute(f"COMMENT ON TABLE alembic_version IS {comment}")
    await conn.close()


async def test_a_newer_schema_that_only_adds_is_used_and_left_as_it_is(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    await pretend_newer(dsn, oldest=HEAD)

    with caplog.at_level("INFO"):
        await (await Database.open(dsn)).close()

    assert "the schema 9999 is newer than this aiosched" in caplog.text
    assert await migrate(dsn) == "9999"
    assert await outstanding(dsn) == ("9999", "")
    assert await migrate(dsn) == "9999"


@pytest.mark.parametrize("oldest", ["9998", None])
async def test_a_schema_of_a_newer_aiosched_asks_for_an_upgrade_and_is_left_alone(dsn: str, oldest: str | None) -> None:
    await pretend_newer(dsn, oldest=oldest)

    with pytest.raises(SchemaOutOfDate, match="upgrade this one"):
        await Database.open(dsn)
    with pytest.raises(SchemaOutOfDate, match="upgrade this one"):
        await migrate(dsn)


@pytest.mark.parametrize("revision", ["0001", "0002", "0031", "0199"])
@pytest.mark.parametrize("oldest", ["0001", None])
async def test_a_schema_of_development_says_what_to_do_and_is_left_alone(
    dsn: str, revision: str, oldest: str | None
) -> None:
    await pretend(dsn, revision, oldest=oldest)

    for attempt in (Database.open, migrate, outstanding):
        with pytest.raises(
            SchemaOutOfDate, match=r"development version before 0\.2\.0.*new database.*db reset"
        ) as caught:
            await attempt(dsn)
        assert (caught.value.newer, caught.value.exit_code) == (False, 5)

    async with await Database.open(dsn, check=False) as db, db.acquire() as conn:
        assert await conn.fetchval("SELECT count(*) FROM partition_lease") == 64
        assert await current_revision(db) == revision


async def test_a_read_only_database_is_named_so(dsn: str) -> None:
    conn = await asyncpg.connect(dsn)
    await conn.execute(
        f"ALTER DATABASE {dsn.partition('?')[0].rpartition('/')[2]} SET default_transaction_read_only = on"
    )
    await conn.close()

    with pytest.raises(DatabaseReadOnly, match=r"is read-only.*Turn it off") as caught:
        await Database.open(dsn)
    with pytest.raises(DatabaseReadOnly):
        await migrate(dsn)
    assert caught.value.exit_code == 5


async def test_a_failed_migration_leaves_nothing_behind(empty_dsn: str) -> None:
    conn = await asyncpg.connect(empty_dsn)
    await conn.execute("CREATE TABLE xcom (in_the_way int)")

    with pytest.raises(Exception, match="xcom"):
        await migrate(empty_dsn)

    tables = await conn.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    await conn.close()
    assert [row["tablename"] for row in tables] == ["xcom"]


async def test_the_revision_is_read_without_alembic_and_sqlalchemy(dsn: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from aiosched.db.server.engine import Database\n"
        "async def main():\n"
        f"    await (await Database.open({dsn!r})).close()\n"
        "asyncio.run(main())\n"
        "print({'alembic', 'sqlalchemy'} & set(sys.modules))"
    )

    answer = await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", program], text=True)

    assert answer.strip() == "set()"


async def test_migrating_does_not_deadlock_with_a_transaction_that_uses_two_tables(
    dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It happened: a scheduler held `asset_event` and then wanted `dag_run`, which the migration had changed before."""
    async with await Database.open(dsn) as db:
        add_next_schema(monkeypatch, tmp_path)
        async with db.acquire() as scheduler, db.acquire() as observer:
            async with scheduler.transaction():
                await scheduler.execute("LOCK TABLE asset_event IN ROW EXCLUSIVE MODE")
                migrating = asyncio.create_task(migrate(dsn))
                await until_a_lock_is_awaited(observer)
                assert await scheduler.fetchval("SELECT count(*) FROM dag_run") == 0
            assert await migrating == HEAD
        assert await current_revision(db) == NEXT


async def test_a_migration_names_the_sessions_that_hold_a_table(
    dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with await Database.open(dsn, application_name="the holder") as db:
        add_next_schema(monkeypatch, tmp_path)
        async with db.acquire() as backup, backup.transaction():
            pid = await backup.fetchval("SELECT pg_backend_pid()")
            await backup.execute("LOCK TABLE variable IN ACCESS SHARE MODE")
            expected = rf"not be locked for 0 s: held by the holder \(process {pid}, idle in transaction, since \d+ s\)"
            with pytest.raises(DatabaseError, match=expected):
                await migrate(dsn, patience=0.0)
        assert await migrate(dsn) == HEAD


async def test_a_version_whose_tasks_cannot_be_listed_is_named_in_a_warning(dsn: str) -> None:
    """It is stored nevertheless."""
    warnings: list[Any] = []
    async with await Database.open(dsn) as db, db.acquire() as conn:

        def listen(_: object, message: Any) -> None:
            warnings.append(message)

        conn.add_log_listener(listen)
        add = "INSERT INTO dag_version (dag_id, number, content_hash, spec) VALUES ('odd', $1, '', $2) RETURNING number"
        stored = [
            await conn.fetchval(add, number, text) for number, text in enumerate(('{"tasks": []}', '{"tasks": 7}'), 1)
        ]
        await conn.fetchval("SELECT 1")  # listeners are called by the event loop
        conn.remove_log_listener(listen)

    assert stored == [1, 2]
    assert [(each.severity, each.message) for each in warnings] == [
        ("WARNING", "The tasks of version 2 of DAG odd cannot be listed: cannot call json_array_elements on a scalar")
    ]
    assert "Lists of task instances lack" in warnings[0].detail


def _context(connection: Any) -> MigrationContext:
    return MigrationContext.configure(connection)
