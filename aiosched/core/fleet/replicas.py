"""How old a replica of the database is, and whether it is one. Pure.

The position of a server in the write-ahead log says what it has: a replica that has replayed a position has everything
that was stored before the primary was there. So what somebody must see, his own change or a patch that his page has
received, is a position; and how old a replica may be is the position at which the primary was then. Instants are of one
monotonic clock, in seconds: clocks of machines need not agree.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import Final

MOST_BEHIND: Final = 10.0  # seconds; a replica that is further behind is not read

_POSITION: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_PAGE: Final = 8192  # bytes of the log
_HEADER: Final = 40  # bytes at most, at the beginning of a page


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A database, and where its server is in the write-ahead log: what a replica has replayed, a primary has begun."""

    system: int  # its cluster and all its replicas
    timeline: int
    database: int  # its oid
    is_replica: bool
    position: int


def read_position(text: str) -> int | None:
    """A position as PostgreSQL and `shown_position` write it, `16/B374D848`; None for any other text."""
    found = _POSITION.fullmatch(text)
    return None if found is None else int(found[1], 16) << 32 | int(found[2], 16)


def shown_position(position: int) -> str:
    """As PostgreSQL reads it. Of the same length for all, so that of two texts the greater is the later."""
    return f"{position >> 32:08X}/{position & 0xFFFFFFFF:08X}"


def needed_position(begun: int) -> int:
    """What a replica has replayed that has everything, where a primary has begun with the log at `begun`.

    Behind the end of a page, and after the log was switched, the next record begins after a header, which nobody
    replays alone. A record that ends within these bytes began on the page before: with the end of that it is replayed.
    """
    return begun - begun % _PAGE if begun % _PAGE <= _HEADER else begun


def difference(primary: LogPlace, other: LogPlace) -> str | None:
    """Why positions of the two say nothing about each other; None: they are the same database."""
    if primary.system != other.system:
        return "it belongs to another cluster: a copy, or a logical replica"
    if primary.database != other.database:
        return "it is another database of that server"
    if primary.timeline != other.timeline:
        return f"it follows timeline {other.timeline}, and the primary is in timeline {primary.timeline}"
    return None


class PassedPositions:
    """When the primary had which position, for as long as that is asked."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, at: float, position: int) -> None:
        """The primary was asked at the instant `at`, later than the last one, and has said this."""
        self._seen.append((at, needed_position(position)))
        while len(self._seen) > 1 and self._seen[1][0] < at - 2 * MOST_BEHIND:
            self._seen.popleft()

    def forget(self) -> None:
        """The positions are those of another server than the next ones."""
        self._seen.clear()

    def is_young(self, now: float) -> bool:
        """Whether too little is known to say that something is more than `MOST_BEHIND` behind."""
        return not self._seen or now - self._seen[0][0] < MOST_BEHIND

    def least(self, now: float) -> int | None:
        """The position that a replica must have now, to be at most `MOST_BEHIND` behind; None: nobody can tell."""
        return next((position for at, position in self._seen if now - at <= MOST_BEHIND), None)

    def behind(self, position: int, now: float) -> float | None:
        """How many seconds what a replica shows is older than the primary, at most; None: longer than is known."""
        newest = next((at for at, passed in reversed(self._seen) if passed <= position), None)
        return None if newest is None else now - newest
