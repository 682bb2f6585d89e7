"""Pools that several schedulers want: what is told to the others, and what is left to them.

One session's side of core/slots/competing_demands.py. Under the pool's lock it reads the demands of the others from
the pool's row, and stores its own there when it has changed; after the commit it tells those whom it left slots to. One
that was left all it needs and does nothing about it for two seconds (it hangs, or its demand is gone) is not
waited for any longer, until its demand changes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

import msgspec

from aiosched.core.slots.allocation import PoolRoom
from aiosched.core.slots.competing_demands import CompetingDemand, Demand, DemandPlace
from aiosched.db.statements.journal import PoolRow

PATIENCE: Final = 2.0  # seconds
_SAY_AGAIN: Final = 0.02  # seconds; another one may have been quicker, and there are slots again

_decode: Final = msgspec.json.Decoder(dict[str, tuple[bool, int, float, int, int, int]]).decode


class _Left(NamedTuple):
    """Slots that a rival found open for its demand in each of our passes."""

    serial: int
    since: float
    seen: float  # in the last one
    told: float  # when we said so last

    def goes_on(self, serial: int, now: float) -> bool:
        return self.serial == serial and now <= self.seen + PATIENCE


@dataclass(slots=True)
class PoolFairness:
    """See the module docstring. All seconds are of the session's clock, those in rows of the database's."""

    incarnation: int
    told: dict[str, Demand] = field(default_factory=dict)  # by pool: our demands as the rows have them
    _left: dict[tuple[str, int], _Left] = field(default_factory=dict)  # by pool and to whom
    _ignored: dict[tuple[str, int], int] = field(default_factory=dict)  # whose demand, by its serial
    _serials: Iterator[int] = field(default_factory=count)  # a demand that says the same may be another one

    def competing_demands(self, name: str, row: PoolRow, now: float) -> list[CompetingDemand]:
        """The others that wait for slots of the pool, the first first."""
        found = []
        for number, (overdue, weight, since, need, slots, serial) in _decode(row.demands).items():
            if (incarnation := int(number)) == self.incarnation or self._is_ignored((name, incarnation), serial, now):
                continue
            demand = Demand(DemandPlace(overdue, weight, now - (row.read_at - since)), need, slots)
            found.append(CompetingDemand(incarnation, demand, serial))
        return sorted(found, key=lambda competing_demand: competing_demand.demand.place.order)

    def _is_ignored(self, offer: tuple[str, int], serial: int, now: float) -> bool:
        """Whether a rival was left slots for this demand, pass after pass, and does nothing about it."""
        if self._ignored.get(offer) == serial:
            return True
        left = self._left.get(offer)
        if left is None or not left.goes_on(serial, now) or now < left.since + PATIENCE:
            return False
        self._ignored[offer] = serial
        return True

    def changes(
        self, demands: Mapping[str, Demand], rows: Mapping[str, PoolRow], now: float, *, served: Collection[str]
    ) -> dict[str, str | None]:
        """What the rows of the pools are to say of us (None: nothing any more), where they say something else.

        From those in `served` we have just got slots: what we wait for there is something new.
        """
        changed: dict[str, str | None] = {}
        for name, demand in demands.items():
            if self.told.get(name) != demand or name in served:
                place, need, slots = demand
                since = rows[name].read_at - (now - place.since)
                changed[name] = msgspec.json.encode(
                    (place.overdue, place.weight, since, need, slots, next(self._serials))
                ).decode()
        changed |= dict.fromkeys(self.told.keys() - demands.keys())
        self.told = dict(demands)
        return changed

    def winners(
        self, pools: Mapping[str, PoolRoom], competing_demands: Mapping[str, Collection[CompetingDemand]], now: float
    ) -> set[int]:
        """Those to be told that slots were left to them."""
        told: set[int] = set()
        left = {offer: before for offer, before in self._left.items() if offer[0] not in pools}
        for name, pool in pools.items():
            pool.make_way(None)
            for incarnation in pool.winners:
                offer = name, incarnation
                serial = next(
                    competing_demand.serial
                    for competing_demand in competing_demands[name]
                    if competing_demand.incarnation == incarnation
                )
                before = self._left.get(offer)
                if before is None or not before.goes_on(serial, now):
                    before = _Left(serial, now, now, -math.inf)
                if now >= before.told + _SAY_AGAIN:
                    told.add(incarnation)
                    before = before._replace(told=now)
                left[offer] = before._replace(seen=now)
        self._left = left
        return told
