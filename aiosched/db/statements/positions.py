"""Statements on what schedulers have seen stored, and on spans that the database has lost.

No decisions live here: what was lost is in core/fleet/positions.py. Any role may say these statements, on PostgreSQL 15
to 18; where a server or its owner forbids those on the write-ahead log, the rows alone tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg

from aiosched.core.fleet.positions import Found, LostSpan, Place, Position
from aiosched.db.server.connection import DatabaseConnection, Queryable

# A standby is behind, and has lost nothing by that: nothing is said about one. The tables are small.
FIND: Final = """
    SELECT f.id AS fleet, f.former, f.accepts_former, now() AS at,
           coalesce(s.incarnation, l.incarnation) IS NOT NULL AS row_is_there,
           coalesce(s.renewals, l.renewals) AS renewals, coalesce(s.renewed_at, l.renewed_at) AS renewed_at,
           (SELECT max(renewed_at) FROM scheduler WHERE renewed_at <= $2) AS newest,
           CASE WHEN has_sequence_privilege(pg_get_serial_sequence('scheduler', 'incarnation'), 'USAGE, SELECT')
                THEN coalesce(pg_sequence_last_value(pg_get_serial_sequence('scheduler', 'incarnation')::regclass), 0)
            END AS issued
      FROM (SELECT * FROM fleet ORDER BY since LIMIT 1) AS f
      LEFT JOIN scheduler AS s ON s.incarnation = $1
      LEFT JOIN lost_scheduler AS l ON l.incarnation = $1
     WHERE NOT pg_is_in_recovery()
"""
# A transaction that has not begun makes pg_xact_status fail.
LOCATE: Final = """
    SELECT c.system_identifier AS system, w.timeline, w.lsn::text AS lsn, t.first_number,
           CASE WHEN $1::text::xid8 >= pg_snapshot_xmax(pg_current_snapshot()) THEN 'ahead'
                ELSE pg_xact_status($1::text::xid8) END AS commit
      FROM (SELECT lsn, ('x' || substr(pg_walfile_name(lsn), 1, 8))::bit(32)::int AS timeline
              FROM (SELECT pg_current_wal_lsn() AS lsn) AS l) AS w
     CROSS JOIN pg_control_system() AS c
      LEFT JOIN timeline_start AS t ON t.system = c.system_identifier AND t.timeline = w.timeline
"""
# Before a scheduler writes anything else in a timeline.
MEET: Final = """
    INSERT INTO timeline_start (system, timeline, first_number)
    VALUES ($1, $2, pg_snapshot_xmax(pg_current_snapshot())::text::bigint) ON CONFLICT DO NOTHING
"""
FIRST_NUMBER: Final = "SELECT first_number FROM timeline_start WHERE system = $1 AND timeline = $2"


async def meet(conn: DatabaseConnection, place: Place) -> int | None:
    """Note the number of the next transaction, as a scheduler is the first to meet the timeline; returns it."""
    await conn.execute(MEET, place.system, place.timeline)
    number: int | None = await conn.fetchval(FIRST_NUMBER, place.system, place.timeline)
    return number


async def _locate(conn: DatabaseConnection, number: int | None) -> tuple[Place | None, str | None, int | None]:
    """Where PostgreSQL is, what became of a transaction, and the first number that schedulers met in the timeline.

    Nones where it does not tell.
    """
    try:
        row = await conn.fetchrow(LOCATE, None if number is None else str(number))
    except asyncpg.PostgresError:  # a standby, a service that has no such functions, or an owner who forbids them
        return None, None, None
    if row is None or row["system"] is None or row["timeline"] is None:
        return None, None, None
    return Place(row["system"], row["timeline"], row["lsn"]), row["commit"], row["first_number"]


async def find(conn: DatabaseConnection, seen: Position | None) -> Found | None:
    """What the database says, also about a position; None if it is a standby. Outside a transaction."""
    row = await conn.fetchrow(FIND, *((None, None) if seen is None else (seen.incarnation, seen.at)))
    if row is None:
        return None
    place, commit, first = await _locate(conn, None if seen is None else seen.number)
    return Found(**dict(row.items()), commit=commit, first_number=first, place=place)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Whose schedulers the database is for. `former`: of which fleets it is a copy."""

    id: str
    former: Sequence[str]
    accepts_former: bool


_FLEET: Final = "id, former, accepts_former"
READ_FLEET_ID: Final = f"SELECT {_FLEET} FROM fleet ORDER BY since LIMIT 1"
ACCEPT_FORMER: Final = f"UPDATE fleet SET accepts_former = true RETURNING {_FLEET}"
NEW_FLEET: Final = f"""
    UPDATE fleet SET former = array_append(former, id), id = gen_random_uuid()::text, accepts_former = false,
                     since = now()
    RETURNING {_FLEET}
"""


async def read_fleet_id(conn: DatabaseConnection) -> Fleet:
    """The fleet of the database."""
    return Fleet(*await conn.fetchrow(READ_FLEET_ID))


async def accept_former(conn: DatabaseConnection) -> Fleet:
    """Let the schedulers of the fleets of which it is a copy work with it."""
    return Fleet(*await conn.fetchrow(ACCEPT_FORMER))


async def new_fleet(conn: DatabaseConnection) -> Fleet:
    """It is a copy: let the schedulers that know the original leave it alone."""
    return Fleet(*await conn.fetchrow(NEW_FLEET))


_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('aiosched lost spans'))"
# One that was noticed after what this scheduler has seen last is the same one.
WIDEN: Final = """
    UPDATE lost_span SET lost_from = least(lost_from, $1), lost_to = greatest(lost_to, $2)
     WHERE id = (SELECT max(id) FROM lost_span WHERE noticed_at >= $2) RETURNING id
"""
NOTE: Final = """
    INSERT INTO lost_span (noticed_at, lost_from, lost_to, noticed_by, seen, found)
    VALUES (greatest(now(), $2), $1, $2, $3, $4, $5)
"""


async def note_lost(
    conn: DatabaseConnection, span: LostSpan, *, by: str, seen: Place | None, found: Place | None
) -> bool:
    """Store a lost span; False if another scheduler has noticed it before. Outside a transaction."""
    async with conn.transaction():
        await conn.execute(_LOCK)
        if await conn.fetchval(WIDEN, span.begin, span.end) is not None:
            return False
        await conn.execute(NOTE, span.begin, span.end, by, _words(seen), _words(found))
    return True


def _words(place: Place | None) -> str | None:
    return None if place is None else f"timeline {place.timeline}, position {place.lsn}"


@dataclass(frozen=True, slots=True)
class LostSpanRow:
    """A lost span, for people. `lost_from` None: since nobody knows when."""

    id: int
    noticed_at: datetime
    lost_from: datetime | None
    lost_to: datetime
    noticed_by: str
    seen: str | None
    found: str | None

    def __str__(self) -> str:
        since = "" if self.lost_from is None else f"from {self.lost_from:%Y-%m-%d %H:%M:%S} "
        return f"what was stored {since}to {self.lost_to:%Y-%m-%d %H:%M:%S} UTC may be lost"


_COLUMNS: Final = "id, noticed_at, lost_from, lost_to, noticed_by, seen, found"
LIST_LOST: Final = f"SELECT {_COLUMNS} FROM lost_span WHERE noticed_at > $1 ORDER BY id DESC LIMIT $2"
# Those of which runs may be made again, or tasks repeated. The newest first.
RECENT: Final = (
    f"SELECT {_COLUMNS} FROM lost_span WHERE noticed_at > now() - interval '7 days' ORDER BY id DESC LIMIT 20"
)


async def recent_spans(conn: Queryable) -> Sequence[LostSpanRow]:
    """The spans that were lost within a week, by PostgreSQL's clock, newest first."""
    return [LostSpanRow(*row) for row in await conn.fetch(RECENT)]


async def lost_spans(conn: DatabaseConnection, since: datetime, *, limit: int) -> Sequence[LostSpanRow]:
    """The spans that were noticed to be lost since then, newest first."""
    return [LostSpanRow(*row) for row in await conn.fetch(LIST_LOST, since, limit)]
