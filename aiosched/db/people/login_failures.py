"""Counters of failed logins, shared by all web servers. Makes no decisions: aiosched/web/auth/login_limits.py does.

A counter that nothing was added to for a day is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database

# Rounded up to whole seconds. Index: primary key.
WAIT: Final = """
    SELECT ceil(extract(epoch FROM max(until) - now()))::int FROM login_failure
     WHERE key = ANY($1::text[]) AND until > now()
"""
# Sorted, so that two logins at once lock the rows in one order.
COUNT: Final = """
    WITH old AS (DELETE FROM login_failure WHERE last_at < now() - interval '1 day')
    INSERT INTO login_failure AS f (key, failures, last_at, until)
    SELECT key, 1, now(), now() FROM unnest($1::text[]) AS key ORDER BY key
    ON CONFLICT (key) DO UPDATE
       SET last_at = now(),
           failures = CASE WHEN f.last_at < now() - interval '1 day' THEN 1 ELSE f.failures + 1 END
    RETURNING key, failures
"""
DELAY: Final = """
    UPDATE login_failure AS f SET until = now() + make_interval(secs => w.seconds)
      FROM unnest($1::text[], $2::float8[]) AS w (key, seconds) WHERE f.key = w.key
"""
FORGIVE: Final = "DELETE FROM login_failure WHERE key = ANY($1::text[])"


async def seconds_to_wait(db: Database, keys: Sequence[str]) -> int:
    """Whole seconds until the next attempt is allowed; 0: now."""
    return int(await db.fetchval(WAIT, list(keys)) or 0)


async def count(conn: DatabaseConnection, keys: Sequence[str]) -> dict[str, int]:
    """Count an attempt as failed; how many failures each counter has now."""
    return {row["key"]: row["failures"] for row in await conn.fetch(COUNT, sorted(keys))}


async def delay(conn: DatabaseConnection, waits: Mapping[str, float]) -> None:
    """Allow the next attempt after so many seconds."""
    await conn.execute(DELAY, list(waits), list(waits.values()))


async def forgive(db: Database, keys: Sequence[str]) -> None:
    """Forget these counters: the attempt succeeded."""
    await db.execute(FORGIVE, list(keys))
