"""A session: one run of the scheduler's loops, from loading its partitions until memory can no longer be trusted.

It holds what the loops share. When the database fails in the middle of something, the session ends and a new one
reads everything again. Running attempts and their reports outlive it (they belong to `Attempts`). What
follows a commit is in effects/after_commit.py.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Protocol

from aiosched.core.run.board import Board
from aiosched.core.values.states import TaskState
from aiosched.db.statements.run_changes import WATCH_SECONDS
from aiosched.scheduler.attempts.attempts import Attempts
from aiosched.scheduler.concurrency.period import Period
from aiosched.scheduler.concurrency.wakeup import Wakeup, Wakeups
from aiosched.scheduler.memory.cache import StateCache
from aiosched.scheduler.memory.changes import Changes
from aiosched.scheduler.memory.decision_context import DecisionContext
from aiosched.scheduler.memory.outbox import Outbox
from aiosched.scheduler.memory.pool_fairness import PoolFairness
from aiosched.scheduler.memory.trigger_queue import TriggerQueue
from aiosched.scheduler.session.environment import SchedulerEnvironment

logger: logging.Logger = logging.getLogger(__name__)

_LAZY_SECONDS: Final = 0.25
A_SECOND: Final = 10_000  # attempts that may be walked, on average


@dataclass(slots=True)
class Locks:
    """What synchronises the loops: one lock and three events."""

    ownership: asyncio.Lock = field(default_factory=asyncio.Lock)  # held to create runs, and to load or give away DAGs
    loaded: asyncio.Event = field(default_factory=asyncio.Event)  # set while no partitions are being loaded
    ready: asyncio.Event = field(default_factory=asyncio.Event)  # set once the session's partitions are loaded
    progress: asyncio.Event = field(default_factory=asyncio.Event)  # set after each commit and each check


@dataclass(slots=True)
class Background:
    """Short fire-and-forget tasks that run beside the loops; their failures are logged."""

    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` as a task called `name`."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("%s: %s", task.get_name(), error)


@dataclass(slots=True)
class Membership:
    """The place of this scheduler in the fleet."""

    pool_fairness: PoolFairness  # towards other schedulers that need slots of the same pools
    draining: bool = False  # it claims and creates nothing more
    keeps_until: float = 0.0  # the monotonic second: a view of the fleet from before takes no partition away
    has_peers: bool = False
    gained_at: float = 0.0  # the monotonic second at which partitions were acquired last
    given_back: dict[int, float] = field(default_factory=dict)  # partitions released, at this monotonic second


@dataclass(slots=True)
class Notifications:
    """What was announced by NOTIFY and not read yet."""

    changed_dags: set[int] = field(default_factory=set)  # partitions with changed DAGs
    reload_from: float = 0.0  # the monotonic second from which on they may be read again
    has_requests: bool = True  # there may be requests in the inbox
    has_reports: bool = False  # other schedulers, or workers on engines, have sent reports
    safety_poll: Period = field(default_factory=Period)  # of reading everything, in case a notification was lost


@dataclass(slots=True)
class ChangedRuns:
    """Which runs have changed since the last broadcast to browsers, while a browser watches."""

    wakeup: Wakeup
    changed: set[int] = field(default_factory=set)  # keys of runs
    until: float = 0.0  # monotonic second until which browsers watch

    def wanted(self) -> None:
        """A web server has announced that a browser watches."""
        self.until = time.monotonic() + WATCH_SECONDS

    def add_batch(self, batch: Changes) -> None:
        """Remember the runs that a committed batch has changed."""
        if time.monotonic() <= self.until:
            self.add_runs(change.run_id for change in batch.tasks.instances)
            self.add_runs(change.id for change in batch.runs.changed)

    def add_runs(self, keys: Iterable[int]) -> None:
        """Remember runs whose rows were changed by a separate commit."""
        if time.monotonic() <= self.until:
            self.changed.update(keys)
            if self.changed:
                self.wakeup.wake()


@dataclass(slots=True)
class LazyStarts:
    """Starts of attempts that wait briefly for another commit; one that none includes gets its own."""

    cache: StateCache
    enqueueing: Wakeup
    _boards: dict[Board, None] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None

    def add(self, board: Board) -> None:
        """The board has starts to store."""
        self._boards[board] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LAZY_SECONDS, self._store)

    def cancel(self) -> None:
        """Store nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _store(self) -> None:
        self._timer = None
        boards, self._boards = self._boards, {}
        for board in boards:
            if board.effects.rows.lazy and board.run.key in self.cache.boards:
                self.cache.unstored.dirty[board] = None
        if self.cache.unstored.dirty:
            self.enqueueing.wake()


@dataclass(slots=True)
class InFlight:
    """How many attempts are in flight, by state and by pool, as of `at` (a monotonic second): figures of a scheduler.

    Counting walks all of them. So the more there are the less often they are counted.
    """

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
