"""Named views of lists that a team shares, or everybody: the filters of a list in the web UI. Makes no decisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg

from aiosched.core.audit.actor import actor
from aiosched.core.audit.kinds import AuditKind
from aiosched.db.access.owners import check_team
from aiosched.db.audit.entries import record
from aiosched.db.names.existing import Existing, check_existing, etag_of
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, Refused


@dataclass(frozen=True, slots=True)
class StoredView:
    """A view of the list `page`: the query of its address. `team` None: for everybody."""

    id: int
    page: str
    name: str
    team: str | None
    query: str
    changed_at: datetime
    changed_by: str

    @property
    def etag(self) -> str:
        """Its version."""
        return etag_of(self.name, self.query)


_COLUMNS: Final = "id, page, name, team, query, changed_at, changed_by"
# Few rows. Index: the primary key.
LIST: Final = f"SELECT {_COLUMNS} FROM list_view WHERE id > $1 AND ($2::text IS NULL OR page = $2) ORDER BY id LIMIT $3"
GET: Final = f"SELECT {_COLUMNS} FROM list_view WHERE id = $1"
LOCK: Final = f"{GET} FOR UPDATE"
ADD: Final = f"""
    INSERT INTO list_view (page, name, team, query, changed_by) VALUES ($1, $2, $3, $4, $5) RETURNING {_COLUMNS}
"""
CHANGE: Final = f"""
    UPDATE list_view SET name = $2, query = $3, changed_at = now(), changed_by = $4 WHERE id = $1 RETURNING {_COLUMNS}
"""
DELETE: Final = "DELETE FROM list_view WHERE id = $1"


async def list_views(db: Database, page: str | None = None, *, after: int = 0, limit: int = 1000) -> list[StoredView]:
    """Views of a page, or of all, oldest first, after the id `after`."""
    return [StoredView(*row) for row in await db.fetch(LIST, after, page, limit)]


async def get_view(db: Database, number: int) -> StoredView:
    """One view. Raises NotFound."""
    row = await db.fetchrow(GET, number)
    if row is None:
        raise _unknown(number)
    return StoredView(*row)


async def add_view(db: Database, page: str, name: str, team: str | None, query: str) -> StoredView:
    """Share a view. Raises Refused if the team has one of that name, and NotFound for an unknown team."""
    try:
        async with db.transaction() as conn:
            await check_team(conn, team)
            made = StoredView(*await conn.fetchrow(ADD, page, name, team, query, actor().who))
            await _record(conn, AuditKind.VIEW_CREATED, made)
    except asyncpg.UniqueViolationError:
        raise _taken(name) from None
    return made


async def change_view(db: Database, number: int, name: str, query: str, *, existing: Existing) -> StoredView:
    """Give a view other filters or another name. Raises NotFound, Refused, and ChangedMeanwhile as `existing` says."""
    try:
        async with db.transaction() as conn:
            await _locked(conn, number, existing)
            made = StoredView(*await conn.fetchrow(CHANGE, number, name, query, actor().who))
            await _record(conn, AuditKind.VIEW_CHANGED, made)
    except asyncpg.UniqueViolationError:
        raise _taken(name) from None
    return made


async def delete_view(db: Database, number: int, *, existing: Existing) -> None:
    """Remove a view. Raises NotFound, and ChangedMeanwhile as `existing` says."""
    async with db.transaction() as conn:
        before = await _locked(conn, number, existing)
        await conn.execute(DELETE, number)
        await record(conn, AuditKind.VIEW_DELETED, before.name, team=before.team)


async def _locked(conn: DatabaseConnection, number: int, existing: Existing) -> StoredView:
    row = await conn.fetchrow(LOCK, number)
    if row is None:
        raise _unknown(number)
    found = StoredView(*row)
    await check_existing(conn, existing, "view", [found.name], {found.name: found.etag})
    return found


async def _record(conn: DatabaseConnection, kind: AuditKind, view: StoredView) -> None:
    await record(conn, kind, view.name, page=view.page, team=view.team, query=view.query)


def _taken(name: str) -> Refused:
    return Refused(f"There is a view {name!r} of this list already: choose another name, or change that one.")


def _unknown(number: int) -> NotFound:
    return NotFound(f"There is no view {number}; it may have been removed.")
