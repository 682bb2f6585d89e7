"""The least-privilege roles: what `aiosched db roles` prints and makes, and what each role can do then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from aiosched.db.schema.schema import metadata
from aiosched.db.server.dsn import address_of
from aiosched.db.server.roles import Purpose, apply, privileges_of, script
from aiosched.errors import Refused, SchemaOutOfDate
from tests.cli.conftest import Cli
from tests.database_roles import Roles, roles_of


@pytest.fixture
async def roles(dsn: str) -> AsyncIterator[Roles]:
    async with roles_of(dsn) as made:
        yield made


async def refused(dsn: str, *statements: str) -> None:
    conn = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await conn.execute(statement)
    finally:
        await conn.close()


async def test_each_table_has_privileges_for_each_purpose() -> None:
    for purpose in Purpose:
        assert set(privileges_of(purpose)) == {*metadata.tables, "alembic_version", "task_instance_named"}


async def test_neither_role_can_change_the_schema(roles: Roles) -> None:
    for dsn in (roles.scheduler, roles.web):
        await refused(
            dsn,
            "CREATE TABLE own (x int)",
            "ALTER TABLE dag ADD COLUMN x int",
            "DROP TABLE dag",
            "TRUNCATE request",
            "UPDATE alembic_version SET version_num = '0001'",
            "CREATE ROLE another",
            "SELECT pg_read_file('/etc/passwd')",
            "COPY dag TO PROGRAM 'cat'",
        )


async def test_a_web_server_changes_no_state_of_a_run(roles: Roles) -> None:
    await refused(
        roles.web,
        "UPDATE dag_run SET state = 'success'",
        "UPDATE task_instance SET state = 'success'",
        "INSERT INTO xcom SELECT * FROM xcom",
        "DELETE FROM dag_version",
        "UPDATE scheduler SET lease_expires_at = now()",
        "DELETE FROM partition_lease",
        "DELETE FROM request",
    )


async def test_a_scheduler_knows_no_password_and_no_session(roles: Roles) -> None:
    await refused(
        roles.scheduler,
        "SELECT password FROM web_user",
        "SELECT token_hash FROM web_session",
        "SELECT * FROM api_token",
        "UPDATE web_user SET role = 'admin'",
        "UPDATE team_folder SET folder = ''",
    )


async def test_roles_are_made_again_and_lose_what_they_had_too_much(roles: Roles) -> None:
    conn = await asyncpg.connect(roles.owner)
    await conn.execute(f"GRANT ALL ON dag_run TO {roles.names[Purpose.WEB]}")
    await conn.close()

    done = await apply(roles.owner, roles.names)

    assert sorted(done.existing) == sorted(roles.names.values())
    await refused(roles.web, "UPDATE dag_run SET state = 'success'")


async def test_a_superuser_the_own_role_and_one_role_for_both_are_refused(dsn: str, roles: Roles) -> None:
    with pytest.raises(Refused, match="postgres is a superuser"):
        await script(dsn, {Purpose.SCHEDULER: "postgres", Purpose.WEB: "web"})
    with pytest.raises(Refused, match="different roles"):
        await script(dsn, dict.fromkeys(Purpose, "same"))
    with pytest.raises(Refused, match="is the one that asks"):
        await script(roles.web, roles.names)


async def test_an_empty_database_is_to_be_migrated_first(empty_dsn: str) -> None:
    with pytest.raises(SchemaOutOfDate, match="aiosched db migrate"):
        await script(empty_dsn, {Purpose.WEB: "web"})


def test_the_command_prints_sql_that_can_be_run(dsn: str) -> None:
    names = [f'the "{purpose}" {address_of(dsn).database}' for purpose in Purpose]

    done = Cli(dsn)("db", "roles", "--scheduler", names[0], "--web", names[1])

    assert done.stdout.startswith("BEGIN;\n")
    assert f"{names[0]} is new and has no password" in done.stderr

    async def run() -> tuple[bool, bool]:
        conn = await asyncpg.connect(dsn)
        await conn.execute(done.stdout)
        can = [
            await conn.fetchval("SELECT has_table_privilege($1, 'request', $2)", names[1], kind)
            for kind in ("INSERT", "DELETE")
        ]
        for name in names:
            quoted = await conn.fetchval("SELECT quote_ident($1)", name)
            await conn.execute(f"DROP OWNED BY {quoted}; DROP ROLE {quoted}")
        await conn.close()
        return can[0], can[1]

    assert asyncio.run(run()) == (True, False)


def test_the_command_makes_roles_and_says_so(roles: Roles) -> None:
    options = [f"--{purpose}={name}" for purpose, name in roles.names.items()]

    done = Cli(roles.owner)("db", "roles", "--apply", *options)

    assert done.stdout == ""
    assert done.stderr.splitlines() == [f"{' and '.join(roles.names.values())} have what they need"]
