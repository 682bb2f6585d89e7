"""Migrates a schema to the revision that this aiosched needs, or generates the SQL for it.

Alembic is imported only when tables have to change. The steps are in `migrations/versions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiosched.db.server.dsn import address_of, normalize
from aiosched.db.server.failures import check_server_version, explained, read_only
from aiosched.db.server.migration_locks import holding_tables, lock_statements
from aiosched.db.server.rights import Rights, read_rights, refuse_without
from aiosched.db.server.schema_version import (
    HEAD,
    IS_READ_ONLY,
    MIGRATION_LOCK,
    REVISIONS,
    read_revision,
    refuse_unless_only_added,
)
from aiosched.db.server.sequences import put_forward
from aiosched.db.server.silence import connect_for

if TYPE_CHECKING:
    from aiosched.db.server.connection import DatabaseConnection


async def migrate(dsn: str, *, default_pool_slots: int | None = None, patience: float = 60.0) -> str | None:
    """Migrate the schema to `HEAD` and return the previous revision (None: an empty database).

    In an empty database `default_pool` gets `default_pool_slots`, else it has 128. One transaction: all or nothing. If
    several processes migrate at once, one does the work and the others wait for it. A schema that a newer aiosched
    migrated stays if it only adds to ours, else SchemaOutOfDate. Raises the errors of `Database.open`, and
    DatabaseError if transactions of others hold the tables for longer than `patience` seconds.
    """
    dsn = normalize(dsn)
    with explained(dsn):
        conn = await connect_for("migrate", dsn)
        try:
            check_server_version(conn.get_server_version().major, dsn)
            if await conn.fetchval(IS_READ_ONLY):
                raise read_only(address_of(dsn))
            await conn.execute("SELECT pg_advisory_lock($1)", MIGRATION_LOCK)  # released with the connection
            found = await read_revision(conn)
            if found is not None and found not in REVISIONS:
                await refuse_unless_only_added(conn, found)
                return found
            if found != HEAD:
                refuse_without(await _rights(conn), dsn)
                await _upgrade(dsn, conn, found, default_pool_slots, patience)
            await put_forward(conn)
        finally:
            await conn.close()
    return found


async def _rights(conn: DatabaseConnection) -> Rights:
    from aiosched.db.schema.schema import metadata

    return await read_rights(conn, [*metadata.tables, "alembic_version", "task_instance_named"])


async def outstanding(dsn: str, *, default_pool_slots: int | None = None) -> tuple[str | None, str]:
    """The revision of the schema, and the SQL that migrates it to `HEAD` (empty if it is current).

    Changes nothing. Raises the same errors as `migrate`.
    """
    from aiosched.db.server.migration_sql import outstanding_sql

    dsn = normalize(dsn)
    with explained(dsn):
        conn = await connect_for("migrate", dsn)
        try:
            check_server_version(conn.get_server_version().major, dsn)
            found = await read_revision(conn)
            if found is not None and found not in REVISIONS:
                await refuse_unless_only_added(conn, found)
                return found, ""
            locks = await lock_statements(conn)
            return found, outstanding_sql(found, await _rights(conn), locks, default_pool_slots=default_pool_slots)
        finally:
            await conn.close()


async def _upgrade(
    dsn: str, session: DatabaseConnection, found: str | None, default_pool_slots: int | None, patience: float
) -> None:
    from sqlalchemy import text
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    from aiosched.db.server.migration_sql import run_alembic

    async def connect(*_: Any, **__: Any) -> Any:
        return await connect_for("migrate", dsn, timezone="UTC", jit="off")

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
    try:
        async with holding_tables(engine, session, patience) as conn:
            await conn.run_sync(lambda connection: run_alembic(found, attributes={"connection": connection}))
            if found is None and default_pool_slots is not None:
                resize = text("UPDATE pool SET slots = :slots WHERE name = 'default_pool'")
                await conn.execute(resize, {"slots": default_pool_slots})
    except DBAPIError as error:  # the error of PostgreSQL, explained as for all other statements
        said = getattr(error.orig, "__cause__", None)
        raise (error if said is None else said) from None
    finally:
        await engine.dispose()
