"""All starts that the row of a pool with a rate has ever had in its log, noted by a trigger of the database."""

from __future__ import annotations

import json

from aiosched.db.server.engine import Database

_NOTE = """
    CREATE TABLE noted_starts (number bigserial, pool text, starts jsonb);
    CREATE FUNCTION note_starts() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO noted_starts (pool, starts) VALUES (NEW.name, NEW.starts);
        RETURN NEW;
    END $$;
    CREATE TRIGGER note_starts AFTER UPDATE OF starts ON pool FOR EACH ROW
       WHEN (OLD.starts IS DISTINCT FROM NEW.starts) EXECUTE FUNCTION note_starts();
    GRANT ALL ON noted_starts, noted_starts_number_seq TO PUBLIC
"""


async def note_starts(db: Database) -> None:
    """Begin to note them."""
    await db.execute(_NOTE)


async def noted_starts(db: Database, pool: str) -> list[int]:
    """The instants of all starts in microseconds, in order. Logs must have been too short to be merged."""
    rows = await db.fetch("SELECT starts FROM noted_starts WHERE pool = $1", pool)
    known = {at: number for row in rows for at, number in json.loads(row["starts"])}
    return [at for at, number in sorted(known.items()) for _ in range(number)]


def most_in(starts: list[int], seconds: float) -> int:
    """The most starts in any period of that length."""
    return max((sum(at <= other < at + seconds * 1_000_000 for other in starts) for at in starts), default=0)
