"""The rows of one unfinished run in memory, and how one of them changes.

Lives here: reading them, the primitive changes, and the record of what a change asks others
to do. Does not live here: any decision (board.py, marks.py), who is finished (tally.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from aiosched.core.deferral import Deferrals
from aiosched.core.graph import Graph
from aiosched.core.instances import CallbackRequest, Effects, FinishedTry, Instance, Run
from aiosched.core.messages import Attempt, AttemptKey, Report, RunInfo
from aiosched.core.states import (
    ACTIVE_FOR_TASK_LIMITS,
    HOLDING_SLOT,
    RUN_FINISHED,
    RunState,
    TaskEvent,
    TaskState,
    advance,
)
from aiosched.core.tally import Tally
from aiosched.core.trigger_rules import Counts

TICK: Final = timedelta(microseconds=1)  # "strictly later than" for a timer
EXECUTING: Final = frozenset({TaskState.QUEUED, TaskState.RUNNING})


class Ledger:
    """What all parts of a `Board` work on. `instances` are the run's rows, in any order."""

    __slots__ = ("_decisions", "_pending", "_tally", "deferrals", "effects", "graph", "info", "run")

    def __init__(self, graph: Graph, run: Run, instances: Iterable[Instance], *, info: RunInfo) -> None:
        self.graph = graph
        self.run = run
        self.info = info
        self.effects = Effects()
        self.deferrals = Deferrals()
        self._tally = Tally(graph, instances)
        self._pending: set[int] = set()  # tasks to look at
        self._decisions: dict[Instance, frozenset[int]] = {}  # branch -> direct downstreams that it skips

    # -- reading ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Instance]:
        return iter(self._tally)

    def find(self, task: int, map_index: int = -1) -> Instance | None:
        """The instance of a task (and map index), or None."""
        for instance in self._tally.of(task):
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
            resume=self.deferrals.resume_of(instance),
        )

    @property
    def finished(self) -> bool:
        """Whether the run is over."""
        return self.run.state in RUN_FINISHED

    @property
    def unfinished(self) -> int:
        """How many task instances are not finished."""
        return self._tally.unfinished

    @property
    def total(self) -> int:
        """How many task instances the run has."""
        return sum(1 for _ in self._tally)

    def counts_of(self, task: int) -> tuple[Counts, int]:
        """The finished-upstream counts of a task and how many upstreams there are, for explanations."""
        return self._tally.counts(task), self._tally.totals[task]

    # -- changing --------------------------------------------------------------------------

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
        if old in ACTIVE_FOR_TASK_LIMITS and new not in ACTIVE_FOR_TASK_LIMITS:
            effects.inactive.append(instance)
        if old is TaskState.SCHEDULED and new is not TaskState.QUEUED:
            if instance in effects.ready:
                effects.ready.remove(instance)
            else:
                effects.withdrawn.append(instance)
        if instance in self.deferrals:
            self.deferrals.moved(effects, instance, old, self.key(instance))
        self._pending.update(self._tally.moved(instance, old))

    def _settle(self, instance: Instance, event: TaskEvent, now: datetime, reason: str | None) -> None:
        """A change of state without a run of the task (2.4): dates that are empty become now."""
        instance.start_date = instance.start_date or now
        instance.end_date = instance.end_date or now
        instance.next_at = None
        instance.reason = reason
        self._set(instance, event)

    def _stop(self, instance: Instance, now: datetime, event: TaskEvent, reason: str) -> None:
        """As `_settle`, for one that may have an attempt: reports of that are stale from now on."""
        if instance.state in EXECUTING:
            self.effects.cancelled.append(self.key(instance))
        self._settle(instance, event, now, reason)

    def _doom(self, reason: str) -> None:
        """The run will fail, and goes on for its teardowns only. Kept in its row, since it may be read back."""
        if self.run.reason is None:
            self.run.reason = reason
            self.effects.run_changed = True

    def _end(self, state: RunState, now: datetime, reason: str | None, callbacks: Sequence[CallbackRequest]) -> None:
        self.effects.callbacks += callbacks
        self.run.state, self.run.end_date, self.run.reason = state, now, reason
        self.effects.run_changed = True

    def _remember_try(self, instance: Instance, state: str, report: Report) -> None:
        self.effects.tries.append(
            FinishedTry(
                key=self.key(instance),
                state=state,
                queued_by=instance.queued_by,
                queued_at=instance.queued_at,
                start_date=instance.start_date,
                end_date=report.at,
                reason=instance.reason,
                details=report.details,
                hostname=report.hostname,
                pid=report.pid,
            )
        )
