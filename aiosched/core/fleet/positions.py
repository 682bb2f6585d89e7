"""Whether a database is older than what a scheduler has seen stored in it, and what was lost. Pure.

A failover to a replica that was behind, and the restore of a backup, give a database back that is older than what its
schedulers have seen. Each remembers the newest thing that it knows to be stored: a number that it raises with each
renewal of its lease, and the number of the last transaction whose commit was confirmed. The first is in the rows, so a
copy of any kind has it; the second has meaning in one PostgreSQL cluster and its replicas only, and is as fine as
commits are. Neither changes when PostgreSQL is restarted, tables are rewritten or sequences are set.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server of PostgreSQL is in its write-ahead log."""

    system: int  # its cluster and all its replicas
    timeline: int  # each promotion begins another one
    lsn: str


@dataclass(frozen=True, slots=True)
class Position:
    """The newest thing that a scheduler knows to be stored. Instants are by PostgreSQL's clock."""

    fleet: str
    incarnation: int
    renewals: int  # of its lease
    renewed_at: datetime
    number: int | None = None  # of the last transaction that was confirmed
    stored_at: datetime | None = None  # when it was confirmed
    place: Place | None = None  # None: PostgreSQL does not tell
    has_left: bool = False  # it has ended cleanly: its row was deleted

    @property
    def at(self) -> datetime:
        """When it saw something stored last."""
        return max(self.renewed_at, self.stored_at or self.renewed_at)


@dataclass(frozen=True, slots=True)
class Found:
    """What the database says about a position. `renewals` and `renewed_at` are of the row of that incarnation."""

    fleet: str
    former: Collection[str]  # of which fleets it is a copy
    accepts_former: bool  # whether their schedulers may work with it
    at: datetime  # PostgreSQL's clock
    issued: int | None  # the newest incarnation that was issued; None: it is not told
    row_is_there: bool
    renewals: int | None = None
    renewed_at: datetime | None = None
    newest: datetime | None = None  # the newest renewal of any scheduler that is not later than the position
    commit: str | None = None  # what became of the transaction: committed, aborted, in progress, or ahead: not begun
    place: Place | None = None
    first_number: int | None = None  # the next one when a scheduler met the timeline first


@dataclass(frozen=True, slots=True)
class LostSpan:
    """What was stored between two instants is gone, or some of it. `begin` None: from an unknown instant on."""

    begin: datetime | None
    end: datetime


_UNDONE: Final = frozenset({"aborted", "in progress", "ahead"})  # what a transaction that was confirmed never is


def is_foreign(fleet: str, found: Found) -> bool:
    """Whether it is a copy of the database of `fleet`, and nobody has said that its schedulers may work with it."""
    return fleet in found.former and found.fleet != fleet and not found.accepts_former


def _is_undone(seen: Position, found: Found) -> bool:
    """Whether the transaction that was confirmed is not there. In another cluster its number means nothing."""
    before, now = seen.place, found.place
    if before is None or now is None or before.system != now.system:
        return False
    if found.commit in _UNDONE:
        return True
    if before.timeline == now.timeline or seen.number is None or found.first_number is None:
        return False
    return seen.number >= found.first_number  # others have used its number since


def lost_since(seen: Position, found: Found) -> LostSpan | None:
    """What of the things seen was lost; None if the database has all of them, or never had any."""
    if found.fleet != seen.fleet and seen.fleet not in found.former:
        return None
    begin = found.newest
    if found.row_is_there and (seen.has_left or (found.renewals is not None and found.renewals < seen.renewals)):
        begin = found.renewed_at or begin
    elif not found.row_is_there and found.issued is not None and found.issued < seen.incarnation:
        pass  # the row is gone, and not because others have taken over: the number was not issued yet
    elif not _is_undone(seen, found):
        return None
    return LostSpan(None if begin is None else min(begin, seen.at), seen.at)
