"""One scheduler of a world: its passes, its commits, its attempts. All schedulers share the rows.

A pass is one pass of a loop of the real scheduler (scheduler/loops/evaluation.py, run_creation.py, enqueueing.py).
Schedulers publish their pool demands in the pools' rows, like real ones; each owns its share of the DAGs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from aiosched.core.figures.metrics import Metrics
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.values.ids import PARTITIONS, partition_of
from aiosched.core.values.messages import AttemptKey
from aiosched.core.values.states import TaskState
from aiosched.errors import DagFailure
from aiosched.scheduler.attempts.attempts import Attempts
from aiosched.scheduler.failures.isolation import concerning, failure_of, failures_in
from aiosched.scheduler.loops.evaluation import decide
from aiosched.scheduler.memory.changes import Changes, Committed
from aiosched.scheduler.memory.pool_fairness import PoolFairness
from aiosched.scheduler.memory.trigger_queue import triggers_to_run
from aiosched.scheduler.slots.claiming import claim, claim_with_competitors, room_of
from aiosched.testing.attempts.endings import dies
from aiosched.testing.attempts.executor import ScriptedExecutor
from aiosched.testing.checks import check_commit, check_starts, stalled_runs
from aiosched.testing.decisions import DecisionLog
from aiosched.testing.rows.rows import Rows
from aiosched.testing.world_memory import MemoryContext, WorldClock

Listener = Callable[[Changes, datetime], None]

_POOL_RETRY: Final = timedelta(seconds=0.5)  # until a pool whose slots were left to others is checked again


@dataclass(slots=True)
class Fleet:
    """The shared state of a world's schedulers."""

    clock: WorldClock
    rows: Rows
    decisions: DecisionLog
    parallelism: int  # of each of them
    checked: bool
    listener: Listener | None
    members: list[Member] = field(default_factory=list)
    shrunk: set[str] = field(default_factory=set)  # pools that were made smaller than their use
    lose_commit: bool | None = None  # lose the next commit, before (False) or after (True) it is stored
    incarnations: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def owner_of(self, dag_id: str) -> Member:
        """The scheduler that owns the DAG's partition."""
        partition = partition_of(dag_id)
        return next(member for member in self.members if partition in member.context.partitions)

    def share_out(self, partitions: Iterable[int] = range(PARTITIONS)) -> None:
        """Share unowned partitions out between the schedulers."""
        for member, partition in zip(itertools.cycle(self.members), sorted(partitions), strict=False):
            member.context.partitions |= {partition}

    def lose(self, member: Member) -> None:
        """A scheduler is gone: the others take over its DAGs; if it was the only one, a new one starts at once."""
        member.executor.die()
        self.rows.withdraw_demands(member.context.incarnation)
        if len(self.members) == 1:
            member.restart_as(next(self.incarnations))
            return
        self.members.remove(member)
        self.share_out(member.context.partitions)
        for other in self.members:
            other.renew(None)


class Member:
    """See the module docstring. Its incarnation is a number that is unique in the world, from 1."""

    def __init__(self, fleet: Fleet, executor: ScriptedExecutor) -> None:
        self.fleet: Fleet = fleet
        self.executor: ScriptedExecutor = executor
        self.attempts: Attempts = Attempts(Metrics())
        executor.listen(self.attempts.receive)
        self.attempts.revoke = executor.revoke
        incarnation = next(fleet.incarnations)
        self.context: MemoryContext = MemoryContext.on(fleet.rows, fleet.clock, self.attempts, incarnation)
        self._fairness = PoolFairness(incarnation)
        self._recheck_at: datetime | None = None

    # -- time -------------------------------------------------------------------------------

    def instants(self) -> list[datetime]:
        """When something happens here, apart from scheduled runs."""
        cache, check_at = self.context.cache, self.attempts.stuck_attempts.check_at
        retry_at = self.fleet.rows.quarantine.earliest()
        found = (self.executor.earliest, cache.timers.earliest, check_at, self._recheck_at, retry_at)
        return [instant for instant in found if instant is not None]

    def work(self, now: datetime) -> bool:
        """Make the first pass that has work; returns whether there was one.

        A DAG about which an unforeseen error was raised is in quarantine afterwards.
        """
        try:
            return self._work(now)
        except (DagFailure, ExceptionGroup) as error:
            self.put_into_quarantine(error)
            return True

    def _work(self, now: datetime) -> bool:
        cache, attempts = self.context.cache, self.attempts
        work, unstored = cache.work, cache.unstored
        if is_due(self.fleet.rows.quarantine.earliest(), now):
            self.renew(None)
        elif (
            attempts.reports
            or work.to_evaluate
            or is_due(cache.timers.earliest, now)
            or is_due(attempts.stuck_attempts.check_at, now)
        ):
            decide(self.context, now)
        elif is_due(self.executor.earliest, now):
            self.executor.end_due(now)
        elif work.to_start or work.assets or work.to_find_previous or is_due(work.due_runs.earliest, now):
            self.create_runs()
        elif unstored.is_waiting or work.room_changed or is_due(self._recheck_at, now):
            self.store()
        else:
            return False
        return True

    def store_starts(self) -> None:
        """Store the starts that wait for another commit of their run: a test may read the rows now."""
        starts = list(self.context.starting_late)
        self.context.starting_late.clear()
        for board in starts:
            if board.effects.rows.lazy:
                self.context.cache.unstored.dirty[board] = None

    # -- passes -----------------------------------------------------------------------------

    def create_runs(self) -> list[Run]:
        """One pass of run creation; returns the new runs."""
        still = stalled_runs(self.context) if self.fleet.checked else {}
        created = self.context.create_runs()
        if self.fleet.checked:
            check_starts(self.context, still)
        self.fleet.decisions.created(created, self.fleet.clock.at)
        return created

    def store(self, limit: int | None = None) -> Changes | None:
        """One pass of the critical section, its commit and the effects; None if the commit was lost."""
        fleet, cache = self.fleet, self.context.cache
        cache.work.room_changed, self._recheck_at = False, None
        batch = self._claim(limit)
        if fleet.lose_commit is not None:
            stored, fleet.lose_commit = fleet.lose_commit, None
            if stored and not batch.is_empty:
                self._commit(batch)
            self.renew(batch)
            return None
        committed = Committed(batch) if batch.is_empty else self._commit(batch)
        self._act(committed)
        if fleet.checked:
            contexts = [member.context for member in fleet.members]
            check_commit(self.context, batch, fleet.shrunk, parallelism=fleet.parallelism, contexts=contexts)
        return batch

    def _claim(self, limit: int | None) -> Changes:
        fleet, cache, now = self.fleet, self.context.cache, self.fleet.clock.at
        left = fleet.parallelism - len(self.attempts.in_flight)
        pools, shared = fleet.rows.pools, len(fleet.members) > 1
        keeping = {name for name, pool in pools.items() if pool is not None and pool.include_deferred}
        freed, wanted = cache.slots_given_back(keeping), {*cache.waiting.pools()}
        if shared:
            wanted |= freed.keys() | self._fairness.published.keys()
        needed = {name: row and row._replace(read_at=now.timestamp()) for name in wanted for row in [pools.get(name)]}
        room = room_of(
            needed,
            freed,
            self.executor,
            open=left if limit is None else min(left, limit),
            parallelism=fleet.parallelism,
            knows_starts=True,
        )
        own = self.context.incarnation
        if not shared:
            return claim(cache, room, now, incarnation=own, include_deferred=keeping)
        rows = {name: row for name, row in needed.items() if row is not None}
        return claim_with_competitors(cache, room, now, self._fairness, rows, incarnation=own, include_deferred=keeping)

    def _commit(self, batch: Changes) -> Committed:
        fleet = self.fleet
        committed = fleet.rows.commit(batch, incarnation=self.context.incarnation)
        fleet.decisions.committed(batch, fleet.rows, self.context.cache, fleet.clock.at)
        if fleet.shrunk:
            pools = fleet.rows.pools
            fleet.shrunk = {n for n in fleet.shrunk if (p := pools.get(n)) is not None and p.used > p.slots}
        if fleet.listener is not None:
            fleet.listener(batch, fleet.clock.at)
        return committed

    def _act(self, committed: Committed) -> None:
        """After the commit: hand out claims, stop unwanted attempts, have other schedulers check their work."""
        batch, members = committed.changes, self.fleet.members
        triggers, cache = self.attempts.triggers, self.context.cache
        cache.unstored.storing = None
        for key in batch.effects.cancelled:
            if key in self.attempts.in_flight or key in triggers:
                triggers.discard(key)
                self.executor.end(key, dies("it was stopped on request"))
        if batch.effects.claimed:
            self._hand_out(batch.effects.claimed)
        if batch.effects.triggers:
            self.hand_out_triggers(batch.effects.triggers)
        if batch.messages.asset_events:
            partitions = {partition_of(event.name) for event in batch.messages.asset_events}
            for member in members:
                member.context.cache.work.assets |= partitions
        if batch.effects.finished:
            self.attempts.stuck_attempts.forget({board.run.key for board in batch.effects.finished})
        for board in batch.effects.finished:
            with concerning(board.run.dag_id, "the end of a run"):
                cache.release_run(board)
        for dag_id in committed.paused:
            with concerning(dag_id, "pausing it"):
                cache.pause(dag_id)
        if len(members) > 1 and (batch.pools.demands or any(delta < 0 for delta in batch.pools.deltas.values())):
            for member in members:
                member.context.cache.work.room_changed |= member is not self
        rests = [_POOL_RETRY] if batch.effects.slots_left_to else []
        rests += [timedelta(seconds=seconds) for seconds in batch.effects.next_starts.values()]
        if rests:
            self._recheck_at = self.fleet.clock.at + min(rests)

    def _hand_out(self, claimed: Iterable[tuple[Board, Any]]) -> None:
        attempts = []
        for board, instance in claimed:
            try:
                if instance.state is TaskState.QUEUED:
                    attempts.append(board.attempt(instance))
            except Exception as error:
                raise failure_of(error, board.run.dag_id, "handing out an attempt") from error
        now = self.fleet.clock.monotonic()
        for attempt in attempts:
            self.attempts.in_flight[attempt.key] = now
        self.executor.submit(attempts)
        if self.executor.never_begun:
            self.attempts.stuck_attempts.handed_out(self.fleet.clock.at)

    def hand_out_triggers(self, waiting: Iterable[tuple[Board, Instance]]) -> None:
        """Hand out the triggers of those instances that still wait."""
        triggers = triggers_to_run(waiting, self.attempts)
        self.attempts.triggers.update(trigger.key for trigger in triggers)
        self.executor.submit(triggers)

    # -- its memory -------------------------------------------------------------------------

    def renew(self, lost: Changes | None) -> None:
        """Drop all memory and read the rows again; attempts go on, reports applied in the `lost` batch are repeated."""
        old = self.context
        old.put_back(lost)
        self.fleet.rows.withdraw_demands(old.incarnation)
        self._fairness = PoolFairness(old.incarnation)
        loaded = False
        while not loaded:
            self.context = MemoryContext.on(old.rows, old.clock, old.attempts, old.incarnation)
            self.context.partitions = old.partitions
            try:
                self.context.load()
                loaded = True
            except (DagFailure, ExceptionGroup) as error:
                self._note_failures(error)
        unsent, self.context.unsent = self.context.unsent, []
        self._hand_out(unsent)

    def put_into_quarantine(self, error: Exception) -> None:
        """Go on without the DAGs that an error concerns. Raises it if it concerns no single DAG."""
        self._note_failures(error)
        self.renew(self.context.cache.unstored.storing)

    def _note_failures(self, error: Exception) -> None:
        failures = failures_in(error)
        if not failures:
            raise error
        self.fleet.rows.quarantine.put(failures, self.fleet.clock.at)

    def restart_as(self, incarnation: int) -> None:
        """A new process replaces one that died together with its attempts."""
        for known in (self.attempts.in_flight, self.attempts.triggers, self.attempts.reports):
            known.clear()
        self.context.cache.unstored.pending.effects.reports.clear()
        self.context.cache.unstored.pending.effects.dropped.clear()
        self.context.incarnation = incarnation
        self.renew(None)

    def put_in_flight(self, place: Sequence[int], key: AttemptKey | None) -> None:
        """Make `key` the only attempt of the task instance (run, task, map index) in flight; None: no attempt."""
        self.attempts.in_flight = {k: at for k, at in self.attempts.in_flight.items() if k[:3] != tuple(place)}
        if key is not None:
            self.attempts.in_flight[key] = self.fleet.clock.monotonic()


def is_due(at: datetime | None, now: datetime) -> bool:
    """Whether an instant is reached."""
    return at is not None and at <= now
