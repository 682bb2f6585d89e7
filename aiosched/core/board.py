"""One unfinished run in memory: who may start, who is settled, when the run is done.

Lives here: the states of a run's task instances, the counts of finished upstreams, and
every decision about them, as plain code without I/O; the cost of a decision is
proportional to what changed. Does not live here: trigger rules (trigger_rules.py), who
gets a slot (slots.py), storing what was decided (scheduler/journal.py).

A board is a cache of rows. What its decisions ask others to do is collected in
`Board.effects` until somebody takes it: store the changed rows, queue the ready ones,
set timers, stop attempts.

Source: the semantics reference, sections 2, 4, 7, 9, 21, 22.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from aiosched.core.branching import skipped_by
from aiosched.core.graph import Graph
from aiosched.core.messages import Attempt, AttemptKey, Outcome, Report, RunInfo, XComValue
from aiosched.core.retries import may_retry, retry_delay, retry_seed
from aiosched.core.run_result import judge_run, waits_outside
from aiosched.core.states import (
    FINISHED,
    HOLDING_SLOT,
    SCHEDULABLE,
    RunState,
    TaskEvent,
    TaskState,
    advance,
)
from aiosched.core.trigger_rules import Counts, Verdict, judge, judge_setups
from aiosched.errors import BranchError

MAX_LOSSES: Final = 3
_TICK: Final = timedelta(microseconds=1)  # "strictly later than" for a timer
_SETTLING: Final = {
    Verdict.SKIPPED: TaskEvent.SETTLED_SKIPPED,
    Verdict.UPSTREAM_FAILED: TaskEvent.SETTLED_UPSTREAM_FAILED,
    Verdict.REMOVED: TaskEvent.SETTLED_REMOVED,
}
_EXECUTING: Final = frozenset({TaskState.QUEUED, TaskState.RUNNING})


@dataclass(slots=True, eq=False)
class Instance:
    """One task instance. `stored_*` is what the database has (or has been sent) of it."""

    task: int
    map_index: int = -1
    state: TaskState = TaskState.NONE
    try_number: int = 0
    max_tries: int = 0
    losses: int = 0
    queued_by: int | None = None
    scheduled_at: datetime | None = None
    queued_at: datetime | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    next_at: datetime | None = None
    reason: str | None = None
    stored_state: TaskState = TaskState.NONE
    stored_try: int = 0


@dataclass(slots=True, eq=False)
class Run:
    """A DAG run's row. Instants are aware UTC."""

    key: int
    dag_id: str
    run_id: str
    version_id: int
    run_type: str
    state: RunState
    run_after: datetime
    logical_date: datetime | None = None
    interval_start: datetime | None = None
    interval_end: datetime | None = None
    queued_at: datetime | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    conf: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    backfill_id: int | None = None
    stored_state: RunState = RunState.QUEUED


@dataclass(frozen=True, slots=True)
class FinishedTry:
    """An attempt that the instance's row will not remember: failed or lost."""

    key: AttemptKey
    state: str  # failed, lost
    queued_by: int | None
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    reason: str | None
    details: str | None = None
    hostname: str | None = None
    pid: int | None = None


@dataclass(slots=True)
class Effects:
    """What decisions ask others to do. Instances may stand in several of these."""

    changed: dict[Instance, None] = field(default_factory=dict)  # rows to store
    lazy: dict[Instance, None] = field(default_factory=dict)  # rows that may wait for the next commit
    ready: list[Instance] = field(default_factory=list)  # wait for a slot from now on
    withdrawn: list[Instance] = field(default_factory=list)  # do not wait for a slot any more
    released: list[Instance] = field(default_factory=list)  # gave their slot back
    timers: list[tuple[datetime, Instance]] = field(default_factory=list)  # look again then
    cancelled: list[AttemptKey] = field(default_factory=list)  # attempts to stop
    tries: list[FinishedTry] = field(default_factory=list)
    xcoms: list[tuple[Instance, XComValue]] = field(default_factory=list)
    forget_xcoms: list[Instance] = field(default_factory=list)  # a new try starts without the old values
    run_changed: bool = False

    def __bool__(self) -> bool:
        """Whether something has to be stored now."""
        return bool(self.changed or self.tries or self.xcoms or self.run_changed)


class Board:
    """See the module docstring. `instances` are the run's rows, in any order.

    A task without a row (its own dates exclude the run) counts as absent: nobody waits for it.
    """

    __slots__ = (
        "_alive",
        "_counts",
        "_of_task",
        "_pending",
        "_totals",
        "_unfinished",
        "effects",
        "failed_fast",
        "graph",
        "info",
        "run",
    )

    def __init__(self, graph: Graph, run: Run, instances: Iterable[Instance], *, info: RunInfo) -> None:
        self.graph = graph
        self.run = run
        self.info = info
        self.effects = Effects()
        self.failed_fast = False
        self._of_task: list[tuple[Instance, ...]] = [()] * len(graph.tasks)
        self._counts: list[Counts | None] = [None] * len(graph.tasks)  # None: nothing upstream finished yet
        self._pending: set[int] = set()
        self._unfinished = 0
        self._alive = 0
        finished: list[Instance] = []
        for instance in instances:
            self._of_task[instance.task] += (instance,)
            if instance.state in FINISHED:
                finished.append(instance)
            else:
                self._unfinished += 1
                self._alive += instance.state is not TaskState.NONE
        self._totals = self._count_upstreams()
        for instance in finished:
            self._count(instance.task, instance.state, 1)

    # -- reading ----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Instance]:
        return (instance for group in self._of_task for instance in group)

    def find(self, task: int, map_index: int = -1) -> Instance | None:
        """The instance of a task (and map index), or None."""
        for instance in self._of_task[task]:
            if instance.map_index == map_index:
                return instance
        return None

    def key(self, instance: Instance) -> AttemptKey:
        return AttemptKey(self.run.key, instance.task, instance.map_index, instance.try_number)

    def attempt(self, instance: Instance) -> Attempt:
        """What an executor needs to run the instance's current try."""
        task = self.graph.tasks[instance.task]
        return Attempt(
            key=AttemptKey(self.run.key, instance.task, instance.map_index, instance.try_number),
            run=self.info,
            task_id=task.task_id,
            is_async=task.is_async,
            max_tries=instance.max_tries,
            priority_weight=self.graph.weights[instance.task],
            execution_timeout=task.execution_timeout,
            first_started=instance.start_date,
            executor=task.executor,
        )

    @property
    def finished(self) -> bool:
        return self.run.state in (RunState.SUCCESS, RunState.FAILED)

    @property
    def unfinished(self) -> int:
        return self._unfinished

    @property
    def total(self) -> int:
        return sum(len(group) for group in self._of_task)

    def counts_of(self, task: int) -> tuple[Counts, int]:
        """The finished-upstream counts of a task and how many upstreams there are, for explanations."""
        return self._counts[task] or Counts(), self._totals[task]

    # -- what happens -----------------------------------------------------------------------

    def start(self, now: datetime) -> None:
        """The run starts (or is read back): look at every task."""
        if self.run.state is RunState.QUEUED:
            self.run.state = RunState.RUNNING
            self.run.start_date = now
            self.run.end_date = None
            self.effects.run_changed = True
        self._pending.update(range(len(self.graph.tasks)))

    def resume(self) -> None:
        """Ask again for what the rows of a re-read run wait for: slots and timers."""
        for group in self._of_task:
            for instance in group:
                if instance.state is TaskState.SCHEDULED:
                    self.effects.ready.append(instance)
                elif instance.next_at is not None and instance.state in SCHEDULABLE:
                    self.effects.timers.append((instance.next_at + _TICK, instance))
        self._pending.update(range(len(self.graph.tasks)))

    def wake(self, instance: Instance) -> None:
        """A timer of `instance` is due."""
        if instance.state in SCHEDULABLE:
            self._pending.add(instance.task)

    def grant(self, instance: Instance, now: datetime, incarnation: int) -> None:
        """The critical section gave `instance` a slot."""
        self._set(instance, TaskEvent.SLOT_GRANTED)
        instance.queued_at = now
        instance.queued_by = incarnation
        instance.reason = None

    def keep_waiting(self, instance: Instance, reason: str) -> None:
        """No room for `instance`: its row becomes `scheduled` and keeps the reason."""
        if instance.reason != reason or instance.stored_state is not TaskState.SCHEDULED:
            instance.reason = reason
            self.effects.changed[instance] = None

    def apply(self, report: Report, now: datetime) -> bool:
        """Apply a report; False when it is about an attempt that is over (stale: drop it)."""
        instance = self.find(report.key.task_index, report.key.map_index)
        if (
            instance is None
            or instance.try_number != report.key.try_number
            or instance.state not in _EXECUTING
            or self.finished
        ):
            return False
        outcome = report.outcome
        skipped: frozenset[int] = frozenset()
        if outcome is Outcome.SUCCESS and report.skip is not None:
            try:
                skipped = skipped_by(self.graph, instance.task, report.skip)
            except BranchError as error:
                report = msgspec.structs.replace(report, outcome=Outcome.FAILED, reason=str(error), xcoms=())
                outcome = Outcome.FAILED
        if outcome is Outcome.STARTED:
            if instance.state is TaskState.QUEUED:
                self._set(instance, TaskEvent.STARTED, lazy=True)
                instance.start_date = instance.start_date or report.at
            return True
        if outcome is Outcome.LOST:
            self._lose(instance, report, now)
            return True
        instance.start_date = instance.start_date or report.started_at or report.at
        instance.losses = 0
        if outcome is Outcome.RESCHEDULED:
            self._set(instance, TaskEvent.RESCHEDULED)
            instance.next_at = report.reschedule_at or now
            self.effects.timers.append((instance.next_at, instance))
            return True
        instance.end_date = report.at
        instance.reason = report.reason
        for value in report.xcoms:
            self.effects.xcoms.append((instance, value))
        if outcome is Outcome.SUCCESS:
            self._set(instance, TaskEvent.RETURNED)
            for task in skipped:
                self._skip(task, now, f"skipped by {self.graph.task_ids[instance.task]}")
        elif outcome is Outcome.SKIPPED:
            self._set(instance, TaskEvent.SKIPPED_ITSELF)
        else:
            self._fail(instance, report)
        return True

    def lose(self, instance: Instance, now: datetime, reason: str) -> None:
        """The process of `instance` died with its scheduler."""
        self._lose(instance, Report(key=self.key(instance), outcome=Outcome.LOST, at=now, reason=reason), now)

    def time_out(self, now: datetime) -> None:
        """The run exceeded its `dagrun_timeout` (21.1): it fails, all that is unfinished is skipped."""
        self._abandon(now, reason="timed_out", event=TaskEvent.RUN_TIMED_OUT, because="the run timed out")

    def cancel(self, now: datetime) -> None:
        """A user ends the run as failed (28.5): what runs fails, what waits is skipped."""
        for instance in self._where(_EXECUTING):
            self._stop(instance, now, TaskEvent.MARKED_FAILED, "the run was cancelled")
        self._abandon(now, reason="cancelled", event=TaskEvent.MARKED_SKIPPED, because="the run was cancelled")

    # -- deciding ---------------------------------------------------------------------------

    def evaluate(self, now: datetime) -> None:
        """Decide until nothing more follows: who is ready, who is settled, whether the run is done.

        Doing it twice without news in between changes nothing.
        """
        if self.run.state is not RunState.RUNNING:
            return
        pending = self._pending
        while pending:
            self._decide(pending.pop(), now)
        self._conclude(now)

    def _decide(self, task: int, now: datetime) -> None:
        total = self._totals[task]
        if total:
            counts = self._counts[task]
            if counts is None:
                counts = self._counts[task] = Counts()
            verdict = self._judge_setups(task)
            if not verdict.settles:
                own = judge(self.graph.rules[task], counts, total, self.graph.upstream_setups[task])
                verdict = own if verdict is Verdict.RUN or own.settles else verdict
            if verdict is Verdict.WAIT:
                return
        else:
            verdict = Verdict.RUN
        for instance in self._of_task[task]:
            if instance.state not in SCHEDULABLE:
                continue
            if verdict is Verdict.RUN:
                self._ready(instance, now)
            else:
                self._settle(instance, _SETTLING[verdict], now, None)

    def _judge_setups(self, task: int) -> Verdict:
        """What the setups that are no direct upstreams say (8.3)."""
        setups = self.graph.indirect_setups[task]
        if not setups:
            return Verdict.RUN
        counts, total = Counts(), 0
        for setup in setups:
            for instance in self._of_task[setup]:
                counts.add(instance.state)
                total += 1
        return judge_setups(counts, total)

    def _ready(self, instance: Instance, now: datetime) -> None:
        state, next_at = instance.state, instance.next_at
        if next_at is not None:
            due = next_at < now if state is TaskState.UP_FOR_RETRY else next_at <= now
            if not due:
                return
        if state is not TaskState.UP_FOR_RESCHEDULE:
            if instance.try_number:
                self.effects.forget_xcoms.append(instance)
            instance.try_number += 1
            instance.start_date = instance.end_date = None
        instance.next_at = None
        instance.reason = None
        instance.scheduled_at = now
        if self.graph.tasks[instance.task].is_empty:
            instance.start_date = instance.end_date = now
            self._set(instance, TaskEvent.EMPTY)
            return
        self._set(instance, TaskEvent.READY)
        self.effects.ready.append(instance)

    def _conclude(self, now: datetime) -> None:
        if self._unfinished and self._alive:
            return
        waiting = self._where({TaskState.NONE})
        result = judge_run(
            (instance.state for leaf in self.graph.leaves for instance in self._of_task[leaf]),
            unfinished=self._unfinished,
            armed=not any(waits_outside(self.graph.tasks[instance.task]) for instance in waiting),
            runnable=False,
            failed_fast=self.failed_fast,
        )
        if result.state is not RunState.RUNNING:
            self._end(result.state, now, result.reason)

    def _end(self, state: RunState, now: datetime, reason: str | None) -> None:
        self.run.state = state
        self.run.end_date = now
        self.run.reason = reason
        self.effects.run_changed = True

    # -- changing one instance --------------------------------------------------------------

    def _set(self, instance: Instance, event: TaskEvent, *, lazy: bool = False) -> None:
        old = instance.state
        new = advance(old, event)
        instance.state = new
        effects = self.effects
        if lazy and instance not in effects.changed:
            effects.lazy[instance] = None
        else:
            effects.changed[instance] = None
        if old in HOLDING_SLOT and new not in HOLDING_SLOT:
            effects.released.append(instance)
        elif old is TaskState.SCHEDULED and new is not TaskState.QUEUED:
            effects.withdrawn.append(instance)
        if new in FINISHED:
            if old not in FINISHED:
                self._unfinished -= 1
                self._alive -= old is not TaskState.NONE
                self._count(instance.task, new, 1)
            else:
                self._count(instance.task, old, -1)
                self._count(instance.task, new, 1)
        else:
            if old in FINISHED:
                self._unfinished += 1
                self._alive += new is not TaskState.NONE
                self._count(instance.task, old, -1)
            else:
                self._alive += (new is not TaskState.NONE) - (old is not TaskState.NONE)
            if new is TaskState.NONE:
                self._pending.add(instance.task)

    def _count(self, task: int, state: TaskState, step: int) -> None:
        is_setup = self.graph.tasks[task].is_setup
        for downstream in self.graph.downstream[task]:
            counts = self._counts[downstream]
            if counts is None:
                counts = self._counts[downstream] = Counts()
            counts.add(state, is_setup=is_setup, by=step)
            self._pending.add(downstream)

    def _settle(self, instance: Instance, event: TaskEvent, now: datetime, reason: str | None) -> None:
        """A state without a run of the task (2.4): start = end = now where empty."""
        instance.start_date = instance.start_date or now
        instance.end_date = now
        instance.next_at = None
        instance.reason = reason
        self._set(instance, event)

    def _skip(self, task: int, now: datetime, reason: str) -> None:
        for instance in self._of_task[task]:
            if instance.state not in FINISHED and instance.state is not TaskState.RUNNING:
                if instance.state is TaskState.QUEUED:
                    self.effects.cancelled.append(self.key(instance))
                self._settle(instance, TaskEvent.SETTLED_SKIPPED, now, reason)

    def _stop(self, instance: Instance, now: datetime, event: TaskEvent, reason: str) -> None:
        if instance.state in _EXECUTING:
            self.effects.cancelled.append(self.key(instance))
        self._settle(instance, event, now, reason)

    def _fail(self, instance: Instance, report: Report) -> None:
        task = self.graph.tasks[instance.task]
        if not report.fail_now and may_retry(instance.try_number, instance.max_tries):
            self._remember_try(instance, "failed", report)
            delay = retry_delay(
                task.retry_delay,
                failed_try=instance.try_number,
                multiplier=task.retry_exponential_backoff,
                maximum=task.max_retry_delay,
                seed=retry_seed(self.run.dag_id, task.task_id, self.run.run_id, instance.map_index),
            )
            instance.next_at = report.at + timedelta(seconds=delay)
            self._set(instance, TaskEvent.FAILED_RETRYABLE)
            self.effects.timers.append((instance.next_at + _TICK, instance))
            return
        self._fail_finally(instance, report)

    def _fail_finally(self, instance: Instance, report: Report) -> None:
        self._remember_try(instance, "failed", report)
        self._set(instance, TaskEvent.FAILED_FINALLY)
        if self.graph.spec.fail_fast:
            self._fail_fast(instance, report.at)

    def _fail_fast(self, failed: Instance, now: datetime) -> None:
        """22.5 and decision 13: the others end too, teardowns and mapped siblings apart."""
        self.failed_fast = True
        because = f"{self.graph.task_ids[failed.task]} failed (fail_fast)"
        spared = {TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.REMOVED}
        for group in self._of_task:
            for instance in group:
                if (
                    instance.task == failed.task
                    or instance.state in spared
                    or self.graph.tasks[instance.task].is_teardown
                ):
                    continue
                running = instance.state is TaskState.RUNNING
                event = TaskEvent.FAIL_FAST_RUNNING if running else TaskEvent.FAIL_FAST_WAITING
                self._stop(instance, now, event, because)

    def _lose(self, instance: Instance, report: Report, now: datetime) -> None:
        """A lost attempt does not spend the user's retries; three in a row fail the task (decision 17)."""
        instance.losses += 1
        if instance.losses >= MAX_LOSSES:
            instance.end_date = now
            instance.reason = f"lost {instance.losses} times in a row: {report.reason or 'its worker died'}"
            self._fail_finally(instance, report)
            return
        self._remember_try(instance, "lost", report)
        instance.max_tries += 1
        instance.queued_by = None
        self._set(instance, TaskEvent.LOST)

    def _abandon(self, now: datetime, *, reason: str, event: TaskEvent, because: str) -> None:
        for group in self._of_task:
            for instance in group:
                if instance.state not in FINISHED:
                    self._stop(instance, now, event, because)
        self._pending.clear()
        self._end(RunState.FAILED, now, reason)

    def _remember_try(self, instance: Instance, state: str, report: Report) -> None:
        self.effects.tries.append(
            FinishedTry(
                key=self.key(instance),
                state=state,
                queued_by=instance.queued_by,
                queued_at=instance.queued_at,
                start_date=instance.start_date,
                end_date=report.at,
                reason=report.reason,
                details=report.details,
                hostname=report.hostname,
                pid=report.pid,
            )
        )

    # -- small helpers ----------------------------------------------------------------------

    def _count_upstreams(self) -> list[int]:
        return [sum(len(self._of_task[up]) for up in upstream) for upstream in self.graph.upstream]

    def _where(self, states: Collection[TaskState]) -> list[Instance]:
        return [instance for group in self._of_task for instance in group if instance.state in states]


def new_instances(graph: Graph, tasks: Iterable[int]) -> list[Instance]:
    """The rows of a new run: one per task that takes part in it."""
    specs = graph.tasks
    return [Instance(task=task, max_tries=specs[task].retries) for task in tasks]
