"""Which scheduler goes first when several want slots of one pool.

Each scheduler publishes in the pool's row what it waits for there: its *demand*, which is what its
first candidate wants and how much all of them want at most. The scheduler that holds the pool's lock and finds slots
open compares: it leaves to the others what they come first for, and takes the rest. So the best waiting task of the
whole fleet gets a slot without any scheduler reading the queue of another. A demand may name too many slots (an upper
bound), never too good a place: a slot that was kept for nothing is passed on, and none is taken from a better task.

Between equals of two schedulers, the one that has waited a second longer goes first: they take turns.
Source: the semantics reference, sections 17 and 18.
"""

from __future__ import annotations

from typing import Final, NamedTuple

TURN: Final = 1.0  # seconds that a scheduler goes on taking slots while an equal of another one waits


class DemandPlace(NamedTuple):
    """Where a candidate stands among those of all schedulers.

    `since` is the second from which it has been passed over: an overdue one itself, else all that its
    scheduler wants of the pool. Seconds of the reader's clock.
    """

    overdue: bool  # was passed over for too long: goes before all that were not
    weight: int
    since: float

    def precedes(self, other: DemandPlace) -> bool:
        """Whether this one, which waits in another scheduler, goes before `other`."""
        if self.overdue or other.overdue:
            return self.overdue and (not other.overdue or self.since < other.since)
        if self.weight != other.weight:
            return self.weight > other.weight
        return self.since + TURN < other.since

    @property
    def order(self) -> tuple[bool, float, float]:
        """A sort key: who goes first stands first."""
        return (False, self.since, 0.0) if self.overdue else (True, -self.weight, self.since)


class Demand(NamedTuple):
    """What one scheduler waits for in a pool: it fits every limit but the pool's."""

    place: DemandPlace  # of its first candidate
    need: int  # slots that this one needs
    slots: int  # what all of its candidates need, at most as many as the pool has: an upper bound


class CompetingDemand(NamedTuple):
    """Another scheduler, and what it waits for in a pool."""

    incarnation: int
    demand: Demand
    serial: int = 0  # of this demand among its scheduler's


def merged(one: Demand | None, other: Demand, most: int) -> Demand:
    """The demand of a scheduler that has both; `most` is what the pool has in all."""
    if one is None:
        return other._replace(slots=min(other.slots, most))
    first = min(one, other, key=lambda demand: demand.place.order)
    return first._replace(slots=min(one.slots + other.slots, most))
