"""Reading the audit log, and removing what is older than it is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiosched.core.timetables.days import DayOrInstant
from aiosched.core.values.json_bounds import shown_object
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database

_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry. `times` is how many alike it stands for; `command_id` is the number of the request."""

    id: int
    at: datetime
    kind: str
    who: str
    address: str | None
    session_id: int | None
    token_id: int | None
    object: str | None
    dag_id: str | None
    result: str
    detail: dict[str, Any]
    times: int
    command_id: int | None


@dataclass(frozen=True, slots=True)
class EntrySelection:
    """Which entries are meant; None: all. `kind`: some, separated by commas; with a dot at its end: all that begin so.

    `until` is exclusive. A selection with days is first made one with instants (`names.days.entries_meant`).
    """

    kind: str | None = None
    who: str | None = None
    object: str | None = None
    dag_id: str | None = None
    result: str | None = None
    since: DayOrInstant | None = None
    until: DayOrInstant | None = None


_COLUMNS: Final = "id, at, kind, who, address, session_id, token_id, object, dag_id, result, detail, times, command_id"
_SELECTED: Final = """
    ($1::text[] IS NULL OR kind = ANY($1)
     OR EXISTS (SELECT FROM unnest($1) AS w (word) WHERE right(w.word, 1) = '.' AND starts_with(kind, w.word)))
    AND ($2::text IS NULL OR who = $2) AND ($3::text IS NULL OR object = $3) AND ($4::text IS NULL OR dag_id = $4)
    AND ($5::text IS NULL OR result = $5) AND ($6::timestamptz IS NULL OR at >= $6)
    AND ($7::timestamptz IS NULL OR at < $7)
"""
# Index: the primary key, in its order or backwards.
NEWEST: Final = f"""
    SELECT {_COLUMNS} FROM audit_log WHERE {_SELECTED} AND ($8::bigint IS NULL OR id < $8) ORDER BY id DESC LIMIT $9
"""
OLDEST: Final = f"SELECT {_COLUMNS} FROM audit_log WHERE {_SELECTED} AND id > $8 ORDER BY id LIMIT $9"
SOME: Final = f"SELECT {_COLUMNS} FROM audit_log WHERE id = ANY($1::bigint[]) ORDER BY id"
PURGE: Final = "SELECT purge_audit_log($1, $2)"


async def list_entries(
    db: Database, selection: EntrySelection, *, before: int | None = None, limit: int = 50
) -> list[AuditEntry]:
    """Entries, newest first, older than the one with the id `before`."""
    return [entry_of(row) for row in await db.fetch(NEWEST, *_values(selection), before, limit)]


async def newest_entry(conn: DatabaseConnection, selection: EntrySelection) -> AuditEntry | None:
    """The newest entry of a selection."""
    row = await conn.fetchrow(NEWEST, *_values(selection), None, 1)
    return None if row is None else entry_of(row)


async def all_entries(db: Database, selection: EntrySelection, *, after: int = 0) -> AsyncIterator[AuditEntry]:
    """All entries after the one with the id `after`, oldest first, read page by page."""
    while True:
        rows = await db.fetch(OLDEST, *_values(selection), after, _PAGE)
        for row in rows:
            yield entry_of(row)
        if len(rows) < _PAGE:
            return
        after = rows[-1]["id"]


async def purge(conn: DatabaseConnection, before: datetime, *, limit: int) -> int:
    """Remove some entries of before that instant, and of before a week ago; returns how many."""
    return int(await conn.fetchval(PURGE, before, limit))


def entry_of(row: Any) -> AuditEntry:
    """A row as an entry."""
    return AuditEntry(**{**dict(row), "detail": shown_object(row["detail"])})


def _values(s: EntrySelection) -> tuple[Any, ...]:
    kinds = None if s.kind is None else [kind.strip() for kind in s.kind.split(",")]
    return kinds, s.who, s.object, s.dag_id, s.result, s.since, s.until
