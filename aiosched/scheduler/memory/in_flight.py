"""How many attempts are in flight, by state and by pool: the figures of a scheduler.

Counting walks all of them. So the more there are the less often they are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from aiosched.core.values.states import TaskState
from aiosched.scheduler.attempts.attempts import Attempts
from aiosched.scheduler.memory.cache import StateCache

A_SECOND: Final = 10_000  # attempts that may be walked, on average


@dataclass(slots=True)
class InFlight:
    """The counts, as of `at` (a monotonic second)."""

    at: float = 0.0
    walked: int = 0
    queued: int = 0
    running: int = 0
    oldest_queued: float | None = None  # since this monotonic second
    pools: dict[str, dict[str, int]] = field(default_factory=dict)  # slots, by pool and state

    def count(self, attempts: Attempts, cache: StateCache, now: float) -> None:
        """Count again, unless the last counting was expensive and is not old."""
        if now - self.at < self.walked / A_SECOND - 1.0:
            return
        self.at, self.walked = now, len(attempts.in_flight)
        self.queued = self.running = 0
        self.oldest_queued, self.pools = None, {}
        for key, since in attempts.in_flight.items():
            if (found := cache.find(key)) is None:
                continue
            board, instance = found
            task = board.graph.tasks[key.task_index]
            slots = self.pools.setdefault(task.pool, {"queued": 0, "running": 0})
            if instance.state is TaskState.QUEUED:
                self.queued += 1
                slots["queued"] += task.pool_slots
                self.oldest_queued = since if self.oldest_queued is None else min(self.oldest_queued, since)
            else:
                self.running += 1
                slots["running"] += task.pool_slots
