"""Statements about files in remote storage that no XCom refers to: reserved by attempts, or to be removed.

No decisions live here. Triggers on `xcom` keep the table in step with it (migrations/versions).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiosched.db.server.connection import DatabaseConnection

# Entered once, also if the question is asked again.
RESERVE: Final = """
    INSERT INTO unreferenced_xcom (path, run_id, task_index, map_index, try_number, since)
    SELECT path, $2, $3, $4, $5, now() FROM unnest($1::text[]) AS u (path) ON CONFLICT DO NOTHING
"""


async def reserve(conn: DatabaseConnection, paths: Sequence[str], key: tuple[int, int, int, int]) -> None:
    """Enter files that the try (run key, task index, map index, number) is going to write."""
    await conn.execute(RESERVE, paths, *key)


# A reserved file goes once its try is over and has not reported it. An attempt's report can be late, hence $2. Both are
# compared by the database's clock. The rows are locked until the files are removed: nobody else waits for them.
TAKE_UNREFERENCED: Final = """
    DELETE FROM unreferenced_xcom WHERE path = ANY(ARRAY(
        SELECT u.path FROM unreferenced_xcom AS u
         WHERE u.try_number IS NULL AND u.since < now() - make_interval(secs => $1)
            OR u.since < now() - make_interval(secs => $2)
               AND NOT EXISTS (
                    SELECT FROM task_instance AS t
                     WHERE t.run_id = u.run_id AND t.task_index = u.task_index AND t.map_index = u.map_index
                       AND t.try_number = u.try_number
                       AND t.state IN ('queued', 'running', 'deferred', 'up_for_reschedule', 'scheduled'))
         ORDER BY u.since LIMIT $3 FOR UPDATE SKIP LOCKED
    )) RETURNING path
"""


async def take_unreferenced(
    conn: DatabaseConnection, *, released_for: float, reserved_for: float, most: int
) -> list[str]:
    """Delete the rows of files that can be removed, and return their paths; call it inside a transaction.

    `released_for` is how long ago (in seconds) an XCom must have been deleted: attempts may still read it.
    """
    return [row["path"] for row in await conn.fetch(TAKE_UNREFERENCED, released_for, reserved_for, most)]


COUNT_UNREFERENCED: Final = "SELECT count(*) FROM unreferenced_xcom WHERE try_number IS NULL"


async def count_released(conn: DatabaseConnection) -> int:
    """The number of files that are to be removed."""
    number: int = await conn.fetchval(COUNT_UNREFERENCED)
    return number


OVERDUE: Final = """
    SELECT count(*) AS number, extract(epoch FROM now() - min(since))::float8 AS seconds
      FROM unreferenced_xcom WHERE try_number IS NULL AND since < now() - make_interval(secs => $1)
"""


async def overdue(conn: DatabaseConnection, *, released_for: float) -> tuple[int, float]:
    """The number of files that are to be removed for longer than that, and for how many seconds the oldest is."""
    row = await conn.fetchrow(OVERDUE, released_for)
    return row["number"], row["seconds"] or 0.0
