"""The schema revision of a database, and the one that this aiosched needs.

Reading the revision takes one statement and does not import Alembic. Migrations: migrate.py.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiosched.db.server.connection import Connections, DatabaseConnection
from aiosched.db.server.dsn import address_of
from aiosched.db.server.failures import explained, read_only
from aiosched.errors import SchemaOutOfDate

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS: Final = Path(__file__).parents[1] / "migrations"
# Oldest first; files are named by their revision. The first makes a new database as `HEAD` has it. Lower numbers were
# used during development: nothing migrates from them, and none is used again.
REVISIONS: Final = tuple(sorted(path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("*_*.py")))
HEAD: Final = REVISIONS[-1]

logger: logging.Logger = logging.getLogger(__name__)

# Held by the migrating process for the life of its session: "aiosched" in bytes.
MIGRATION_LOCK: Final = 0x61696F7363686564

REVISION_TABLE_EXISTS: Final = "SELECT to_regclass('alembic_version') IS NOT NULL"
REVISION: Final = "SELECT version_num FROM alembic_version"
# The oldest revision whose aiosched works on this schema: raise it with a migration that takes something away.
OLDEST_THAT_WORKS: Final = "0203"
# As a comment on the table of the revision, so that an aiosched of today can start on a schema of tomorrow.
_WORKS_WITH: Final = "aiosched: works with schema {} and later"
READ_COMMENT: Final = "SELECT obj_description(to_regclass('alembic_version'), 'pg_class')"
IS_READ_ONLY: Final = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool"


async def current_revision(db: Connections) -> str | None:
    """The revision of the schema, None if there is none."""
    async with db.acquire() as conn:
        return await read_revision(conn)


async def check_schema(db: Connections) -> None:
    """Raise DatabaseReadOnly if the server rejects writes, SchemaOutOfDate if this aiosched cannot use the schema.

    It can use `HEAD`, and a newer one that only adds to it, as its migrations have noted down.
    """
    async with db.acquire() as conn:
        with explained(db.dsn):
            if await conn.fetchval(IS_READ_ONLY):
                raise read_only(address_of(db.dsn))
            found = await read_revision(conn)
            if found == HEAD:
                return
            if found is None or found in REVISIONS:
                raise out_of_date(found)
            await refuse_unless_only_added(conn, found)


async def refuse_unless_only_added(conn: DatabaseConnection, found: str) -> None:
    """Raise SchemaOutOfDate if the schema, at `found`, which is none of ours, is not only an addition to ours."""
    oldest = _oldest_of(await conn.fetchval(READ_COMMENT))
    if oldest is None or oldest > HEAD or is_of_development(found):
        raise out_of_date(found)
    logger.info("the schema %s is newer than this aiosched, which needs %s: it only adds to it", found, HEAD)


def works_with_comment() -> str:
    """SQL that notes down which versions can use the schema; run by each migration."""
    return f"COMMENT ON TABLE alembic_version IS '{_WORKS_WITH.format(OLDEST_THAT_WORKS)}'"


def _oldest_of(comment: str | None) -> str | None:
    before, after = _WORKS_WITH.split("{}")
    if comment is None or not comment.startswith(before) or not comment.endswith(after):
        return None
    return comment.removeprefix(before).removesuffix(after)


async def read_revision(conn: DatabaseConnection) -> str | None:
    """The revision of the schema, read with `conn`."""
    if not await conn.fetchval(REVISION_TABLE_EXISTS):
        return None
    revision: str | None = await conn.fetchval(REVISION)
    return revision


def is_of_development(found: str) -> bool:
    """Whether a development version before the first release made the schema."""
    return found < REVISIONS[0]


def out_of_date(found: str | None) -> SchemaOutOfDate:
    """The error for a schema at `found`; an unknown revision was created by a newer aiosched, or during development."""
    is_unknown = found is not None and found not in REVISIONS
    is_old = found is not None and is_of_development(found)
    return SchemaOutOfDate(found=found, needed=HEAD, newer=is_unknown and not is_old, of_development=is_old)


def migrations_config(**options: Any) -> Config:
    """Alembic's configuration for our migrations; `options` are those of its `Config`."""
    from alembic.config import Config

    config = Config(**options)
    config.set_main_option("script_location", MIGRATIONS.as_posix().replace("%", "%%"))
    return config
