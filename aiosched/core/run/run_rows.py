"""The rows of one unfinished run in memory, and how one of them changes.

Lives here: reading them, the primitive changes, and recording their effects. Does not live here: any decision
(board.py, manual_changes.py), which tasks are finished (upstream_counts.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import CallbackRequest, Effects, FinishedTry, Instance, Run
from aiosched.core.graph.mapping import Lengths
from aiosched.core.graph.previous_run import PASSED, Past, waits_for_past
from aiosched.core.graph.trigger_rules import TriggerVerdict
from aiosched.core.run.code import RunCode
from aiosched.core.run.deferral import Deferrals
from aiosched.core.run.pending import Pending
from aiosched.core.run.upstream_counts import UpstreamCounts
from aiosched.core.values.messages import Attempt, AttemptKey, Report, RunInfo
from aiosched.core.values.states import (
    ACTIVE_FOR_TASK_LIMITS,
    FINISHED,
    HOLDING_SLOT,
    RUN_FINISHED,
    SCHEDULABLE,
    RunState,
    TaskEvent,
    TaskState,
    advance,
)

EXECUTING: Final = frozenset({TaskState.QUEUED, TaskState.RUNNING})


class RunRows:
    """The base of all parts of a `Board`. `instances` are the run's rows, in any order."""

    __slots__ = (
        "_decided", "_decisions", "_held_back", "_lengths", "_past", "_pending", "_sizes", "_upstream_counts",
        "_verdicts", "code", "deferrals", "effects", "graph", "info", "is_paused", "run",
    )  # fmt: skip

    def __init__(self, graph: Graph, run: Run, instances: Iterable[Instance], *, info: RunInfo) -> None:
        self.graph = graph
        self.run = run
        self.info = info
        self.is_paused = False  # its DAG is: attempts end and settle their downstreams, nothing else (9.5)
        self.code = RunCode(run.key, info.source_hash, info.source_hash)
        self.effects = Effects()
        self.deferrals = Deferrals()
        self._upstream_counts = UpstreamCounts(graph, instances)
        self._pending = Pending()  # what to evaluate
        self._verdicts: dict[int, TriggerVerdict] = {}  # with which all instances of a task were evaluated last
        self._decisions: dict[Instance, frozenset[int]] = {}  # branch -> downstreams that it skips
        self._decided: dict[int, set[int]] = {}  # tasks that a decision concerned -> the branches
        self._past: Past | None = None  # None: not needed, or not known yet
        self._held_back: dict[int, str | None] = {}  # why the past keeps tasks waiting, cached
        self._sizes: dict[int, tuple[int, ...]] = {}  # of mapped tasks whose instances match these sizes
        self._lengths: Lengths | None = None
        if graph.mappings is not None:
            self._lengths = Lengths(graph.mappings, graph.index, self._upstream_counts.open)

    def add_rows(self, instances: Iterable[Instance]) -> None:
        """More of the run's rows, before anything is decided: those of a large run can come in parts."""
        self._upstream_counts.add_all(instances)

    # -- reading ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Instance]:
        return iter(self._upstream_counts)

    def find(self, task: int, map_index: int = -1) -> Instance | None:
        """The instance of a task (and map index), or None."""
        return self._upstream_counts.find(task, map_index)

    def key(self, instance: Instance) -> AttemptKey:
        return AttemptKey(self.run.key, instance.task, instance.map_index, instance.try_number)

    def attempt(self, instance: Instance) -> Attempt:
        """Everything that an executor needs to run the instance's current try."""
        task = self.graph.tasks[instance.task]
        return Attempt(
            key=AttemptKey(self.run.key, instance.task, instance.map_index, instance.try_number),
            run=self.info,
            task_id=task.task_id,
            is_async=task.is_async,
            max_tries=instance.max_tries,
            priority_weight=self.graph.weight(instance.task, instance.try_number),
            execution_timeout=task.execution_timeout,
            first_started=instance.start_date,
            executor=task.executor,
            queue=None if task.queue == "default" else task.queue,
            executor_config=task.executor_config or None,
            run_as_user=task.run_as_user,
            resume=self.deferrals.resume_of(instance) if self.deferrals else None,
            superseded=self.code.superseded.pop(instance, None) if self.code.superseded else None,
        )

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return self.run.state in RUN_FINISHED

    @property
    def unfinished(self) -> int:
        """How many task instances are not finished."""
        return self._upstream_counts.unfinished

    @property
    def total(self) -> int:
        """How many task instances the run has."""
        return len(self._upstream_counts)

    @property
    def upstream_counts(self) -> UpstreamCounts:
        """Which instances are finished, and the verdicts that follow; to be read only."""
        return self._upstream_counts

    def branch_against(self, instance: Instance) -> Instance | None:
        """A finished branch whose decision excludes `instance` (7.4, "not previously skipped")."""
        for decider in self._decided.get(instance.task, ()):
            for branch in self._under_index_of(instance, decider):
                if instance.task in self._decisions.get(branch, ()) and branch.state in FINISHED:
                    return branch
        return None

    def _under_index_of(self, instance: Instance, task: int) -> Sequence[Instance]:
        """The instances of `task` that share branch decisions with `instance` (7.4, 36)."""
        mappings, group = self.graph.mappings, self._upstream_counts.of(task)
        if mappings is None or not group or (instance.map_index < 0 and mappings.shared(task, instance.task) == 0):
            return group
        if mappings.shared(task, instance.task):
            return self._upstream_counts.counterparts(task, instance)
        found = self._upstream_counts.find(task, instance.map_index) or self._upstream_counts.find(task, -1)
        return () if found is None else (found,)

    def all_succeeded(self, task_id: str) -> bool | None:
        """Whether all instances of a task are success or skipped, or removed; None if it has none in this run."""
        task = self.graph.index.get(task_id)
        if task is None or not self._upstream_counts.of(task):
            return None
        return not self._upstream_counts.open[task] and all(i.state in PASSED for i in self._upstream_counts.of(task))

    def waits_for_past(self, task: int) -> str | None:
        """Why earlier runs keep a task waiting, as one line of text; None if they do not (6)."""
        spec = self.graph.tasks[task]
        if not (spec.depends_on_past or spec.wait_for_downstream):
            return None
        if self._past is None:
            return "the previous run is being loaded"
        if task not in self._held_back:
            downstream = [self.graph.task_ids[down] for down in self.graph.downstream[task]]
            catchup = self.graph.spec.catchup
            self._held_back[task] = waits_for_past(spec, downstream, self._past, catchup=catchup)
        return self._held_back[task]

    @property
    def is_held_back(self) -> bool:
        """Whether earlier runs keep a task waiting that could otherwise start."""
        return any(reason and self._upstream_counts.open[task] for task, reason in self._held_back.items())

    @property
    def stands_still(self) -> bool:
        """Whether no task of the run is active, or will be before something outside of it changes.

        For a run with tasks that depend on the previous run, as of its last evaluation.
        """
        if not self._upstream_counts.unfinished or self._past is None:
            return False
        return not self._upstream_counts.alive or all(
            i.state in FINISHED or i.state is TaskState.NONE or self._is_blocked(i) for i in self
        )

    def _is_blocked(self, instance: Instance) -> bool:
        """Whether time alone does not make an instance continue: it waits for the previous run or for its upstreams."""
        return instance.state in SCHEDULABLE and (
            self._held_back.get(instance.task) is not None
            or self._upstream_counts.judge(instance) is TriggerVerdict.WAIT
        )

    # -- changing --------------------------------------------------------------------------

    def _set(self, instance: Instance, event: TaskEvent, *, lazy: bool = False) -> None:
        old = instance.state
        instance.state = new = advance(old, event)
        effects = self.effects
        rows, slots = effects.rows, effects.slots
        if lazy and instance not in rows.changed:
            rows.lazy[instance] = None
        else:
            rows.changed[instance] = None
        if old in ACTIVE_FOR_TASK_LIMITS:
            if old in HOLDING_SLOT and new not in HOLDING_SLOT:
                slots.released.append(instance)
            if new not in ACTIVE_FOR_TASK_LIMITS:
                slots.inactive.append(instance)
        elif old is TaskState.SCHEDULED and new is not TaskState.QUEUED:
            if instance in slots.ready:
                slots.ready.remove(instance)
            else:
                slots.withdrawn.append(instance)
        if instance in self.deferrals:
            self.deferrals.moved(effects, instance, old, self.key(instance))
        self._upstream_counts.moved(instance, old, self._pending)

    def _settle(self, instance: Instance, event: TaskEvent, now: datetime, reason: str | None) -> None:
        """A state change without running the task (2.4): empty dates become now."""
        instance.start_date = instance.start_date or now
        instance.end_date = instance.end_date or now
        instance.next_at = None
        instance.reason = reason
        self._set(instance, event)

    def _ran(self, instance: Instance, source: str) -> None:
        """Its worker reports which code it ran."""
        if (ran := self.code.ended(instance, source)) is not None:
            self.effects.rows.sources.append(ran)

    def _stop(self, instance: Instance, now: datetime, event: TaskEvent, reason: str) -> None:
        """As `_settle`, for an instance that may have an attempt: its reports are stale from now on."""
        if instance.state in EXECUTING:
            self.effects.cancelled[self.key(instance)] = instance.queued_by
        self._settle(instance, event, now, reason)

    def _forget_values(self, instance: Instance) -> None:
        """A new try starts without the pushed values and decisions of the previous one (22.3)."""
        self._decisions.pop(instance, None)
        if self._lengths is not None:
            self._lengths.forget(instance.task, instance.map_index)
        rows = self.effects.rows
        rows.xcoms = [pushed for pushed in rows.xcoms if pushed[0] is not instance]
        rows.forget_xcoms.append(instance)

    def _evaluate_later(self, task: int) -> None:
        """Evaluate the instances of `task` again: there was a change that their dependencies do not show."""
        self._verdicts.pop(task, None)
        self._pending.tasks.add(task)

    def _expect_failure(self, reason: str) -> None:
        """The run will fail, and only its teardowns still run. Stored in its row, since the run may be read again."""
        if self.run.reason is None:
            self.run.reason = reason
            self.effects.rows.run_changed = True

    def _end(self, state: RunState, now: datetime, reason: str | None, callbacks: Sequence[CallbackRequest]) -> None:
        self.effects.rows.callbacks += callbacks
        self.run.state, self.run.end_date, self.run.reason = state, now, reason
        self.effects.rows.run_changed = True

    def _remember_try(self, instance: Instance, state: str, report: Report) -> None:
        self.effects.rows.tries.append(
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


def is_due(instance: Instance, now: datetime) -> bool:
    """Whether the instant that an instance waits for has come: for a retry it must be strictly in the past."""
    if instance.next_at is None:
        return True
    return instance.next_at < now if instance.state is TaskState.UP_FOR_RETRY else instance.next_at <= now
