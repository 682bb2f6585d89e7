"""Operations of `aiosched db` on a whole database: info, reset, shell. Backups are in upkeep/backups.py."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import asyncpg

from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.dsn import address_of, normalize, password_of, without_password
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import explained
from aiosched.db.server.installations import binaries
from aiosched.db.server.migrate import migrate
from aiosched.db.server.schema_version import (
    HEAD,
    MIGRATION_LOCK,
    REVISIONS,
    is_of_development,
    out_of_date,
    read_revision,
)
from aiosched.db.server.silence import connect_for
from aiosched.errors import Refused

MAIN_TABLES: Final = (
    "dag",
    "dag_version",
    "dag_run",
    "task_instance",
    "task_try",
    "xcom",
    "pool",
    "backfill",
    "request",
    "scheduler",
)

LOCK_TIMEOUT: Final = "10s"  # how long a reset waits for table locks
EXACT_UP_TO: Final = 100_000  # rows; larger tables report the planner's estimate, since counting is slow

SERVER: Final = """
    SELECT current_setting('server_version') AS version, current_database() AS name,
           pg_database_size(current_database()) AS size, current_user AS username
"""

ESTIMATES: Final = """
    SELECT relname AS name, reltuples AS rows FROM pg_class WHERE oid = ANY ($1::text[]::regclass[])
"""

# Schedulers whose lease has not expired, by the database clock. A handful of rows: no index.
ALIVE: Final = "SELECT count(*) FROM scheduler WHERE lease_expires_at > now()"


@dataclass(frozen=True, slots=True)
class RowCount:
    """The row count of a table; the planner's estimate if not `exact`."""

    rows: int
    exact: bool


@dataclass(frozen=True, slots=True)
class DatabaseInfo:
    """The facts that `aiosched db info` shows."""

    address: str  # host and port, or the socket's folder
    database: str
    user: str
    server_version: str
    size_bytes: int
    revision: str | None  # of the schema; None if aiosched was never installed there
    needed_revision: str
    tables: Mapping[str, RowCount]  # the main ones; empty unless counted, and the schema is current


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """A PostgreSQL client command: its arguments and additional environment variables (the password)."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


async def info(db: Database, *, count: bool = True) -> DatabaseInfo:
    """Describe the database, with a `count` of rows. Open `db` with `check=False` to include outdated schemas."""
    async with db.acquire() as conn:
        server = await conn.fetchrow(SERVER)
        revision = await read_revision(conn)
        return DatabaseInfo(
            address=db.where,
            database=server["name"],
            user=server["username"],
            server_version=server["version"].split()[0],
            size_bytes=server["size"],
            revision=revision,
            needed_revision=HEAD,
            tables=await _count_rows(conn) if count and revision == HEAD else {},
        )


async def _count_rows(conn: DatabaseConnection) -> dict[str, RowCount]:
    estimates = {row["name"]: int(row["rows"]) for row in await conn.fetch(ESTIMATES, list(MAIN_TABLES))}
    counts = {}
    for table in MAIN_TABLES:
        exact = estimates[table] <= EXACT_UP_TO  # -1: never analysed, so presumably small
        rows = await conn.fetchval(f"SELECT count(*) FROM {table}") if exact else estimates[table]
        counts[table] = RowCount(rows, exact)
    return counts


async def reset(dsn: str, *, confirm: str, default_pool_slots: int | None = None) -> None:
    """Drop all aiosched objects in the database and create them again.

    `confirm` is the database's name. Other tables are left alone. Raises Refused if `confirm` differs or a scheduler is
    alive, SchemaOutOfDate if a newer aiosched created the schema, and the errors of `Database.open`.
    """
    from aiosched.db.schema.schema import metadata  # imports SQLAlchemy

    dsn = normalize(dsn)
    with explained(dsn):
        conn = await connect_for("reset", dsn)
        try:
            name = await conn.fetchval("SELECT current_database()")
            if confirm != name:
                raise Refused(
                    f"Everything in database {name!r} at {address_of(dsn)} would be lost. "
                    f"Confirm with its name, {name!r} (not {confirm!r})."
                )
            await conn.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
            async with conn.transaction():
                await conn.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
                revision = await read_revision(conn)
                if revision is not None:
                    await _refuse_reset_in_use(conn, revision)
                names = ", ".join(f'"{table}"' for table in (*metadata.tables, "alembic_version"))
                await conn.execute("DROP VIEW IF EXISTS task_instance_named")
                await conn.execute(f"DROP TABLE IF EXISTS {names}")
        except asyncpg.LockNotAvailableError:
            raise Refused("The tables are in use. Stop every aiosched on this database, then try again.") from None
        finally:
            await conn.close()
    await migrate(dsn, default_pool_slots=default_pool_slots)


async def _refuse_reset_in_use(conn: DatabaseConnection, revision: str) -> None:
    if revision not in REVISIONS and not is_of_development(revision):
        raise out_of_date(revision)
    if alive := await conn.fetchval(ALIVE):
        raise Refused(f"{alive} scheduler(s) are alive on this database. Stop them, then reset.")


def shell(dsn: str) -> ClientCommand:
    """The psql command for the database: the psql on PATH (it has line editing), else the bundled one."""
    return client(shutil.which("psql") or str(binaries() / "psql"), dsn)


def client(program: str, dsn: str, *arguments: str) -> ClientCommand:
    """A libpq program for `dsn`; the password is passed in the environment, where `ps` does not show it."""
    password = password_of(dsn)
    return ClientCommand(
        (program, f"--dbname={without_password(dsn)}", *arguments),
        {} if password is None else {"PGPASSWORD": password},
    )
