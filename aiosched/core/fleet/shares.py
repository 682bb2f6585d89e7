"""How schedulers share partitions: by their loads, so that no scheduler has much more to do than the others.

Every scheduler makes the same plan from the same rows. A partition weighs its load and a little more, since an idle one
costs something, too. So with equal loads the numbers are equal.

- Free partitions go, the heaviest first, each to the scheduler that has the least.
- A scheduler that has just joined gets its share at once, of busy partitions as of idle ones.
- Otherwise partitions move only if that makes the greatest weight of all schedulers clearly less, a few at once, and
  not before the last move has shown its effect. So nothing moves back and forth.

Source: docs/decisions/0057-partitions-by-load.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from aiosched.core.values.ids import PARTITIONS

IDLE: Final = 1.0  # the weight of a partition whose tasks do nothing, in rows a second
JOINING: Final = 30.0  # seconds after its start in which a scheduler gets its share at once
RESTING: Final = 10.0  # seconds after any partition has changed hands, before others move because of their loads
AT_ONCE: Final = 4  # partitions that one scheduler gives then
CLEARLY: Final = 0.15  # how much less the greatest weight must become, as a part of it …
AT_LEAST: Final = 5.0  # … and in rows a second
_EVEN: Final = 0.05  # two schedulers have the same if their weights differ by less than this part of the greater one
_ORDER: Final = {partition: hashlib.sha256(bytes([partition])).digest() for partition in range(PARTITIONS)}


class PartitionMove(NamedTuple):
    """A partition that one scheduler gives and another takes."""

    partition: int
    giver: int
    taker: int


@dataclass(frozen=True, slots=True)
class Shares:
    """Who has which partition, and what each weighs."""

    living: Sequence[int]  # the schedulers that take part
    owners: Mapping[int, int | None]  # by partition; None: free; who is not in `living` keeps what it has
    loads: Mapping[int, float]  # by partition, in rows a second

    def weight(self, partition: int) -> float:
        return IDLE + max(self.loads.get(partition, 0.0), 0.0)

    def totals(self) -> dict[int, float]:
        """The weight of each living scheduler."""
        totals = dict.fromkeys(sorted(self.living), 0.0)
        for partition, owner in self.owners.items():
            if owner in totals:
                totals[owner] += self.weight(partition)
        return totals

    def with_free_ones(self) -> tuple[Shares, dict[int, int]]:
        """The shares once the free partitions are taken, and who takes each."""
        takers = dict[int, int]()
        free = [partition for partition, owner in self.owners.items() if owner is None]
        if free and (totals := self.totals()):
            for partition in _heaviest_first(free, self):
                taker = min(totals, key=totals.__getitem__)
                takers[partition] = taker
                totals[taker] += self.weight(partition)
        return Shares(self.living, {**self.owners, **takers}, self.loads), takers


def to_even_out(shares: Shares, staying: Collection[int] = ()) -> tuple[list[PartitionMove], float]:
    """The fewest moves that even out the weights, and the greatest weight after them; `staying` cannot move.

    Each goes from who has the most to who has the least, and leaves both with less than that.
    """
    totals, moves = shares.totals(), list[PartitionMove]()
    movable: dict[int, list[int]] = {scheduler: [] for scheduler in totals}
    for partition in _heaviest_first(shares.owners.keys() - set(staying), shares):
        if (owner := shares.owners[partition]) in movable:
            movable[owner].append(partition)
    while totals:
        giver = max(totals, key=totals.__getitem__)
        taker = min(totals, key=totals.__getitem__)
        gap = totals[giver] - totals[taker]
        if gap <= _EVEN * totals[giver] or not movable[giver]:
            break
        partition = max(movable[giver], key=lambda p: min(shares.weight(p), gap - shares.weight(p)))
        weight = shares.weight(partition)
        if weight >= gap * (1 - 1e-9):
            break
        movable[giver].remove(partition)  # none moves twice
        totals[giver] -= weight
        totals[taker] += weight
        moves.append(PartitionMove(partition, giver, taker))
    return moves, max(totals.values(), default=0.0)


def for_joining(shares: Shares, joining: Collection[int], staying: Collection[int] = ()) -> list[PartitionMove]:
    """The moves that give schedulers that have just joined their share, of busy partitions as of idle ones.

    The partitions are dealt, the heaviest first: each stays where it is unless a joining scheduler has less of those
    dealt before, and of all. (`to_even_out` makes the fewest moves, so it would move just the busiest ones, and tasks
    that take long hold slots, however little they weigh.)
    """
    totals, moves = shares.totals(), list[PartitionMove]()
    takers, dealt = sorted(set(joining) & totals.keys()), dict.fromkeys(totals, 0.0)
    for partition in _heaviest_first(shares.owners, shares) if takers else ():
        owner, weight = shares.owners[partition], shares.weight(partition)
        if owner not in dealt:
            continue
        taker = min(takers, key=dealt.__getitem__)
        gap = totals[owner] - totals[taker]
        due = dealt[taker] + weight <= dealt[owner] and gap > _EVEN * totals[owner] and weight < gap * (1 - 1e-9)
        if due and partition not in staying:
            moves.append(PartitionMove(partition, owner, taker))
            totals[owner] -= weight
            totals[taker] += weight
            owner = taker
        dealt[owner] += weight
    return moves


def gives(
    shares: Shares, me: int, *, joining: Collection[int], settled_for: float, staying: Collection[int] = ()
) -> list[int]:
    """The partitions that scheduler `me` gives away now.

    `joining` are the schedulers that joined less than `JOINING` seconds ago. `settled_for` is for how many seconds no
    partition has changed hands. `staying` are partitions of `me` that cannot leave now.
    """
    if len(shares.living) < 2:
        return []
    if moves := for_joining(shares, joining, staying):
        return _of(me, moves)
    totals = shares.totals()
    most = max(totals.values(), default=0.0)
    least_gain = max(CLEARLY * most, AT_LEAST)
    is_even = not totals or most - sum(totals.values()) / len(totals) < least_gain
    if is_even or settled_for < RESTING:
        return []
    moves, remains = to_even_out(shares, staying)
    return _of(me, moves)[:AT_ONCE] if most - remains >= least_gain else []


def _of(me: int, moves: Iterable[PartitionMove]) -> list[int]:
    return [move.partition for move in moves if move.giver == me]


def _heaviest_first(partitions: Iterable[int], shares: Shares) -> list[int]:
    """Among equal ones the order is arbitrary, and the same for all schedulers."""
    return sorted(partitions, key=lambda p: (-shares.weight(p), _ORDER[p]))
