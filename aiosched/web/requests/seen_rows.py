"""The rows of a list that its reader may see, where no statement can choose them: read in pieces, until they suffice.

So a page, its cursor and its length are those of what can be seen, and nothing tells of the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
Key = TypeVar("Key")

_PIECE: Final = 500  # rows that are read at once


async def first_seen(
    read: Callable[[Key, int], Awaitable[Sequence[T]]],
    seen: Callable[[Sequence[T]], Awaitable[Sequence[T]]],
    name_of: Callable[[T], Key],
    *,
    after: Key,
    limit: int,
) -> list[T]:
    """The first `limit` rows that `seen` leaves, after the name `after`; `read` reads rows after a name."""
    found: list[T] = []
    while len(found) < limit:
        rows = await read(after, _PIECE)
        found += await seen(rows)
        if len(rows) < _PIECE:
            break
        after = name_of(rows[-1])
    return found[:limit]
