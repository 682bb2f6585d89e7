"""One life of the scheduler's loops, from reading its partitions to the next doubt.

A session ties together what the loops share, and carries out what a commit allows: hand
claims to the executor, stop attempts, tell listeners. When the database fails in the
middle of something, the session ends and a new one reads everything again; attempts that
run meanwhile, and their reports, outlive it (they belong to `Attempts`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from aiosched.clock import Clock
from aiosched.config import Settings
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.run.deferral import is_trigger, trigger_key
from aiosched.core.values.messages import AttemptKey, Executor
from aiosched.core.values.states import SUCCEEDED, TaskState
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import CommandResult, announce_applied, notify
from aiosched.db.statements.watchers import WatchedAsset
from aiosched.errors import FencedOut
from aiosched.scheduler.effects.broadcast import Broadcast
from aiosched.scheduler.effects.deadlines import watch_deadlines
from aiosched.scheduler.effects.outbox import Outbox
from aiosched.scheduler.effects.tracing import Tracing, open_tracing
from aiosched.scheduler.effects.triggers import TriggerQueue
from aiosched.scheduler.events import Listener, SchedulerEvent
from aiosched.scheduler.journal.journal import Journal
from aiosched.scheduler.slots.pool_fairness import PoolFairness
from aiosched.scheduler.state.attempts import Attempts as Attempts
from aiosched.scheduler.state.batch import Batch
from aiosched.scheduler.state.cache import StateCache
from aiosched.scheduler.state.metrics import Metrics
from aiosched.scheduler.state.wakeup import Wakeup

logger = logging.getLogger(__name__)

_WANTED: Final = frozenset({TaskState.QUEUED, TaskState.RUNNING})  # of such a task the attempt may go on
_LAZY_SECONDS: Final = 0.25  # a start that no other commit takes along is stored after this


@dataclass(slots=True)
class Session:
    """See the module docstring."""

    db: Database
    settings: Settings
    clock: Clock
    executor: Executor
    attempts: Attempts
    journal: Journal  # the hot path
    command_journal: Journal  # run creation, commands
    incarnation: int
    metrics: Metrics
    trusted: Callable[[], bool]  # whether the lease still holds
    listener: Listener | None = None
    on_run_end: Callable[[Run], None] = lambda _: None
    on_partitions: Callable[[], None] = lambda: None  # the owned partitions have changed
    on_ready: Callable[[], None] = lambda: None  # what is owned has been read
    cache: StateCache = field(default_factory=StateCache)
    outbox: Outbox = field(default_factory=Outbox)
    ownership_lock: asyncio.Lock = field(
        default_factory=asyncio.Lock
    )  # one at a time creates, loads or gives away DAGs
    creation: Wakeup = field(default_factory=Wakeup)
    evaluation: Wakeup = field(default_factory=Wakeup)
    enqueueing: Wakeup = field(default_factory=Wakeup)
    notifications: Wakeup = field(default_factory=Wakeup)
    callbacks: Wakeup = field(default_factory=Wakeup)  # callbacks and deadlines
    retention: Wakeup = field(default_factory=Wakeup)
    lending: Wakeup = field(default_factory=Wakeup)  # attempts that run here for others
    resting_watchers: dict[WatchedAsset, float] = field(default_factory=dict)  # until this monotonic second
    watching: Wakeup = field(default_factory=Wakeup)  # asset watchers
    triggers: TriggerQueue = field(default_factory=TriggerQueue)
    broadcast: Broadcast = field(default_factory=Broadcast)
    tracing: Tracing | None = field(default_factory=open_tracing)
    has_peers: bool = False
    draining: bool = False  # claims and creates nothing more
    unsent: list[tuple[Board, Instance]] = field(default_factory=list)  # queued by us, never handed out
    given_back: dict[int, float] = field(default_factory=dict)  # partitions released, at this monotonic second
    changed_dags: set[int] = field(default_factory=set)  # partitions with news of DAGs
    loaded: asyncio.Event = field(default_factory=asyncio.Event)  # open while no partitions are being loaded
    ready: asyncio.Event = field(default_factory=asyncio.Event)  # its partitions are read
    progress: asyncio.Event = field(default_factory=asyncio.Event)  # something was committed or looked at
    storing: Batch | None = None  # sent, not yet known to be committed
    answering: set[int] = field(default_factory=set)  # requests that are applied in memory and not yet stored
    has_reports: bool = False  # others have sent some
    pool_fairness: PoolFairness = field(init=False)  # towards other schedulers that want slots of the same pools
    _last_look: float = 0.0
    _last_sweep: float = 0.0
    _helpers: set[asyncio.Task[None]] = field(default_factory=set)
    _lazy: asyncio.TimerHandle | None = None
    _not_stored: dict[Board, None] = field(default_factory=dict)  # with starts that wait for the next commit

    def __post_init__(self) -> None:
        self.pool_fairness = PoolFairness(self.incarnation)
        self.cache.waiting.limit = self.settings.scheduler.passed_over_limit

    @property
    def in_flight(self) -> dict[AttemptKey, float]:
        return self.attempts.in_flight

    @property
    def parallelism(self) -> int:
        return self.settings.core.parallelism

    def may_claim(self) -> bool:
        return not self.draining

    @property
    def reading(self) -> set[int]:
        """Reports of other schedulers that are read and not yet done with, by their rows."""
        unapplied = {report.inbox_id for report in self.attempts.reports if report.inbox_id is not None}
        return unapplied.union(self.cache.heard, self.storing.heard if self.storing is not None else ())

    @property
    def wakeups(self) -> tuple[Wakeup, ...]:
        loops = (
            self.creation,
            self.evaluation,
            self.enqueueing,
            self.notifications,
            self.callbacks,
            self.retention,
            self.lending,
        )
        return (*loops, self.broadcast.wakeup, self.watching)

    def wake_all(self) -> None:
        for wakeup in self.wakeups:
            wakeup.wake()

    def news_overdue(self, every: float) -> bool:
        """Whether the last full look at the DAGs is `every` seconds old; begins the next period then."""
        now = self.clock.monotonic()
        if now - self._last_look < every:
            return False
        self._last_look = now
        return True

    def sweep_due(self, every: float) -> bool:
        """Whether it is `every` seconds since unused assets were looked for; begins the next period then."""
        now = self.clock.monotonic()
        if now - self._last_sweep < every:
            return False
        self._last_sweep = now
        return True

    def close(self) -> None:
        """Leave this session: reports whose effects were not committed are applied again in the next one."""
        reports = (*(self.storing.reports if self.storing else ()), *self.cache.applied, *self.attempts.reports)
        self.attempts.reports = deque(report for report in reports if report.inbox_id is None)  # others' are read again
        if self._lazy is not None:
            self._lazy.cancel()
        self.loaded.clear()
        self.ready.clear()

    def absorb(self, board: Board) -> None:
        """Take over a board's effects and wake whoever has work by them."""
        cache = self.cache
        cache.absorb(board)
        if cache.dirty or cache.room_changed:
            self.enqueueing.wake()
        if board.effects.lazy:
            self._not_stored[board] = None
            if self._lazy is None:
                self._lazy = asyncio.get_running_loop().call_later(_LAZY_SECONDS, self._store_lazy)
        if cache.to_start:
            self.creation.wake()
        if cache.to_evaluate:
            self.evaluation.wake()

    def _store_lazy(self) -> None:
        """A start that no other commit took along within a moment gets its own."""
        self._lazy = None
        boards, self._not_stored = self._not_stored, {}
        for board in boards:
            if board.effects.lazy and board.run.key in self.cache.boards:
                self.cache.dirty[board] = None
        if self.cache.dirty:
            self.enqueueing.wake()

    def committed(self, batch: Batch) -> None:
        """Act on what is now stored. Raises FencedOut when the lease ran out meanwhile."""
        if self.storing is batch:
            self.storing = None
        self.progress.set()
        self.broadcast.saw(batch)
        if self.tracing is not None:
            self.tracing.saw(batch, self.cache)
        if (batch.claimed or batch.triggers or self.triggers) and not self.trusted():
            raise FencedOut("The lease of this scheduler ran out before it could start what it had queued.")
        if batch.claimed:
            attempts = [board.attempt(i) for board, i in batch.claimed if i.state is TaskState.QUEUED]
            now = self.clock.monotonic()
            for attempt in attempts:
                self.in_flight[attempt.key] = now
            self.attempts.stuck_attempts.handed_out(self.clock.now())
            self.executor.submit(attempts)
            self.metrics.claimed((instance.scheduled_at for _, instance in batch.claimed), self.clock.now())
        for key in batch.cancelled:
            if key in self.in_flight or key in self.attempts.triggers:
                self.attempts.triggers.discard(key)  # nobody wants to hear of it any more
                self.stop_attempt(key)
        if batch.cancelled and self.cache.elsewhere:
            self._spawn(self._notify_owners("attempts", ()), "tell who runs attempts of ours")
        self.triggers.add(batch.triggers)
        if self.triggers and not self.draining:
            triggers = self.triggers.take(self.attempts, self.settings.scheduler.max_triggers, self.holds)
            self.attempts.triggers.update(trigger.key for trigger in triggers)
            self.executor.submit(triggers)
        if batch.outbox:
            self.outbox.waiting.update((i, p) for i, p in batch.outbox.items() if p in self.cache.partitions)
            self.callbacks.wake()
        watch_deadlines(self, batch.deadlines)
        for dag_id in batch.paused:
            self.cache.pause(dag_id)
            logger.warning("paused: its newest %d runs failed", batch.failing[dag_id], extra={"dag_id": dag_id})
        for report in batch.reports:
            self.metrics.finished[report.outcome] += 1
        if batch.answers:
            self.answering.difference_update(command_id for command_id, _ in batch.answers)
            self._spawn(self._announce([command_id for command_id, _ in batch.answers]), "announce answers")
        if batch.wake:
            self._spawn(self._notify_owners("slots", batch.wake), "tell whom slots were left to")
        if batch.consumers:
            self.assets_changed(batch.consumers)
        if logger.isEnabledFor(logging.INFO):
            _log_round(batch)
        for board in batch.started:
            self.metrics.run_started(board.run.run_after, board.run.start_date)
            self._tell("run_started", board)
        if batch.finished:
            self.attempts.stuck_attempts.forget({board.run.key for board in batch.finished})
        for board in batch.finished:
            self.cache.let_go(board)
            self._tell("run_finished", board)
            self.on_run_end(board.run)
        if batch.finished:
            self.creation.wake()

    def holds(self, board: Board) -> bool:
        """Whether the board is still the one that is held: its partition may have left meanwhile, and come back."""
        return self.cache.boards.get(board.run.key) is board

    def assets_changed(self, partitions: Collection[int]) -> None:
        """Asset events were queued for DAGs of these partitions: look at ours, tell the owners of the others."""
        self.cache.asset_news.update(self.cache.partitions.intersection(partitions))
        self.creation.wake()
        if others := set(partitions) - self.cache.partitions:
            self._spawn(self._notify_owners("assets", others), "tell the owners of asset events")

    def ending(self) -> Iterator[Board]:
        """The runs that have ended in memory, and whose end is not committed yet."""
        yield from self.cache.ended
        if self.storing is not None:
            yield from self.storing.finished

    def answer(self, command: int, result: CommandResult) -> None:
        """Answer a request in the transaction that stores what it did; until then it is not applied again."""
        self.answering.add(command)
        self.cache.answers.append((command, result))
        self.enqueueing.wake()

    def hand_out_unsent(self) -> None:
        """Give the executor what an earlier session had queued and not handed out."""
        unsent, self.unsent = self.unsent, []
        if unsent:
            self.committed(Batch(claimed=unsent))

    def stop_attempt(self, key: AttemptKey) -> None:
        """Ask the executor to end an attempt whose result is not wanted any more."""
        grace = self.settings.core.killed_task_cleanup_time
        self._spawn(self.executor.cancel(key, grace), f"cancel {tuple(key)}")

    def stop_unwanted(self) -> None:
        """Stop what runs here for nobody, once everything is read: the commit that cancelled it was not answered."""
        for key in [*self.in_flight.keys() - self.attempts.remote_attempts.keys(), *self.attempts.triggers]:
            if not self._is_wanted(key):
                self.attempts.triggers.discard(key)
                self.stop_attempt(key)

    def _is_wanted(self, key: AttemptKey) -> bool:
        if (found := self.cache.find(key)) is None:
            return False
        board, instance = found
        if is_trigger(key):
            return instance.state is TaskState.DEFERRED and key == trigger_key(board.key(instance))
        return instance.state in _WANTED and key == board.key(instance)

    async def _announce(self, ids: list[int]) -> None:
        async with self.db.acquire() as conn:
            await announce_applied(conn, ids)

    async def _notify_owners(self, kind: str, partitions: Collection[int]) -> None:
        async with self.db.acquire() as conn:
            await notify(conn, kind, partitions)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._helpers.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._helpers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("%s: %s", task.get_name(), error)

    def _tell(self, kind: str, board: Board) -> None:
        if self.listener is None:
            return
        run = board.run
        seconds = (run.end_date - run.start_date).total_seconds() if run.end_date and run.start_date else None
        done = sum(instance.state in SUCCEEDED for instance in board)
        event = SchedulerEvent(
            kind, self.clock.now(), run.dag_id, run.run_id, run.state, seconds, done, board.total, run.reason
        )
        try:
            self.listener(event)
        except Exception:
            logger.exception("the listener failed on %s", kind, extra={"dag_id": run.dag_id, "run_id": run.run_id})


def _log_round(batch: Batch) -> None:
    """At most one line for a round of scheduling, and none when nothing happened."""
    happened = (
        (len(batch.started), "runs started"),
        (len(batch.claimed), "tasks queued"),
        (len(batch.reports), "tasks reported"),
        (len(batch.finished), "runs ended"),
    )
    words = ", ".join(f"{count} {what}" for count, what in happened if count)
    if words:
        boards = {board for board, _ in batch.claimed} | {*batch.started, *batch.finished}
        runs = {(board.run.dag_id, board.run.run_id) for board in boards}
        about = dict(zip(("dag_id", "run_id"), *runs, strict=True)) if len(runs) == 1 else None
        logger.info(words, extra=about)
