"""What anybody can cause as often as they like, such as a refused login, is written down once a minute.

The first one has an entry at once. Those like it that follow within a minute are counted, and the count is an entry of
its own when the minute is over: entries are never changed. Names are chosen by whoever is refused, so only so many of
one address are told apart, and only so many altogether: nobody fills the disk.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from aiosched.core.audit.actor import actor
from aiosched.db.audit.entries import NewEntry, record_all, row_of
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database

MOST_OF_AN_ADDRESS: Final = 20  # that are told apart within a minute
MOST: Final = 500
MANY: Final = "(several)"

# What is over is taken in the order of the keys; a minute that someone else is writing down is left to them.
WRITE_DOWN: Final = """
    WITH over AS (
        DELETE FROM audit_repeated WHERE key IN (
            SELECT key FROM audit_repeated WHERE until <= now() ORDER BY key FOR UPDATE SKIP LOCKED)
        RETURNING *
    )
    INSERT INTO audit_log (kind, who, address, object, dag_id, result, detail, times)
    SELECT kind, who, address, object, dag_id, 'refused', detail, times FROM over WHERE times > 0
"""
KNOWN: Final = """
    SELECT count(*) AS all, count(*) FILTER (WHERE address IS NOT DISTINCT FROM $2) AS of_address,
           bool_or(key = $1) IS TRUE AS is_known
      FROM audit_repeated
"""
COUNT: Final = """
    INSERT INTO audit_repeated AS r (key, until, times, kind, who, address, object, dag_id, detail)
    VALUES ($1, now() + interval '1 minute', 0, $2, $3, $4, $5, $6, $7::json)
    ON CONFLICT (key) DO UPDATE SET times = r.times + 1 RETURNING times
"""


async def record_repeated(db: Database, entry: NewEntry) -> None:
    """Add an entry about a refusal, or count it with those like it of this minute."""
    by = entry.by or actor()
    entry = replace(entry, by=by)
    async with db.acquire() as conn:
        await write_down(conn)
        known = await conn.fetchrow(KNOWN, _key(entry), by.address)
        if not known["is_known"] and known["all"] >= MOST:
            by = replace(by, who=MANY, address=MANY, session=None, token=None)
            entry = replace(entry, object=MANY, dag_id=None, detail={}, by=by)
        elif not known["is_known"] and known["of_address"] >= MOST_OF_AN_ADDRESS:
            entry = replace(entry, object=MANY, dag_id=None, detail={})
        kind, who, address, _, _, about, dag_id, _, detail = row_of(entry)
        async with conn.transaction():
            if await conn.fetchval(COUNT, _key(entry), kind, who, address, about, dag_id, detail) == 0:
                await record_all(conn, [entry])


async def write_down(conn: DatabaseConnection) -> None:
    """Add the counts of the minutes that are over. Call it outside a transaction."""
    await conn.execute(WRITE_DOWN)


def _key(entry: NewEntry) -> str:
    kind, who, address, _, _, about, *_ = row_of(entry)
    parts: tuple[Any, ...] = (kind, who, address, about, entry.detail.get("code"))
    return "\n".join(str(part) for part in parts)
