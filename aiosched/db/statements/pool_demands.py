"""Statements on `pool.demands`: what each scheduler waits for in a pool, by its incarnation.

Written and read under the lock of the pool's row, so a scheduler that assigns slots knows all of them. The values are
JSON, `[overdue, weight, since, need, slots, serial]` with `since` in seconds since 1970 by PostgreSQL's clock; see
core/slots/competing_demands.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiosched.db.server.connection import DatabaseConnection

STORE_DEMANDS: Final = """
    UPDATE pool AS p
       SET demands = CASE WHEN d.demand IS NULL THEN p.demands - $1::text
                          ELSE p.demands || jsonb_build_object($1::text, d.demand::jsonb) END
      FROM unnest($2::text[], $3::text[]) AS d (name, demand)
     WHERE p.name = d.name
"""


async def store_demands(conn: DatabaseConnection, incarnation: int, demands: Mapping[str, str | None]) -> None:
    """Store what a scheduler waits for in these pools (None: nothing). Their rows are locked already."""
    await conn.execute(STORE_DEMANDS, str(incarnation), list(demands), list(demands.values()))


# Pools are locked by name, as everywhere.
WITHDRAW_DEMANDS: Final = """
    UPDATE pool SET demands = demands - $1::text
     WHERE name IN (SELECT name FROM pool WHERE demands ? $1::text ORDER BY name FOR UPDATE)
"""


async def withdraw_demands(conn: DatabaseConnection, incarnation: int) -> None:
    """Remove all demands of a scheduler that has ended, or starts again."""
    await conn.execute(WITHDRAW_DEMANDS, str(incarnation))
