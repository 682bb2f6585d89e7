"""Migrating as a role that may not: which grants are missing, and the SQL for somebody who may."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest

from aiosched.db.server.admin import client
from aiosched.db.server.dsn import address_of
from aiosched.db.server.engine import Database
from aiosched.db.server.installations import binaries
from aiosched.db.server.migrate import migrate, outstanding
from aiosched.db.server.rights import Rights, missing_grants
from aiosched.db.server.schema_version import HEAD
from aiosched.errors import DatabaseError
from tests.cli.conftest import Cli
from tests.cli.serving import serve
from tests.db.next_schema import NEXT, add_next_schema


@dataclass(frozen=True)
class Place:
    """An empty database, and a role in it that nobody has granted anything."""

    owner: str  # the DSN of who may do everything
    role: str
    dsn: str  # the role's

    async def run(self, *statements: str) -> None:
        conn = await asyncpg.connect(self.owner)
        try:
            await conn.execute("\n".join(statements))
        finally:
            await conn.close()


async def make_role(owner: str, name: str) -> Place:
    user = f"{name}_{address_of(owner).database}"
    quoted = '"' + user.replace('"', '""') + '"'
    login = quote(user, safe="")
    place = Place(owner, quoted, owner.replace("postgres:", f"{login}:").replace("postgres@", f"{login}@"))
    await place.run(f"CREATE ROLE {quoted} LOGIN PASSWORD 's3cret/%'")
    return place


async def drop_role(place: Place) -> None:
    await place.run(f"DROP OWNED BY {place.role}; DROP ROLE {place.role}")


@pytest.fixture
async def place(empty_dsn: str) -> AsyncIterator[Place]:
    made = await make_role(empty_dsn, 'the "app"')
    yield made
    await drop_role(made)


def sql_in(message: str) -> list[str]:
    """The indented lines of an error: what is to be pasted."""
    return [line.strip() for line in message.splitlines() if line.startswith("    ")]


async def refused(place: Place) -> list[str]:
    with pytest.raises(DatabaseError, match="may not change the schema of database") as caught:
        await migrate(place.dsn)
    return sql_in(str(caught.value))


async def test_the_grant_that_is_missing_can_be_pasted(place: Place) -> None:
    grants = await refused(place)

    assert grants == [f"GRANT CREATE ON SCHEMA public TO {place.role};"]
    await place.run(*grants)
    assert await migrate(place.dsn) is None


async def test_it_is_the_same_on_older_servers(older_dsn: str) -> None:
    made = await make_role(older_dsn, "app")
    try:
        await made.run(*await refused(made))

        assert await migrate(made.dsn) is None
    finally:
        await drop_role(made)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("exists", [True, False])
async def test_the_schema_is_that_of_the_search_path(place: Place, exists: bool) -> None:
    await place.run(f'ALTER ROLE {place.role} SET search_path = "Flows 1", public')
    if exists:
        await place.run('CREATE SCHEMA "Flows 1"', f"; REVOKE USAGE ON SCHEMA public FROM PUBLIC, {place.role}")
    else:
        await place.run("DROP SCHEMA public")

    grants = await refused(place)

    wanted = 'GRANT USAGE, CREATE ON SCHEMA "Flows 1" TO {};' if exists else 'CREATE SCHEMA "Flows 1" AUTHORIZATION {};'
    assert grants == [wanted.format(place.role)]
    await place.run(*grants)
    assert await migrate(place.dsn) is None


async def test_tables_of_another_role_have_to_become_its_own(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await migrate(place.owner)
    add_next_schema(monkeypatch, tmp_path)
    await place.run(
        f"GRANT CREATE ON SCHEMA public TO {place.role};", f"GRANT SELECT ON alembic_version TO {place.role}"
    )

    grants = await refused(place)

    assert f"ALTER TABLE pool OWNER TO {place.role};" in grants
    await place.run(*grants)
    assert await migrate(place.dsn) == HEAD


def test_who_may_everything_lacks_nothing() -> None:
    assert missing_grants(Rights("app", "flows", "public", "public", True, True)) == []


# -- db migrate --sql ------------------------------------------------------------------------------


async def psql(dsn: str, script: str, folder: Path) -> None:
    file = folder / "migrate.sql"
    await asyncio.to_thread(file.write_text, script)
    told = client(str(binaries() / "psql"), dsn, "-X", "-v", "ON_ERROR_STOP=1", "-f", str(file))
    await asyncio.to_thread(subprocess.run, told.argv, check=True, capture_output=True)


async def schema_of(dsn: str) -> str:
    """All that pg_dump has to say about a database, rows included, but for the name of its fleet: each has its own."""
    options = ("--no-owner", "--no-privileges", "--restrict-key=x", "--exclude-table-data=fleet")
    told = client(str(binaries() / "pg_dump"), dsn, *options)
    return await asyncio.to_thread(subprocess.check_output, told.argv, text=True)


@pytest.mark.fresh_database
async def test_the_sql_makes_the_same_database_as_migrating(place: Place, dsn: str, tmp_path: Path) -> None:
    found, script = await outstanding(place.dsn)
    await psql(place.owner, script, tmp_path)

    assert found is None
    assert await schema_of(place.owner) == await schema_of(dsn)
    async with await Database.open(place.dsn) as db, db.acquire() as conn:  # the role may use what others made
        await conn.execute("INSERT INTO asset (name, uri) VALUES ('a', 'x://a')")
        await conn.execute("UPDATE pool SET slots = 3")
        assert await conn.fetchval("SELECT count(*) FROM task_instance_named") == 0


@pytest.mark.fresh_database
async def test_the_sql_goes_on_from_an_older_schema_and_from_no_other(
    place: Place, dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await migrate(place.owner)
    add_next_schema(monkeypatch, tmp_path)
    await migrate(dsn)
    await place.run(f"GRANT SELECT ON alembic_version TO {place.role}")

    found, script = await outstanding(place.dsn, default_pool_slots=7)
    await psql(place.owner, script, tmp_path)
    with pytest.raises(subprocess.CalledProcessError):
        await psql(place.owner, script, tmp_path)

    assert found == HEAD
    assert await schema_of(place.owner) == await schema_of(dsn)
    assert await outstanding(place.dsn) == (NEXT, "")


# -- as people meet it -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_commands_name_the_grant_and_print_the_sql(place: Place, tmp_path: Path) -> None:
    cli = Cli(place.dsn)
    grant = f"    GRANT CREATE ON SCHEMA public TO {place.role};\n"

    refused = cli("db", "migrate", code=5)
    printed = cli("db", "migrate", "--sql").stdout
    with serve(tmp_path, place.dsn, "--migrate", "--no-wait") as process:
        _, said = process.communicate(timeout=60)

    assert grant in refused.stderr
    assert (process.returncode, "Traceback" in said) == (5, False)
    assert grant in json.loads(said.splitlines()[-1])["event"]
    assert printed.startswith("-- aiosched: schema none to ")
    assert "GRANT SELECT, INSERT, UPDATE, DELETE ON public." in printed
    assert "public.web_user" in printed
    assert f"TO {place.role};\nCOMMIT;\n" in printed


def test_nothing_outstanding_is_no_sql(dsn: str) -> None:
    result = Cli(dsn)("db", "migrate", "--sql")

    assert (result.stdout, result.stderr) == ("", f"schema {HEAD} is current\n")
    assert Cli(dsn).json("db", "migrate", "--sql") == {"before": HEAD, "after": HEAD, "sql": ""}
