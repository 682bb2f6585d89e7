"""The schema revision of a database, and the one that this aiosched needs.

Reading the revision takes one statement and does not import Alembic. Migrations: migrate.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiosched.db.server.connection import Connections, DatabaseConnection
from aiosched.db.server.dsn import address_of
from aiosched.db.server.failures import explained, read_only
from aiosched.errors import SchemaOutOfDate

if TYPE_CHECKING:
    from alembic.config import Config

REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006")  # oldest first; the files in migrations/versions
HEAD: Final = REVISIONS[-1]

MIGRATIONS: Final = Path(__file__).parents[1] / "migrations"

# Held by the migrating process for the life of its session: "aiosched" in bytes.
MIGRATION_LOCK: Final = 0x61696F7363686564

REVISION_TABLE_EXISTS: Final = "SELECT to_regclass('alembic_version') IS NOT NULL"
REVISION: Final = "SELECT version_num FROM alembic_version"
IS_READ_ONLY: Final = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool"


async def current_revision(db: Connections) -> str | None:
    """The revision of the schema, None if there is none."""
    async with db.acquire() as conn:
        return await read_revision(conn)


async def check_schema(db: Connections) -> None:
    """Raise DatabaseReadOnly if the server rejects writes, SchemaOutOfDate if the schema is not at `HEAD`."""
    async with db.acquire() as conn:
        with explained(db.dsn):
            if await conn.fetchval(IS_READ_ONLY):
                raise read_only(address_of(db.dsn))
            found = await read_revision(conn)
    if found != HEAD:
        raise out_of_date(found)


async def read_revision(conn: DatabaseConnection) -> str | None:
    """The revision of the schema, read with `conn`."""
    if not await conn.fetchval(REVISION_TABLE_EXISTS):
        return None
    revision: str | None = await conn.fetchval(REVISION)
    return revision


def out_of_date(found: str | None) -> SchemaOutOfDate:
    """The error for a schema at `found`; an unknown revision was created by a newer aiosched."""
    return SchemaOutOfDate(found=found, needed=HEAD, newer=found is not None and found not in REVISIONS)


def migrations_config(**options: Any) -> Config:
    """Alembic's configuration for our migrations; `options` are those of its `Config`."""
    from alembic.config import Config

    config = Config(**options)
    config.set_main_option("script_location", MIGRATIONS.as_posix().replace("%", "%%"))
    return config
