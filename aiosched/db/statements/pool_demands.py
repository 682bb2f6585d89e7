"""Statements on `pool.demands`: what each scheduler waits for in a pool, by its incarnation; and on `pool.starts`.

Written and read under the lock of the pool's row, so a scheduler that assigns slots knows all of them. The values are
JSON, `[overdue, weight, since, need, slots, serial]` with `since` in seconds since 1970 by PostgreSQL's clock; see
core/slots/competing_demands.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from aiosched.db.server.connection import DatabaseConnection

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class StoredDemand(NamedTuple):
    """What a scheduler waits for in a pool, as stored; `since` in seconds since 1970 by PostgreSQL's clock."""

    overdue: bool
    weight: int
    since: float
    need: int
    slots: int
    serial: int


def read_demands(document: str) -> tuple[dict[int, StoredDemand], dict[str, str]]:
    """The demands by incarnation, and separately the reasons why some cannot be read, by their keys.

    A newer aiosched may append values to a demand; they are ignored.
    """
    found: dict[int, StoredDemand] = {}
    unreadable: dict[str, str] = {}
    try:
        demands = _decode(document)
    except msgspec.MsgspecError as error:
        return {}, {"": str(error)}
    for number, values in demands.items():
        try:
            known = values[: len(StoredDemand._fields)]
            found[int(number)] = StoredDemand(*msgspec.convert(known, tuple[bool, int, float, int, int, int]))
        except (msgspec.MsgspecError, TypeError, ValueError, KeyError) as error:
            unreadable[number] = str(error)
    return found, unreadable


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


READ_STARTS: Final = """
    SELECT starts::text, extract(epoch FROM clock_timestamp())::float8 FROM pool WHERE name = $1 AND rate IS NOT NULL
"""


async def read_starts(conn: DatabaseConnection, pool: str) -> tuple[str, float] | None:
    """The recent starts of a pool as stored, and the second since 1970 by PostgreSQL's clock; None without a rate."""
    row = await conn.fetchrow(READ_STARTS, pool)
    return None if row is None else (row[0], row[1])


STORE_STARTS: Final = """
    UPDATE pool AS p SET starts = s.starts::jsonb FROM unnest($1::text[], $2::text[]) AS s (name, starts)
     WHERE p.name = s.name
"""


async def store_starts(conn: DatabaseConnection, starts: Mapping[str, str]) -> None:
    """Store the recent starts of pools with a rate (core/slots/rates.py). Their rows are locked already."""
    await conn.execute(STORE_STARTS, list(starts), list(starts.values()))


# Pools are locked by name, as everywhere.
WITHDRAW_DEMANDS: Final = """
    UPDATE pool SET demands = demands - $1::text
     WHERE name IN (SELECT name FROM pool WHERE demands ? $1::text ORDER BY name FOR UPDATE)
"""


async def withdraw_demands(conn: DatabaseConnection, incarnation: int) -> None:
    """Remove all demands of a scheduler that has ended, or starts again."""
    await conn.execute(WITHDRAW_DEMANDS, str(incarnation))
