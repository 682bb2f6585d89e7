"""Instants that Python cannot hold, for people: `infinity`, and years outside 1 to 9999.

PostgreSQL can store them and asyncpg fails to decode them, so that one such row would fail every page that it is on.
A connection for people shows the nearest instant that Python holds. Schedulers keep asyncpg's own codec, which is
written in C. As in asyncpg, `infinity` is the last instant of all, and the first one is `-infinity`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

FIRST: Final = datetime.min.replace(tzinfo=UTC)
LAST: Final = datetime.max.replace(tzinfo=UTC)

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LEAST, _MOST = (FIRST - _EPOCH) // _MICROSECOND, (LAST - _EPOCH) // _MICROSECOND
_BEFORE_ALL, _AFTER_ALL = -(2**63), 2**63 - 1  # how PostgreSQL sends -infinity and infinity


async def show_any_instant(conn: Any) -> None:
    """Let a connection of asyncpg decode every instant. Costs a round trip."""
    await conn.set_type_codec("timestamptz", schema="pg_catalog", encoder=_encode, decoder=_decode, format="tuple")


def _decode(stored: tuple[int]) -> datetime:
    return _EPOCH + timedelta(microseconds=min(max(stored[0], _LEAST), _MOST))


def _encode(value: datetime) -> tuple[int]:
    microseconds = (value.astimezone(UTC) - _EPOCH) // _MICROSECOND
    return ({_LEAST: _BEFORE_ALL, _MOST: _AFTER_ALL}.get(microseconds, microseconds),)
