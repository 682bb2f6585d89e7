"""Entries of the audit log that were not sent to syslog yet.

A trigger notes down each new entry while somebody wants them (`audit_receiver`). An entry is forgotten in the
transaction in which it was sent, so a restart sends some twice rather than losing one; entries become visible with
their commit, in whatever order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiosched.db.audit.reading import SOME, AuditEntry, entry_of
from aiosched.db.server.connection import DatabaseConnection

WANT: Final = "INSERT INTO audit_receiver (name) VALUES ($1) ON CONFLICT DO NOTHING"
# Another scheduler may send others meanwhile. Index: primary key.
TAKE: Final = "SELECT id FROM audit_unsent ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED"
DELETE_SENT: Final = "DELETE FROM audit_unsent WHERE id = ANY($1::bigint[])"
# Nobody wants any more: first no new ones, then none.
STOP: Final = "WITH gone AS (DELETE FROM audit_receiver) DELETE FROM audit_unsent"

SYSLOG: Final = "syslog"


async def want(conn: DatabaseConnection, name: str = SYSLOG) -> None:
    """From now on new entries are noted down."""
    await conn.execute(WANT, name)


async def stop(conn: DatabaseConnection) -> None:
    """Entries are no longer noted down."""
    await conn.execute(STOP)


async def take(conn: DatabaseConnection, limit: int) -> list[AuditEntry]:
    """Some entries that were not sent, oldest first, locked until the end of the transaction."""
    ids = [row["id"] for row in await conn.fetch(TAKE, limit)]
    return [entry_of(row) for row in await conn.fetch(SOME, ids)]


async def forget(conn: DatabaseConnection, ids: Sequence[int]) -> None:
    """These were sent."""
    await conn.execute(DELETE_SENT, list(ids))
