"""Which scheduler goes first when several need slots of one pool.

Each scheduler publishes its *demand* in the pool's row: what its first candidate needs, and an upper bound of what all
of them need. A scheduler that holds the pool's lock and finds open slots compares the demands: it leaves slots to those
that go first, and takes the rest. So the best waiting task of the whole fleet gets a slot without any scheduler reading
the queue of another. A demand can name too many slots (an upper bound), but never too good a place: a slot that was
reserved and not needed is passed on, and no slot is taken from a better task.

Between equal tasks of two schedulers, the one that has waited a second longer goes first: they take turns.
Source: the semantics reference, sections 17 and 18.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_MOST: Final = 2**31 - 1
TURN: Final = 1.0  # seconds for which a scheduler takes further slots while an equal task of another one waits


class DemandPlace(NamedTuple):
    """The place of a candidate among those of all schedulers.

    `since` is the second since which it has been passed over: for an overdue one this candidate, otherwise all
    candidates of its scheduler for the pool. Seconds of the reader's clock.
    """

    overdue: bool  # was passed over for too long: goes before all candidates that were not
    weight: int
    since: float

    def precedes(self, other: DemandPlace) -> bool:
        """Whether this place, of a candidate in another scheduler, goes before `other`."""
        if self.overdue or other.overdue:
            return self.overdue and (not other.overdue or self.since < other.since)
        if self.weight != other.weight:
            return self.weight > other.weight
        return self.since + TURN < other.since

    @property
    def order(self) -> tuple[bool, float, float]:
        """A sort key: places that go first sort first."""
        return (False, self.since, 0.0) if self.overdue else (True, -self.weight, self.since)


class Demand(NamedTuple):
    """What one scheduler waits for in a pool; it fits every limit but the pool's."""

    place: DemandPlace  # of its first candidate
    need: int  # slots that this candidate needs
    slots: int  # slots that all its candidates need, at most those that the pool has: an upper bound


class CompetingDemand(NamedTuple):
    """Another scheduler, and what it waits for in a pool."""

    incarnation: int
    demand: Demand
    serial: int = 0  # of this demand among its scheduler's


def merged(one: Demand | None, other: Demand, most: int) -> Demand:
    """The demand of a scheduler with both demands; `most` is the number of slots of the pool, -1 for infinite ones."""
    most = most if most >= 0 else _MOST
    if one is None:
        return other._replace(slots=min(other.slots, most))
    first = min(one, other, key=lambda demand: demand.place.order)
    return first._replace(slots=min(one.slots + other.slots, most))
