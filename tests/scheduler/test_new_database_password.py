"""The password of the database is replaced while a fleet works: what is in the file counts from the next login on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from aiosched.config import Settings
from aiosched.db.server.dsn import password_of, with_password
from aiosched.db.server.engine import Database, address_of_sessions
from aiosched.db.server.installations import binaries
from aiosched.db.server.migrate import migrate
from aiosched.errors import DatabaseUnreachable
from aiosched.scheduler import Scheduler
from tests.db.conftest import ExternalServer, start_external
from tests.patience import PATIENCE

STEPS = """
from aiosched import DAG, Variable, task

with DAG("steps", schedule=None, max_active_runs=50):

    @task
    async def step(number):
        return number + 1

    value = 0
    for _ in range(10):
        value = step(value)
"""


@pytest.fixture
def server() -> Iterator[ExternalServer]:
    found, remove = start_external(binaries())
    yield found
    remove()


@pytest.fixture
async def settings(server: ExternalServer, tmp_path: Path) -> Settings:
    """A role with the password `one`, which is in a file, and a migrated database of its own."""
    async with as_superuser(server) as conn:
        await conn.execute("CREATE ROLE app LOGIN PASSWORD 'one'")
        await conn.execute("CREATE DATABASE flows OWNER app")
    (tmp_path / "password").write_text("one\n")
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "steps.py").write_text(STEPS)
    found = Settings()
    found.core.home, found.core.dags_folder = tmp_path / "home", tmp_path / "dags"
    found.database.dsn = f"postgresql://app@127.0.0.1:{server.port}/flows"
    found.database.password_file = tmp_path / "password"
    await migrate(address_of_sessions(found.database.dsn, found.database))
    return found


@contextlib.asynccontextmanager
async def as_superuser(server: ExternalServer) -> AsyncIterator[asyncpg.Connection]:
    conn = await asyncpg.connect(server.dsn())
    try:
        yield conn
    finally:
        await conn.close()


@pytest.mark.slow
async def test_a_fleet_goes_on_with_a_new_password_and_loses_nothing(
    settings: Settings, server: ExternalServer, tmp_path: Path
) -> None:
    def member(name: str) -> Scheduler:
        own = settings.model_copy(deep=True)
        own.scheduler.name = name
        return Scheduler(dags_folder=own.core.dags_folder, executor="inline", settings=own)

    async with asyncio.timeout(PATIENCE), contextlib.AsyncExitStack() as fleet:
        first = await fleet.enter_async_context(member("a"))
        await first.read_folder()
        await fleet.enter_async_context(member("b"))
        before = [await first.trigger("steps") for _ in range(5)]

        async with as_superuser(server) as conn:
            await conn.execute("ALTER ROLE app PASSWORD 'two'")
            ended = await conn.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
            with pytest.raises(DatabaseUnreachable, match=r"refuses the password in .*password\. Put the present one"):
                await Database.open(settings.database.dsn or "", settings=settings.database)
        (tmp_path / "password").write_text("two\n")
        states = {await run.wait(timeout=PATIENCE) for run in before}
        after = await (await first.trigger("steps")).wait(timeout=PATIENCE)

    assert len(ended) > 2
    assert states == {"success"}
    assert after == "success"
    async with as_superuser(server) as conn:
        other = await asyncpg.connect(server.dsn("flows"))
        rows = await other.fetch("SELECT state, count(*), max(try_number) AS tries FROM task_instance GROUP BY state")
        await other.close()
    assert [(row["state"], row["count"]) for row in rows] == [("success", 60)]


@pytest.mark.slow
async def test_sessions_that_are_open_stay_when_the_password_changes(
    settings: Settings, server: ExternalServer, tmp_path: Path
) -> None:
    async with await Database.open(settings.database.dsn or "", settings=settings.database) as db:
        async with as_superuser(server) as conn:
            await conn.execute("ALTER ROLE app PASSWORD 'two'")
        async with db.acquire() as old:
            assert await old.fetchval("SELECT 1") == 1
            (tmp_path / "password").write_text("two")
            new = await db.connect()
            assert await new.fetchval("SELECT 1") == 1
            await new.close()


@pytest.mark.slow
async def test_a_file_that_is_gone_is_named(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "password").unlink()

    with pytest.raises(DatabaseUnreachable, match=r"password: No such file or directory.*database\.password_file"):
        await Database.open(settings.database.dsn or "", settings=settings.database)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ann@h/x",
        "postgresql://ann:old@h:6000/x?sslmode=require",
        "postgresql://ann@/jobs?host=/run/pg&password=old",
        "postgresql://h/x",
    ],
)
def test_a_password_replaces_that_of_an_address(dsn: str) -> None:
    found = with_password(dsn, "s3cret/% &=")

    assert password_of(found) == "s3cret/% &="
    assert "old" not in found
