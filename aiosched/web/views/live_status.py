"""What every open page is told about its own data, again and again: whether the database answers, whether a scheduler
runs, and whether the machines of schedulers differ. A page that is told nothing for some seconds knows that it has
lost the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from aiosched.clock import Clock
from aiosched.db.queries.schedulers import SchedulerRow
from aiosched.web.views.database_watch import DatabaseWatch
from aiosched.web.views.replica_watch import ReplicaWatch

STATUS_SECONDS: Final = 1.5  # between two messages; a page waits for three (web/ui/lib/freshness.js)

FleetTrouble = Literal["none", "stalled"]


def fleet_trouble(rows: Sequence[SchedulerRow]) -> FleetTrouble | None:
    """Why no scheduler works: none is alive, or the event loops of all are blocked."""
    alive = [row for row in rows if row.alive]
    if not alive:
        return "none"
    return "stalled" if all(row.stalled for row in alive) else None


class LiveStatus:
    """The facts, and the message with them. It has no number: a page that reconnects does not miss it."""

    def __init__(self, watch: DatabaseWatch, clock: Clock, replica: ReplicaWatch | None = None) -> None:
        self._watch, self._clock, self._replica = watch, clock, replica
        self._fleet: tuple[FleetTrouble, datetime] | None = None
        self._machines: tuple[list[str], datetime] | None = None  # how they differ, and since when

    def see(self, rows: Sequence[SchedulerRow]) -> bool:
        """Take over what was read of the schedulers; whether that changes what pages are told."""
        before = self._fleet, self._machines
        found, remarks = fleet_trouble(rows), [text for row in rows for text in row.remarks]
        if found != (self._fleet and self._fleet[0]):
            self._fleet = None if found is None else (found, self._clock.now())
        if remarks != (self._machines[0] if self._machines else []):
            since = self._machines[1] if self._machines else self._clock.now()
            self._machines = (remarks, since) if remarks else None
        return before != (self._fleet, self._machines)

    def forget(self) -> None:
        """The schedulers are not looked at any more."""
        self._fleet = self._machines = None

    def message(self) -> bytes:
        """A server-sent event."""
        outage = self._watch.outage
        facts: dict[str, Any] = {"kind": "status", "at": self._clock.now(), "database": outage, "schedulers": None}
        if self._fleet is not None and outage is None:
            facts["schedulers"] = {"trouble": self._fleet[0], "since": self._fleet[1]}
        if self._machines is not None and outage is None:
            facts["machines"] = {"texts": self._machines[0], "since": self._machines[1]}
        if self._replica is not None and (state := self._replica.state).is_old:
            facts["replica"] = {"behind": state.behind}
        return b"event: status\ndata: " + msgspec.json.encode(facts) + b"\n\n"
