"""The callbacks that wait for delivery, and the timers of deadlines and SLAs: a cache of rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from aiosched.db.statements.deadlines import DeadlineRow
from aiosched.scheduler.state.wakeup import Timers


@dataclass(slots=True)
class SlaTimers:
    """When to check the SLAs of which DAG."""

    _timers: Timers[tuple[str, datetime]] = field(default_factory=Timers)
    _checks: dict[str, datetime] = field(default_factory=dict)

    def check_at(self, dag_id: str, at: datetime) -> None:
        """Check the DAG at `at`, and not before."""
        self._checks[dag_id] = at
        self._timers.add(at, (dag_id, at))

    def due(self, now: datetime) -> list[str]:
        """Remove and return the DAGs to check now."""
        return [dag_id for dag_id, at in self._timers.due(now) if self._checks.get(dag_id) == at]

    @property
    def earliest(self) -> datetime | None:
        """When to check again; there may be nothing to do by then."""
        return self._timers.earliest


@dataclass(slots=True)
class Outbox:
    """See the module docstring."""

    waiting: dict[int, int] = field(default_factory=dict)  # ids of requests, oldest first, and their partitions
    deadlines: Timers[DeadlineRow] = field(default_factory=Timers)
    slas: SlaTimers = field(default_factory=SlaTimers)

    def forget(self, partitions: Collection[int]) -> None:
        """Others deliver the requests of these partitions from now on."""
        self.waiting = {key: partition for key, partition in self.waiting.items() if partition not in partitions}
