"""Instants that Python cannot hold: `infinity`, and years outside 1 to 9999.

PostgreSQL can store them and asyncpg fails to decode them, so that one such row would fail every statement that reads
it, and with it everything else that the statement reads. Our connections read the nearest instant that Python holds.
As in asyncpg, `infinity` is the last instant of all, and the first one is `-infinity`; but both have a time zone, like
every other instant. This costs nothing: asyncpg's own codec converts each value to UTC first, and is slower.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiosched.core.values.instants import FIRST, LAST

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LEAST, _MOST = (FIRST - _EPOCH) // _MICROSECOND, (LAST - _EPOCH) // _MICROSECOND
_BEFORE_ALL, _AFTER_ALL = -(2**63), 2**63 - 1  # how PostgreSQL sends -infinity and infinity


async def read_any_instant(conn: Any) -> None:
    """Let a connection of asyncpg read every instant. Costs no round trip: the type is one of PostgreSQL's own."""
    await conn.set_type_codec("timestamptz", schema="pg_catalog", encoder=_encode, decoder=_decode, format="tuple")


def _decode(stored: tuple[int]) -> datetime:
    try:
        return _EPOCH + timedelta(0, 0, stored[0])
    except OverflowError:
        return LAST if stored[0] > 0 else FIRST


def _encode(value: datetime) -> tuple[int]:
    """As asyncpg does, a value without a time zone is taken to be local time."""
    aware = value if value.tzinfo is not None else value.astimezone()
    microseconds = (aware - _EPOCH) // _MICROSECOND
    if _LEAST < microseconds < _MOST:
        return (microseconds,)
    return (_AFTER_ALL if microseconds > 0 else _BEFORE_ALL,)
