"""The callbacks that wait for delivery, and the timers of deadlines and SLAs: a cache of rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from aiosched.db.statements.deadlines import DeadlineRow
from aiosched.db.statements.outbox import WaitingCallback
from aiosched.scheduler.concurrency.wakeup import Timers


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
class WaitingCallbacks:
    """The callbacks that wait, by DAG, each with its partition: those of a DAG in their order, usually oldest first."""

    by_dag: dict[str, dict[int, int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self.by_dag.values()))

    def __bool__(self) -> bool:
        return bool(self.by_dag)

    def add(self, callbacks: Mapping[int, WaitingCallback]) -> None:
        """These wait, behind the others of their DAGs."""
        for number, callback in callbacks.items():
            self.by_dag.setdefault(callback.dag_id, {})[number] = callback.partition

    def get(self, numbers: Collection[int]) -> dict[int, WaitingCallback]:
        """Those of these requests that wait."""
        return {
            number: WaitingCallback(waiting[number], dag_id)
            for dag_id, waiting in self.by_dag.items()
            for number in numbers
            if number in waiting
        }

    def remove(self, number: int, dag_id: str) -> None:
        """This one waits no more."""
        self.by_dag[dag_id].pop(number, None)
        if not self.by_dag[dag_id]:
            del self.by_dag[dag_id]

    def forget(self, partitions: Collection[int]) -> None:
        """Others deliver the requests of these partitions."""
        kept = {
            dag_id: {number: partition for number, partition in waiting.items() if partition not in partitions}
            for dag_id, waiting in self.by_dag.items()
        }
        self.by_dag = {dag_id: waiting for dag_id, waiting in kept.items() if waiting}


@dataclass(slots=True)
class Outbox:
    """See the module docstring."""

    waiting: WaitingCallbacks = field(default_factory=WaitingCallbacks)
    deadlines: Timers[DeadlineRow] = field(default_factory=Timers)
    slas: SlaTimers = field(default_factory=SlaTimers)
