"""Pools that several schedulers need: which demands are published to peers, and which slots are left to them.

One session's side of core/slots/competing_demands.py. Under the pool's lock it reads its peers' demands from
the pool's row, and stores its own there when it has changed. After the commit it notifies the peers that it left slots
to. A peer that was left all it needs and does not take it for two seconds (it hangs, or its demand is gone) is ignored
until its demand changes.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

import msgspec

from aiosched.core.slots.allocation import PoolRoom
from aiosched.core.slots.competing_demands import CompetingDemand, Demand, DemandPlace
from aiosched.db.statements.journal import PoolRow
from aiosched.db.statements.pool_demands import read_demands

PATIENCE: Final = 2.0  # seconds
_NOTIFY_AGAIN: Final = 0.02  # seconds; another peer may have been quicker, and slots may be open again

logger: logging.Logger = logging.getLogger(__name__)


class _Left(NamedTuple):
    """Slots that were left to a peer's demand in each of our recent passes."""

    serial: int
    since: float
    last_seen: float  # in the latest of these passes
    notified_at: float

    def continues(self, serial: int, now: float) -> bool:
        return self.serial == serial and now <= self.last_seen + PATIENCE


@dataclass(slots=True)
class PoolFairness:
    """See the module docstring. All seconds are of the session's clock, those in rows of the database's."""

    incarnation: int
    on_unreadable: Callable[[], None] = lambda: None  # called once for each scheduler with unreadable demands
    published: dict[str, Demand] = field(default_factory=dict)  # by pool: our demands as stored in the rows
    _left: dict[tuple[str, int], _Left] = field(default_factory=dict)  # by pool and incarnation
    _ignored: dict[tuple[str, int], int] = field(default_factory=dict)  # serials of ignored demands, by the same
    _unreadable: set[str] = field(default_factory=set)  # incarnations whose demands cannot be read
    _serials: Iterator[int] = field(default_factory=count)  # tell apart successive demands with equal values

    def competing_demands(self, name: str, row: PoolRow, now: float) -> list[CompetingDemand]:
        """The peers' demands for slots of the pool, in order of precedence."""
        found = []
        stored, unreadable = read_demands(row.demands)
        for incarnation, (overdue, weight, since, need, slots, serial) in stored.items():
            if incarnation == self.incarnation or self._is_ignored((name, incarnation), serial, now):
                continue
            demand = Demand(DemandPlace(overdue, weight, now - (row.read_at - since)), need, slots)
            found.append(CompetingDemand(incarnation, demand, serial))
        for number in unreadable.keys() - self._unreadable:
            self._unreadable.add(number)
            self.on_unreadable()
            logger.error(
                "what scheduler %s waits for in pool %s cannot be read: %s; it gets no precedence from this one",
                number, name, unreadable[number],
            )  # fmt: skip
        return sorted(found, key=lambda competing_demand: competing_demand.demand.place.order)

    def _is_ignored(self, offer: tuple[str, int], serial: int, now: float) -> bool:
        """Whether a peer was left slots for this demand in pass after pass and has not taken them."""
        if self._ignored.get(offer) == serial:
            return True
        left = self._left.get(offer)
        if left is None or not left.continues(serial, now) or now < left.since + PATIENCE:
            return False
        self._ignored[offer] = serial
        return True

    def changes(
        self, demands: Mapping[str, Demand], rows: Mapping[str, PoolRow], now: float, *, served: Collection[str]
    ) -> dict[str, str | None]:
        """Our demands to store in the rows of the pools (None: to remove), where they have changed.

        In the pools in `served` we have just got slots, so what we wait for there is a new demand.
        """
        changed: dict[str, str | None] = {}
        for name, demand in demands.items():
            if self.published.get(name) != demand or name in served:
                place, need, slots = demand
                since = rows[name].read_at - (now - place.since)
                changed[name] = msgspec.json.encode(
                    (place.overdue, place.weight, since, need, slots, next(self._serials))
                ).decode()
        changed |= dict.fromkeys(self.published.keys() - demands.keys())
        self.published = dict(demands)
        return changed

    def winners(
        self, pools: Mapping[str, PoolRoom], competing_demands: Mapping[str, Collection[CompetingDemand]], now: float
    ) -> set[int]:
        """The peers to notify that slots were left to them."""
        notified: set[int] = set()
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
                if before is None or not before.continues(serial, now):
                    before = _Left(serial, now, now, -math.inf)
                if now >= before.notified_at + _NOTIFY_AGAIN:
                    notified.add(incarnation)
                    before = before._replace(notified_at=now)
                left[offer] = before._replace(last_seen=now)
        self._left = left
        return notified
