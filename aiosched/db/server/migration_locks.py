"""Locks all tables before a migration changes one, so that it cannot deadlock with the schedulers that go on meanwhile.

A migration that locks table after table may hold one that a transaction of a scheduler waits for, and wait for one
that this transaction holds. PostgreSQL would then abort either of them, after `deadlock_timeout` (1 s). So all tables
are locked first, by one statement that gives up sooner, lets the others go on, and tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.failures import is_retryable, unwrapped
from aiosched.errors import DatabaseError

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

logger: logging.Logger = logging.getLogger(__name__)

TABLES: Final = """
    SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.oid = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('alembic_version'))
       AND c.relname = ANY ($1::text[]) AND c.relkind = 'r'
     ORDER BY 1
"""
# Who holds one of the tables now: sessions of this database other than our own.
HOLDERS: Final = """
    SELECT DISTINCT a.pid, coalesce(nullif(a.application_name, ''), a.usename, a.backend_type) AS program, a.state,
           coalesce((EXTRACT(EPOCH FROM now() - a.xact_start))::int, 0) AS seconds
      FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
     WHERE l.locktype = 'relation' AND l.granted AND l.relation = ANY ($1::text[]::regclass[])
       AND a.datname = current_database() AND a.pid <> pg_backend_pid()
     ORDER BY seconds DESC LIMIT 3
"""

_GIVE_UP: Final = "400ms"  # well below the default deadlock_timeout: until then the others just wait
# From the fourth try on: longer than deadlock_timeout, after which PostgreSQL cancels an autovacuum that is in the way.
_GIVE_UP_LATER: Final = "1500ms"
_SHORT_TRIES: Final = 3
_PAUSE: Final = 0.5  # seconds in which the others go on


async def lock_statements(conn: DatabaseConnection, give_up: str = _GIVE_UP) -> list[str]:
    """The statements that lock the present tables, for the start of a transaction; none if there are no tables yet."""
    names = await _tables(conn)
    if not names:
        return []
    return [
        f"SET LOCAL statement_timeout = '{give_up}'",
        f"LOCK TABLE {', '.join(names)} IN ACCESS EXCLUSIVE MODE",
        "SET LOCAL statement_timeout TO DEFAULT",
    ]


@contextlib.asynccontextmanager
async def holding_tables(
    engine: AsyncEngine, conn: DatabaseConnection, patience: float
) -> AsyncIterator[AsyncConnection]:
    """A transaction of `engine` that holds all tables; committed at the end of the block.

    `conn` is another connection to the same database. Raises DatabaseError with the sessions that hold tables, if that
    lasts longer than `patience` seconds.
    """
    async with engine.connect() as transaction:
        await _lock(transaction, conn, patience)
        yield transaction
        await transaction.commit()


async def _lock(transaction: AsyncConnection, conn: DatabaseConnection, patience: float) -> None:
    from sqlalchemy import text
    from sqlalchemy.exc import DBAPIError

    deadline = asyncio.get_running_loop().time() + patience
    tries = 0
    while True:
        tries += 1
        try:
            for statement in await lock_statements(conn, _GIVE_UP if tries <= _SHORT_TRIES else _GIVE_UP_LATER):
                await transaction.execute(text(statement))
            return
        except DBAPIError as error:
            if not is_retryable(unwrapped(error)):
                raise
        await transaction.rollback()
        if asyncio.get_running_loop().time() > deadline:
            raise DatabaseError(
                f"The tables could not be locked for {patience:.0f} s: {await _holders(conn)}. "
                "Wait until such transactions have ended (a backup is one), or end them, and migrate again."
            )
        logger.info("waiting for the tables: %s", await _holders(conn))
        await asyncio.sleep(_PAUSE)


async def _tables(conn: DatabaseConnection) -> list[str]:
    from aiosched.db.schema.schema import metadata

    return [row["name"] for row in await conn.fetch(TABLES, [*metadata.tables, "alembic_version"])]


async def _holders(conn: DatabaseConnection) -> str:
    """Who holds a table, for a message."""
    rows = await conn.fetch(HOLDERS, await _tables(conn))
    said = [f"{row['program']} (process {row['pid']}, {row['state']}, since {row['seconds']} s)" for row in rows]
    return f"held by {', '.join(said)}" if said else "held by short transactions, one after the other"
