"""A session: one run of the scheduler's loops, from loading its partitions until memory can no longer be trusted.

It holds what the loops share. When the database fails in the middle of something, the session ends and a new one
reads everything again. Running attempts and their reports outlive it (they belong to `Attempts`). What
follows a commit is in effects/after_commit.py.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from aiosched.scheduler.concurrency.background import Background
from aiosched.scheduler.concurrency.locks import Locks
from aiosched.scheduler.concurrency.wakeup import Wakeups
from aiosched.scheduler.memory.cache import StateCache
from aiosched.scheduler.memory.changed_runs import ChangedRuns
from aiosched.scheduler.memory.changes import Changes
from aiosched.scheduler.memory.decision_context import DecisionContext
from aiosched.scheduler.memory.fleet import Membership, Notifications
from aiosched.scheduler.memory.in_flight import InFlight
from aiosched.scheduler.memory.lazy_starts import LazyStarts
from aiosched.scheduler.memory.outbox import Outbox
from aiosched.scheduler.memory.pool_fairness import PoolFairness
from aiosched.scheduler.memory.trigger_queue import TriggerQueue
from aiosched.scheduler.session.environment import SchedulerEnvironment


class CommitTracing(Protocol):
    """Traces what was committed."""

    def trace(self, batch: Changes, cache: StateCache) -> None:
        """Start and end the spans of what a committed batch has started and finished."""
        ...


@dataclass(slots=True)
class Session:
    """See the module docstring."""

    env: SchedulerEnvironment
    context: DecisionContext
    starts: LazyStarts
    membership: Membership
    changed_runs: ChangedRuns
    tracing: CommitTracing | None
    locks: Locks = field(default_factory=Locks)
    notifications: Notifications = field(default_factory=Notifications)
    outbox: Outbox = field(default_factory=Outbox)
    triggers: TriggerQueue = field(default_factory=TriggerQueue)
    background: Background = field(default_factory=Background)
    in_flight: InFlight = field(default_factory=InFlight)
    cache: StateCache = field(init=False)  # what is held in memory

    def __post_init__(self) -> None:
        self.cache = self.context.cache

    @classmethod
    def begin(cls, env: SchedulerEnvironment, *, tracing: CommitTracing | None, draining: bool) -> Session:
        """A session that has read nothing yet."""
        cache, wakeups = StateCache(), Wakeups()
        cache.waiting.limit = env.settings.scheduler.passed_over_limit
        if hasattr(env.executor, "prepare") and (seconds := env.settings.executor.warm_ahead):
            cache.work.upcoming.ahead = timedelta(seconds=seconds)
        starts = LazyStarts(cache, wakeups.enqueueing)
        context = DecisionContext(
            clock=env.clock, attempts=env.attempts, incarnation=env.incarnation, metrics=env.metrics,
            add_start=starts.add, on_run_end=env.observers.on_run_end, cache=cache, wakeups=wakeups,
        )  # fmt: skip
        membership = Membership(PoolFairness(env.incarnation, env.metrics.count_unreadable), draining)
        return cls(env, context, starts, membership, ChangedRuns(wakeups.broadcast), tracing)

    @property
    def wakeups(self) -> Wakeups:
        """The wake-ups of the loops."""
        return self.context.wakeups

    def has_more_room(self) -> None:
        """Slots of a pool or of an executor may have become free: what waits may fit now."""
        if len(self.cache.waiting):
            self.cache.work.room_changed = True
            self.wakeups.enqueueing.wake()

    def close(self) -> None:
        """End this session: reports whose effects were not committed are applied again in the next one."""
        attempts = self.env.attempts
        reports = (*self.cache.unstored.reports(), *attempts.reports)
        attempts.reports = deque(report for report in reports if report.inbox_id is None)  # remote ones are read again
        self.starts.cancel()
        self.locks.loaded.clear()
        self.locks.ready.clear()
