"""One unfinished run in memory: which tasks can start, which are settled, when the run is done.

Lives here: every decision about a run's task instances, without I/O; its cost is proportional to what changed. Does not
live here: the rows (core/graph/instances.py), which tasks are finished and what follows from the rules
(upstream_counts.py, trigger_rules.py), which tasks get a slot (slots/allocation.py), which instances a request selects
(core/requests), storing decisions (scheduler/journal/journal.py).

A board is a cache of rows. The effects of its decisions are collected in `Board.effects` until the caller takes them:
store the changed rows, queue the ready ones, set timers, stop attempts. The class is long because all its parts work on
the same few dicts: first what can be asked, then what happens to a run, the decisions that follow, how mapped tasks get
their instances, what users change, and last how one instance changes.

Source: the semantics reference, sections 2, 4, 7, 8, 9, 21.1, 22, 26.4, 26.5, 28.2 to 28.5 and 34.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from aiosched.core.graph.branching import skipped_by
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import CallbackRequest, Effects, FinishedTry, Instance, Run, is_due, is_undone
from aiosched.core.graph.mapping import Lengths, literal_size
from aiosched.core.graph.new_instances import new_instances
from aiosched.core.graph.previous_run import PASSED, EarlierRuns, waits_for_past
from aiosched.core.graph.trigger_rules import TriggerVerdict
from aiosched.core.graph.weights import capped
from aiosched.core.run.belonging import belonging
from aiosched.core.run.callbacks import dag_callback, task_callback
from aiosched.core.run.code import RunCode
from aiosched.core.run.deferral import Deferrals, first_deferral, is_trigger, trigger_key
from aiosched.core.run.pending import Pending
from aiosched.core.run.repeats import Repeats
from aiosched.core.run.run_result import TASK_FAILURE, judge_run, waits_outside
from aiosched.core.run.upstream_counts import UpstreamCounts
from aiosched.core.values.instants import just_after, later
from aiosched.core.values.messages import RETURN_VALUE, Attempt, AttemptKey, Outcome, Report, RunInfo, XComValue
from aiosched.core.values.retries import MOST_TRIES, may_retry, retry_delay, retry_seed
from aiosched.core.values.states import (
    ACTIVE_FOR_TASK_LIMITS,
    FAILURES,
    FINISHED,
    HOLDING_SLOT,
    RUN_FINISHED,
    SCHEDULABLE,
    TRANSITIONS,
    RunState,
    TaskEvent,
    TaskState,
    advance,
)
from aiosched.errors import BranchError, Refused

__all__ = [
    "INTENTIONS", "MAX_LOSSES", "SKIPPED_DOWNSTREAM", "Board", "Effects", "FinishedTry", "Instance", "Run",
    "new_instances",
]  # fmt: skip

MAX_LOSSES: Final = 3
SKIPPED_DOWNSTREAM: Final = "skipped_downstream"  # XCom key of a branch's decision, see `Board.recall`
_SETTLING: Final = {
    TriggerVerdict.SKIPPED: TaskEvent.SETTLED_SKIPPED,
    TriggerVerdict.UPSTREAM_FAILED: TaskEvent.SETTLED_UPSTREAM_FAILED,
}
_EXECUTING: Final = frozenset({TaskState.QUEUED, TaskState.RUNNING})
CANCELLED: Final = "cancelled"
MARKED: Final = "marked"
MARKED_SUCCESS: Final = "marked_success"
INTENTIONS: Final = {  # reasons of an unfinished run: how it will end, whatever its tasks do
    CANCELLED: RunState.FAILED,
    MARKED: RunState.FAILED,
    MARKED_SUCCESS: RunState.SUCCESS,
}
_ENDING: Final = frozenset({TaskState.RESTARTING, TaskState.SHUTDOWN})  # their attempts were asked to stop
_MARKS: Final = {
    TaskState.SUCCESS: TaskEvent.MARKED_SUCCESS,
    TaskState.FAILED: TaskEvent.MARKED_FAILED,
    TaskState.SKIPPED: TaskEvent.MARKED_SKIPPED,
}
_BEGUN: Final = frozenset(TaskState) - {
    TaskState.NONE, TaskState.SCHEDULED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED, TaskState.REMOVED
}  # fmt: skip
_MARKED_WITH_ITS_RUN: Final = frozenset({TaskState.RUNNING, TaskState.DEFERRED, TaskState.UP_FOR_RESCHEDULE})


class Board:
    """See the module docstring. `instances` are the run's rows, in any order.

    A task without a row (its own dates exclude the run) counts as absent: no task waits for it.
    """

    __slots__ = (
        "_decided", "_decisions", "_held_back", "_lengths", "_past", "_pending", "_sizes", "_upstream_counts",
        "_verdicts", "code", "deferrals", "effects", "graph", "info", "is_paused", "repeats", "run",
    )  # fmt: skip

    def __init__(self, graph: Graph, run: Run, instances: Iterable[Instance], *, info: RunInfo) -> None:
        self.graph: Graph = graph
        self.run: Run = run
        self.info: RunInfo = info
        self.is_paused: bool = False  # its DAG is: attempts end and settle their downstreams, nothing else (9.5)
        self.code: RunCode = RunCode(run.key, info.source_hash, info.source_hash)
        self.repeats: Repeats | None = None  # the database may have lost what was stored about it
        self.effects: Effects = Effects()
        self.deferrals: Deferrals = Deferrals()
        self._upstream_counts = UpstreamCounts(graph, instances)
        self._pending = Pending()  # what to evaluate
        self._verdicts: dict[int, TriggerVerdict] = {}  # with which all instances of a task were evaluated last
        self._decisions: dict[Instance, frozenset[int]] = {}  # branch -> downstreams that it skips
        self._decided: dict[int, set[int]] = {}  # tasks that a decision concerned -> the branches
        self._past: EarlierRuns | None = None  # None: not needed, or not known yet
        self._held_back: dict[int, str | None] = {}  # why the past keeps tasks waiting, cached
        self._sizes: dict[int, tuple[int, ...]] = {}  # of mapped tasks whose instances match these sizes
        self._lengths: Lengths | None = None
        if graph.mappings is not None:
            self._lengths = Lengths(graph.mappings, graph.index, self._upstream_counts.open)

    def add_rows(self, instances: Iterable[Instance]) -> None:
        """More of the run's rows, before anything is decided: those of a large run can come in parts."""
        self._upstream_counts.add_all(instances)

    # -- what can be asked ---------------------------------------------------------------------

    def __iter__(self) -> Iterator[Instance]:
        return iter(self._upstream_counts)

    def find(self, task: int, map_index: int = -1) -> Instance | None:
        """The instance of a task (and map index), or None."""
        return self._upstream_counts.find(task, map_index)

    def key(self, instance: Instance) -> AttemptKey:
        return AttemptKey(self.run.key, instance.task, instance.map_index, instance.try_number)

    def weight(self, instance: Instance) -> int:
        """The priority weight of its current try, with the priority of the run."""
        weight = self.graph.weight(instance.task, instance.try_number)
        return capped(weight + self.run.priority) if self.run.priority else weight

    def attempt(self, instance: Instance) -> Attempt:
        """Everything that an executor needs to run the instance's current try."""
        task = self.graph.tasks[instance.task]
        return Attempt(
            key=AttemptKey(self.run.key, instance.task, instance.map_index, instance.try_number),
            run=self.info,
            task_id=task.task_id,
            is_async=task.is_async,
            max_tries=instance.max_tries,
            priority_weight=self.weight(instance),
            execution_timeout=task.execution_timeout,
            first_started=instance.start_date,
            executor=task.executor,
            queue=None if task.queue == "default" else task.queue,
            executor_config=task.executor_config or None,
            run_as_user=task.run_as_user,
            resume=self.deferrals.resume_of(instance) if self.deferrals else None,
            superseded=self.code.superseded.pop(instance, None) if self.code.superseded else None,
            may_have_run=self.repeats is not None and self.repeats.may_repeat(instance),
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

    # -- what happens --------------------------------------------------------------------------

    def start(self, now: datetime) -> None:
        """The run starts (or was read from the database): evaluate every task."""
        if self.run.state is RunState.QUEUED:
            self.run.state = RunState.RUNNING
            self.run.start_date = now
            self.run.end_date = None
            if self.run.reason not in INTENTIONS:
                self.run.reason = None
            self.effects.rows.run_changed = True
        self._evaluate_all_later()

    def resume(self) -> None:
        """Request again the slots and timers that the rows of a run read from the database wait for."""
        for instance in self:
            if instance.state is TaskState.SCHEDULED:
                self.effects.slots.ready.append(instance)
            elif instance.next_at is not None and instance.state in SCHEDULABLE:
                at = just_after(instance.next_at) if instance.state is TaskState.UP_FOR_RETRY else instance.next_at
                self.effects.slots.timers.append((at, instance))
            elif instance.state is TaskState.DEFERRED and not self.deferrals.wait(self.effects, instance):
                self._resume(instance, instance.scheduled_at)
        self._evaluate_all_later()

    def _evaluate_all_later(self) -> None:
        self._note_known_sizes()
        self._pending.instances.update((i, None) for i in self if i.state in SCHEDULABLE)

    def pause(self) -> None:
        """The DAG is paused: nothing more starts, expands, or counts as a deadlock (9.5)."""
        self.is_paused = True

    def unpause(self) -> None:
        """The DAG is no longer paused: held-back instances and overdue timers take effect now."""
        self.is_paused = False
        self._evaluate_all_later()

    def recall(self, instance: Instance, skipped: Iterable[str]) -> None:
        """Restore the decision of a finished branch (7.4): the ids of the downstreams that it skips.

        For a run that was read from the database: the decision is stored as the branch's XCom `SKIPPED_DOWNSTREAM`, a
        JSON list. Call it before `evaluate`.
        """
        index = self.graph.index
        self._remember_decision(instance, frozenset(index[task_id] for task_id in skipped if task_id in index))

    @property
    def past(self) -> EarlierRuns | None:
        """What is known about earlier runs; None: not needed, or not known yet."""
        return self._past

    def set_past(self, past: EarlierRuns | None) -> None:
        """Set what is known about earlier runs; until then, tasks that depend on them wait."""
        self._past = past
        if self.graph.lookback is not None:
            self._release_held_back(self.graph.lookback.tasks)

    def past_changed(self, task_ids: Iterable[str]) -> None:
        """Instances of these tasks in the previous run have ended, or start again."""
        if self.graph.lookback is not None:
            concerned = self.graph.lookback.concerned
            self._release_held_back({task for task_id in task_ids for task in concerned.get(task_id, ())})

    def _release_held_back(self, tasks: Iterable[int]) -> None:
        for task in tasks:
            self._held_back.pop(task, None)
            self._evaluate_later(task)

    def wake(self, instance: Instance) -> None:
        """A timer of `instance` is due."""
        if instance.state in SCHEDULABLE:
            self._pending.instances[instance] = None

    def time_out_trigger(self, instance: Instance, now: datetime) -> None:
        """The timer of a deferral is due: when its timeout has passed, the task resumes by failing (25.5)."""
        if self.deferrals.overdue(self.effects, instance, self.key(instance), now):
            self._resume(instance, now)

    def answer(self, instance: Instance, event: str, now: datetime) -> None:
        """A person answered what `instance` asked (`deferrals.asks`): it resumes with this event, JSON."""
        self.deferrals.answered_by_hand(self.effects, instance, self.key(instance), event)
        self._resume(instance, now)

    def lose_trigger(self, instance: Instance, now: datetime) -> None:
        """The deferral of an instance is no longer stored: it resumes by failing."""
        if self.deferrals.vanished(self.effects, instance, self.key(instance)):
            self._resume(instance, now)

    def grant(self, instance: Instance, now: datetime, incarnation: int) -> None:
        """The critical section gave `instance` a slot."""
        self._set(instance, TaskEvent.SLOT_GRANTED)
        instance.queued_at = now
        instance.queued_by = incarnation
        instance.reason = None
        if (source := self.code.begins(instance)) is not None:
            self.effects.rows.sources.append(source)

    def begins_deferred(self, instance: Instance) -> bool:
        """Whether `instance`, which is ready, starts in its trigger, and has not yet done so in this try (25.6)."""
        return self.graph.tasks[instance.task].starts_deferred is not None and instance not in self.deferrals

    def defer(self, instance: Instance, now: datetime) -> None:
        """The critical section lets `instance` start in its trigger, without a worker (25.6)."""
        instance.start_date = instance.start_date or now
        instance.queued_at = instance.queued_by = instance.reason = None
        self.deferrals.begin(self.effects, instance, first_deferral(self.graph.tasks[instance.task]), now)
        self._set(instance, TaskEvent.DEFERRED)

    def apply(self, report: Report, now: datetime) -> bool:
        """Apply a report; False when its attempt has already ended (stale: drop it)."""
        if is_trigger(report.key):
            return self._apply_of_trigger(report, now)
        key, outcome = report.key, report.outcome
        instance = self._upstream_counts.find(key.task_index, key.map_index)
        if (
            instance is None
            or instance.try_number != key.try_number
            or instance.state not in HOLDING_SLOT
            or self.finished
        ):
            return False
        if instance.state in _ENDING:
            if outcome is not Outcome.STARTED:
                self._end_stopped_try(instance, report, now)
            return True
        if outcome is Outcome.STARTED:
            if instance.state is TaskState.QUEUED:
                self._set(instance, TaskEvent.STARTED, lazy=True)
                instance.start_date = instance.start_date or report.at
            return True
        if report.source is not None:
            self._ran(instance, report.source)
        if outcome is Outcome.LOST:
            self._lose(instance, report, now)
            return True
        if outcome is Outcome.STUCK:
            self._requeue(instance, report, now)
            return True
        skipped: frozenset[int] = frozenset()
        if outcome is Outcome.SUCCESS and report.skip is not None:
            try:
                skipped = skipped_by(self.graph, instance.task, report.skip)
            except BranchError as error:
                report = report.refused(str(error))
                outcome = Outcome.FAILED
        began = instance.state is TaskState.RUNNING or not report.unattended
        starts = (instance.start_date, report.started_at or (report.at if began else None))
        instance.start_date = min((start for start in starts if start), default=None)  # a notice may have come late
        self._keep_values(instance, report)
        if outcome is Outcome.RESCHEDULED:
            instance.next_at = report.reschedule_at or now
            instance.reason = report.reason
            self._set(instance, TaskEvent.RESCHEDULED)
            self.effects.slots.timers.append((instance.next_at, instance))
            return True
        if outcome is Outcome.DEFERRED and report.deferral is not None:
            self.deferrals.begin(self.effects, instance, report.deferral, now)
            self._set(instance, TaskEvent.DEFERRED)
            return True
        self._end_try(instance, report, now)
        if skipped:
            self._skip_downstream(instance, skipped, now)
        return True

    def _apply_of_trigger(self, report: Report, now: datetime) -> bool:
        instance = self.find(report.key.task_index, report.key.map_index)
        waits = instance is not None and instance.state is TaskState.DEFERRED and not self.finished
        if instance is None or not waits or report.key != trigger_key(self.key(instance)):
            return False
        if report.ends:  # it ends the task itself, without a worker (25.6)
            report = msgspec.structs.replace(report, key=self.key(instance), unattended=True)
            self._keep_values(instance, report)
            self._end_try(instance, report, now)
        elif report.outcome is not Outcome.STARTED and self.deferrals.answered(self.effects, instance, report):
            self._resume(instance, now)
        return True

    def _end_stopped_try(self, instance: Instance, report: Report, now: datetime) -> None:
        """The attempt of a restarting or stopping instance has ended, whatever its outcome (2.3)."""
        if instance.state is TaskState.SHUTDOWN:
            instance.end_date = report.at
            self._fail_finally(instance, report, now)
        else:
            self._restart(instance, report)

    def lose(self, instance: Instance, now: datetime, reason: str) -> None:
        """The process of `instance` died with its scheduler."""
        report = Report(key=self.key(instance), outcome=Outcome.LOST, at=now, reason=reason)
        if instance.state in _ENDING:
            self._end_stopped_try(instance, report, now)
        else:
            self._lose(instance, report, now)

    def time_out(self, now: datetime) -> None:
        """The run exceeded its `dagrun_timeout` (21.1): it fails, unfinished instances are skipped, teardowns too."""
        if self.finished:
            return
        callbacks = dag_callback(self.graph, self, RunState.FAILED, "timed_out")
        for instance in self:
            if instance.state not in FINISHED:
                self._stop(instance, now, TaskEvent.RUN_TIMED_OUT, "the run timed out", undone=True)
        self._pending.clear()
        self._end(RunState.FAILED, now, "timed_out", callbacks)

    # -- deciding ------------------------------------------------------------------------------

    def evaluate(self, now: datetime, most: float = math.inf) -> float:
        """Decide until nothing more follows: which tasks are ready or settled, whether the run is done.

        Returns how many are left of `most` decisions: if none are, call it again. Without a change it does nothing.
        """
        if self.run.state is not RunState.RUNNING:
            return most
        pending = self._pending
        while (
            pending.pass_ or pending.begin_pass(self.graph.depth) or (pending.too_soon and self._settle_too_soon(now))
        ):
            if isinstance(what := pending.pass_.pop(), int):
                self._decide(what, now)
            elif what.state in SCHEDULABLE:
                self._decide_instance(what, self._upstream_counts.judge(what), now)
            most -= 1
            if most <= 0:
                return 0
        self._conclude(now)
        return most

    def _decide(self, task: int, now: datetime) -> None:
        """Decide on the instance of a task whose dependencies have changed (section 4); several come next."""
        if self._upstream_counts.awaits_sizes(task):
            self._regroup(task)
        instances = self._upstream_counts.of(task)
        if len(instances) == 1 or (instances and instances[0].map_index < 0):
            if (only := instances[0]).state in SCHEDULABLE:
                self._decide_instance(only, self._upstream_counts.judge(only), now)
            return
        verdict = self._upstream_counts.judge_all(task)
        if verdict is not None and task not in self._decided:
            if self._verdicts.get(task) is verdict:
                return
            self._verdicts[task] = verdict
        if verdict in _SETTLING:
            self._unexpanded(task, now)
        self._pending.pass_ += reversed([instance for instance in instances if instance.state in SCHEDULABLE])

    def _decide_instance(self, instance: Instance, verdict: TriggerVerdict, now: datetime) -> None:
        """Decide on one waiting instance, by the combined verdict of its dependencies."""
        branch = self.branch_against(instance) if instance.task in self._decided else None
        if self.graph.lookback is not None:
            skips = branch is not None or verdict is TriggerVerdict.SKIPPED
            if (skips or verdict is TriggerVerdict.RUN) and self._held_by_past(instance, skips=skips):
                return
        if branch is not None:
            if not self._revised_first(instance.task, now):
                self._skip(instance, branch, now)
        elif verdict is TriggerVerdict.WAIT or (instance.map_index >= 0 and self._not_expanded_yet(instance, now)):
            return
        elif verdict is TriggerVerdict.RUN:
            units = self.graph.mappings and self.graph.mappings.units[instance.task]
            if not self.is_paused and (not units or self._may_continue(instance, now)):
                self._ready(instance, now)
        elif not self._revised_first(instance.task, now):
            if instance.map_index >= 0 and self._will_not_expand(instance.task):
                self._unexpanded(instance.task, now)
                if instance.state is TaskState.REMOVED:
                    return
            if instance.try_number:  # it was cleared: what depends on it must not find what it returned then
                self._forget_values(instance)
            self._settle(instance, _SETTLING[verdict], now, self._upstream_counts.why_settled(instance))

    def _held_by_past(self, instance: Instance, *, skips: bool) -> bool:
        """Whether the previous run keeps `instance` waiting; a skip waits for it only if the task says so (6.4)."""
        lookback, task = self.graph.lookback, instance.task
        if lookback is None or (skips and not self.graph.tasks[task].wait_for_past_depends_before_skipping):
            return False
        return self.waits_for_past(task) is not None

    def _ready(self, instance: Instance, now: datetime) -> None:
        if instance.next_at is not None and not is_due(instance, now):
            return
        if instance.state is not TaskState.UP_FOR_RESCHEDULE:
            if instance.try_number:
                self._forget_values(instance)
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
        self.effects.slots.ready.append(instance)

    def _conclude(self, now: datetime) -> None:
        upstream_counts = self._upstream_counts
        if upstream_counts.unfinished and (upstream_counts.alive or self.is_paused):
            return
        tasks, run = self.graph.tasks, self.run
        result = judge_run(
            (instance.state for leaf in self.graph.leaves for instance in upstream_counts.of(leaf)),
            unfinished=upstream_counts.unfinished,
            armed=bool(upstream_counts.unfinished)
            and not any(waits_outside(tasks[i.task]) for i in self if i.state is TaskState.NONE),
            runnable=False,
            failed_fast=run.reason is not None,
            undone=run.clear_number > 0 and any(is_undone(each) for each in self),
        )
        if result.state is RunState.RUNNING:
            return
        if run.reason in INTENTIONS:
            state = INTENTIONS[run.reason]
            self._end(state, now, run.reason if state is RunState.FAILED else None, ())
            return
        reason = run.reason or result.reason
        self._end(result.state, now, reason, dag_callback(self.graph, self, result.state, reason))

    # -- instances of mapped tasks -------------------------------------------------------------

    def learn_length(self, task: int, map_index: int, length: int) -> None:
        """An instance of `task` has returned a value of `length`, for a run that was read from the database.

        Matters for tasks that others are mapped over: for a mapped task it only matters that there is a value. Call it
        before `resume` or `start`.
        """
        if self._lengths is not None:
            self._lengths.learn(task, map_index, length)

    def _note_known_sizes(self) -> None:
        """Note the lengths that are known when a run starts or resumes."""
        if self._lengths is None:
            return
        for task, units in enumerate(self.graph.mappings.units if self.graph.mappings else ()):
            if not units:
                continue
            self._regroup(task)
            if (sizes := self._lengths.sizes(task)) is None:
                continue
            there = self._upstream_counts.of(task)
            if len(there) == math.prod(sizes) and all(i.state is not TaskState.REMOVED for i in there):
                self._sizes[task] = sizes

    def _regroup(self, task: int) -> None:
        """Find out which instances of a task in nested groups belong together, as far as its lengths are known."""
        if self._lengths is not None:
            sizes, awaits_others = self._lengths.found(task), not self._lengths.are_new(task)
            for concerned in self._upstream_counts.resize(task, sizes, awaits_others=awaits_others):
                self._evaluate_later(concerned)

    def _may_continue(self, instance: Instance, now: datetime) -> bool:
        """Whether a mapped instance whose dependencies are met can continue under its index.

        An unexpanded instance is expanded first; if the number of instances has changed, they are revised. Then all of
        them are evaluated again. If the number of instances is unknown, the instance fails once everything else is
        decided, so that the order of evaluation does not matter.
        """
        assert self._lengths is not None
        task, sizes = instance.task, self._lengths.sizes(instance.task)
        if instance.map_index < 0 and not self.is_countable(task):
            self._pending.too_soon[instance] = None
            return False
        if sizes is None:
            if self._lengths.are_new(task):
                self._pending.too_soon[instance] = None
            return not self._lengths.are_new(task)
        number = math.prod(sizes)
        if instance.map_index < 0:
            if number:
                self._expand(instance, sizes, now)
            else:
                self._settle(instance, TaskEvent.SETTLED_EMPTY, now, TaskEvent.SETTLED_EMPTY.value)
            return False
        if self._sizes.get(task) != sizes:
            self._revise(task, sizes, now)
            return False
        if instance.map_index >= number:
            self._remove(instance, number, now)
            return False
        return True

    def _revised_first(self, task: int, now: datetime) -> bool:
        """Revise the instances of a task in a mapped group if their number has changed; returns whether it had.

        Call it before one of them is skipped or fails without running, which decides for its own index only. If it
        returns True, all instances are evaluated again.
        """
        if self._lengths is None or self.graph.mappings is None or not self.graph.mappings.groups[task]:
            return False
        there, sizes = self._upstream_counts.of(task), self._lengths.sizes(task)
        if sizes is None or self._sizes.get(task) == sizes or not there or there[0].map_index < 0:
            return False
        self._revise(task, sizes, now)
        return True

    def _not_expanded_yet(self, instance: Instance, now: datetime) -> bool:
        """Whether a task of a mapped group would not be expanded (yet) in a new run, so `instance` is not decided.

        It matters after a clear. If the unexpanded instance would be skipped or fail in a new run, for example because
        an upstream outside of the group failed, only one stays, which is decided next.
        """
        task, counts = instance.task, self._upstream_counts
        if self.graph.mappings is None or not self.graph.mappings.groups[task] or counts.begun[task]:
            return False
        if literal_size(self.graph.mappings.units[task]) is not None:
            return False
        verdict = counts.judge(Instance(task))
        if verdict is TriggerVerdict.WAIT:
            counts.held.add(task)
            return True
        counts.held.discard(task)
        if verdict is TriggerVerdict.RUN:
            return False
        self._unexpanded(task, now)
        return True

    def _unexpanded(self, task: int, now: datetime) -> None:
        """A mapped task will not run: only its first instance stays, as in a new run, where it is not expanded.

        In a mapped group it stands for all indexes then. Call it before its instances are skipped or fail without
        running. Nothing happens if one of them has run.
        """
        units = self.graph.mappings.units[task] if self.graph.mappings is not None else ()
        there = self._upstream_counts.of(task)
        waiting = all(instance.state in (TaskState.NONE, TaskState.REMOVED) for instance in there)
        if units and literal_size(units) is None and there[0].state is TaskState.NONE and waiting:
            for instance in tuple(there[1:]):
                if instance.state is TaskState.NONE:
                    self._forget_values(instance)
                    self._settle(instance, TaskEvent.SETTLED_REMOVED, now, "its task was not expanded this time")
            if there[0].map_index == 0 and self.graph.mappings is not None and self.graph.mappings.groups[task]:
                self._collapse(there[0])

    def _will_not_expand(self, task: int) -> bool:
        """Whether all that a task is mapped over has ended, and something of it without a value."""
        units = self.graph.mappings is not None and self.graph.mappings.units[task]
        return (
            bool(units)
            and self._lengths is not None
            and (self._lengths.are_new(task) and self._lengths.sizes(task) is None)
        )

    def is_countable(self, task: int) -> bool:
        """Whether the number of instances of a mapped task is known."""
        return self._lengths is not None and self._lengths.sizes(task) is not None and self._lengths.are_new(task)

    def _settle_too_soon(self, now: datetime) -> bool:
        """Nothing else is left to decide: instances that can run, but whose number is unknown, fail (26.4, 26.6).

        Returns whether there is more to evaluate then; the next pass has begun.
        """
        pending = self._pending
        waiting, pending.too_soon = pending.too_soon, {}
        for instance in waiting:
            if instance.state in SCHEDULABLE and not self.is_countable(instance.task):
                self._unexpanded(instance.task, now)
            if instance.state in SCHEDULABLE and not self.is_countable(instance.task):
                reason = "the values it is mapped over were not returned"
                self._settle(instance, TaskEvent.SETTLED_UPSTREAM_FAILED, now, reason)
        return pending.begin_pass(self.graph.depth)

    def _collapse(self, instance: Instance) -> None:
        """The first instance, which waits, is the unexpanded one again."""
        self._forget_values(instance)
        self._upstream_counts.place(instance, -1)
        self._sizes.pop(instance.task, None)
        rows = self.effects.rows
        if instance in rows.expanded:
            rows.expanded.remove(instance)
        else:
            rows.collapsed.append(instance)
        for concerned in (instance.task, *self.graph.downstream[instance.task]):
            self._evaluate_later(concerned)

    def _expand(self, instance: Instance, sizes: tuple[int, ...], now: datetime) -> None:
        self._upstream_counts.place(instance, 0)
        rows = self.effects.rows
        if instance in rows.collapsed:
            rows.collapsed.remove(instance)
        else:
            rows.expanded.append(instance)
        self._revise(instance.task, sizes, now)
        for concerned in (instance.task, *self.graph.downstream[instance.task]):  # in a group these expand, too
            self._evaluate_later(concerned)

    def _revise(self, task: int, sizes: tuple[int, ...], now: datetime) -> None:
        number = math.prod(sizes)
        self._resize(task, sizes)
        for instance in tuple(self._upstream_counts.of(task)):
            if instance.map_index >= number:
                self._remove(instance, number, now)
            elif instance.state is TaskState.REMOVED:
                instance.start_date = instance.end_date = instance.reason = None
                self._set(instance, TaskEvent.RESTORED)
        self._create(task, number)
        self._evaluate_later(task)

    def _create(self, task: int, number: int) -> None:
        """Create the instances that are missing up to `number`."""
        retries = self.graph.tasks[task].retries
        for map_index in range(len(self._upstream_counts.of(task)), number):
            instance = Instance(task, map_index, max_tries=retries)
            self._upstream_counts.add(instance)
            self.effects.rows.created.append(instance)

    def _remove(self, instance: Instance, number: int, now: datetime) -> None:
        """There is no value for an instance. Without any values the first one stays and is skipped, as in a new run."""
        is_last = number == 0 and instance.map_index == 0
        event = TaskEvent.SETTLED_EMPTY if is_last else TaskEvent.SETTLED_REMOVED
        if (instance.state, event) in TRANSITIONS:
            self._forget_values(instance)
            reason = event.value if is_last else f"there are {number} values to map over now"
            self._stop(instance, now, event, reason)

    def _resize(self, task: int, sizes: tuple[int, ...]) -> None:
        self._sizes[task] = sizes
        for concerned in self._upstream_counts.resize(task, sizes):
            self._evaluate_later(concerned)

    # -- changes by users, also of a finished run (evaluate a running one afterwards) ----------

    def clear(self, instances: Iterable[Instance], now: datetime) -> None:
        """Clear `instances`: they run again, with as many retries as at first (28.2, 28.3).

        A running instance becomes restarting until its attempt has ended, any other waits for its dependencies; its
        last try is kept as a row of history. A finished run becomes queued, an unfinished run continues. Without
        instances nothing happens. Raises Refused, before anything is changed, for an instance that has reached the
        maximum number of tries.
        """
        cleared = [each for each in instances if each.state is not TaskState.RESTARTING and not self._is_left(each)]
        self._refuse_too_many_tries(cleared)
        for instance in cleared:
            self._clear(instance, now)
        if cleared:
            self._clear_run(now)
        if any(not self.graph.is_teardown[instance.task] for instance in cleared):
            self.run.reason = None  # how an unfinished run was to end once its teardowns are done

    def _is_left(self, instance: Instance) -> bool:
        """Whether it is a removed index of a task that is not expanded: the task gets it back when it is."""
        is_removed = instance.state is TaskState.REMOVED and instance.map_index >= 0
        return is_removed and self._upstream_counts.of(instance.task)[0].map_index < 0

    def mark(self, instances: Iterable[Instance], state: TaskState, now: datetime) -> list[Instance]:
        """Set `instances` to success, failed or skipped; returns those that were not, or that a stop set to it (28.4).

        Their attempts are stopped. Failed instances downstream are cleared, with their setups and teardowns if the
        teardown has already begun or a setup runs again. Only then (or if some of its instances still wait, as after a
        deadlock) does a finished run become queued again.
        """
        marked = [instance for instance in instances if instance.state is not state or is_undone(instance)]
        for instance in marked:
            instance.losses = 0
            self._stop(instance, now, _MARKS[state], f"marked {state}")
        behind = frozenset().union(*(self.graph.descendants(task) for task in {i.task for i in marked}))
        apart = set(marked)
        again = {i for i in self if i.task in behind and (i.state in FAILURES or is_undone(i)) and i not in apart}
        scopes = belonging(self.graph, self._upstream_counts, again) - apart
        is_begun = any(self.graph.is_teardown[i.task] and i.state in _BEGUN for i in scopes)
        if is_begun or any(self.graph.is_setup[i.task] for i in again):
            again |= scopes
        self.clear([i for i in self if i in again], now)
        if marked and self.finished and self.unfinished:
            self._clear_run(now)
        return marked

    def mark_run(self, state: RunState, now: datetime) -> None:
        """Set the state of the run (28.5).

        Success or failed: finished task instances do not change; running, deferred and rescheduled ones get the same
        state, others are skipped, unfinished teardowns still run, and the run ends when they have ended. Queued: a
        finished run starts again with its unfinished instances, and with those that a stop left undone
        (and their setups and teardowns).
        """
        if state is RunState.QUEUED:
            if self.finished:
                undone = {each for each in self if is_undone(each)}
                again = undone | belonging(self.graph, self._upstream_counts, undone)
                self.clear([each for each in self if each in again], now)
            if self.finished:
                self._queue_again(now)
        elif state is RunState.SUCCESS:
            self._end_by_hand(state, TaskEvent.MARKED_SUCCESS, MARKED_SUCCESS, "the run was marked success", now)
        else:
            self._end_by_hand(RunState.FAILED, TaskEvent.MARKED_FAILED, MARKED, "the run was marked failed", now)

    def cancel(self, now: datetime) -> None:
        """A user ends the run as failed (28.5): at once, or when its unfinished teardowns are done."""
        if not self.finished:
            self._end_by_hand(RunState.FAILED, TaskEvent.MARKED_FAILED, CANCELLED, "the run was cancelled", now)
            self.evaluate(now)

    def _clear(self, instance: Instance, now: datetime) -> None:
        state = instance.state
        if state in (TaskState.QUEUED, TaskState.RUNNING):
            self.effects.cancelled[self.key(instance)] = instance.queued_by
        if state is TaskState.RUNNING:
            self._set(instance, TaskEvent.CLEARED)
            return
        if instance.try_number and state is not TaskState.NONE:
            ended = Report(key=self.key(instance), outcome=Outcome.FAILED, at=instance.end_date or now)
            self._remember_try(instance, state.value if state in FINISHED else "failed", ended)
        self._begin_anew(instance)
        self._set(instance, TaskEvent.CLEARED)

    def _refuse_too_many_tries(self, instances: Iterable[Instance]) -> None:
        for instance in instances:
            if instance.try_number >= MOST_TRIES:
                raise Refused(
                    f"{self.graph.task_ids[instance.task]} of run {self.run.run_id!r} has had {instance.try_number:,} "
                    "tries, the maximum: trigger a new run instead of clearing this one again."
                )

    def _begin_anew(self, instance: Instance) -> None:
        instance.max_tries = min(instance.try_number + self.graph.tasks[instance.task].retries, MOST_TRIES)
        instance.losses = 0
        instance.is_stopped = False
        instance.queued_by = instance.scheduled_at = instance.queued_at = None
        instance.start_date = instance.end_date = instance.next_at = instance.reason = None

    def _clear_run(self, now: datetime) -> None:
        self.run.clear_number += 1
        self.run.queued_at = now
        self.effects.rows.run_changed = True
        if self.finished:
            self._queue_again(now)

    def _queue_again(self, now: datetime) -> None:
        run = self.run
        run.state, run.queued_at = RunState.QUEUED, now
        run.start_date = run.end_date = run.reason = None
        self.effects.rows.run_changed = True

    def _restart(self, instance: Instance, report: Report) -> None:
        """The attempt of a restarting instance has ended, whatever its outcome (2.3)."""
        failed = report.outcome is Outcome.FAILED
        self._remember_try(instance, "lost" if report.outcome is Outcome.LOST else "failed", report)
        self._begin_anew(instance)
        if failed:  # without the delay after a failure: a user requested the next try
            instance.next_at = report.at
            self.effects.slots.timers.append((just_after(report.at), instance))
        self._set(instance, TaskEvent.FAILED_RETRYABLE if failed else TaskEvent.CLEARED)

    def _end_by_hand(self, state: RunState, mark: TaskEvent, reason: str, because: str, now: datetime) -> None:
        was_finished, run = self.finished, self.run
        teardowns_left = False
        for instance in self:
            if instance.state in FINISHED:
                continue
            if self.graph.is_teardown[instance.task]:
                teardowns_left = True
            else:
                event = mark if instance.state in _MARKED_WITH_ITS_RUN else TaskEvent.MARKED_SKIPPED
                self._stop(instance, now, event, because, undone=True)
        if not teardowns_left:
            ended = run.end_date if was_finished else now
            self._end(state, ended or now, None if state is RunState.SUCCESS else reason, ())
            return
        if was_finished:
            self._queue_again(now)
        run.reason = reason
        self.effects.rows.run_changed = True

    # -- one instance ends or starts again -----------------------------------------------------

    def _resume(self, instance: Instance, now: datetime | None) -> None:
        """A deferral has ended (25.2): the same try needs a slot again, like any other."""
        instance.scheduled_at = now
        instance.reason = None
        self._set(instance, TaskEvent.TRIGGERED)
        self.effects.slots.ready.append(instance)

    def _keep_values(self, instance: Instance, report: Report) -> None:
        """An attempt has reported: the values that it pushed count."""
        instance.losses = 0
        for value in report.values:
            self.effects.rows.xcoms.append((instance, value))
            if self._lengths is not None and value.key == RETURN_VALUE:
                self._lengths.learn_value(instance, report.map_length, value.value)

    def _end_try(self, instance: Instance, report: Report, now: datetime) -> None:
        """A try has ended: success, skipped or failed. Callbacks are requested if no worker has run them."""
        instance.end_date = report.at
        instance.reason = report.reason
        succeeded = report.outcome is Outcome.SUCCESS
        if not succeeded and report.outcome is not Outcome.SKIPPED:
            self._fail(instance, report, now)
            return
        if report.unattended:
            kind = "task_success" if succeeded else "task_skipped"
            self.effects.rows.callbacks += task_callback(self.graph, instance, kind)
        self._set(instance, TaskEvent.RETURNED if succeeded else TaskEvent.SKIPPED_ITSELF)

    def _skip_downstream(self, branch: Instance, skipped: frozenset[int], now: datetime) -> None:
        """Carry out a decision and keep it (7.4); that of a mapped instance applies to its own map index (36).

        It is kept for direct downstreams, and for others that have to wait for the past before they are skipped (6.4).
        """
        kept = set(skipped.intersection(self.graph.downstream[branch.task]))
        for task in sorted(skipped):
            if branch.map_index >= 0:
                self._revised_first(task, now)
            else:
                self._unexpanded(task, now)
            for instance in tuple(self._under_index_of(branch, task)):
                together = branch.map_index < 0 or instance.map_index >= 0
                can = together and _can(instance, TaskEvent.SETTLED_SKIPPED)
                if can and self._held_by_past(instance, skips=True):
                    kept.add(task)
                elif can:
                    self._skip(instance, branch, now)
        if kept:
            self._remember_decision(branch, frozenset(kept))
            names = msgspec.json.encode(sorted(self.graph.task_ids[task] for task in kept)).decode()
            self.effects.rows.xcoms.append((branch, XComValue(SKIPPED_DOWNSTREAM, names)))

    def _remember_decision(self, branch: Instance, skipped: frozenset[int]) -> None:
        self._decisions[branch] = skipped
        for task in skipped:
            self._decided.setdefault(task, set()).add(branch.task)

    def _skip(self, instance: Instance, branch: Instance, now: datetime) -> None:
        instance.start_date = instance.end_date = now
        self._stop(instance, now, TaskEvent.SETTLED_SKIPPED, f"skipped by {self.graph.task_ids[branch.task]}")

    def _fail(self, instance: Instance, report: Report, now: datetime) -> None:
        task = self.graph.tasks[instance.task]
        if report.fail_now or not may_retry(instance.try_number, instance.max_tries):
            self._fail_finally(instance, report, now)
            return
        if report.unattended:
            self.effects.rows.callbacks += task_callback(self.graph, instance, "task_retry")
        self._remember_try(instance, "failed", report)
        delay = report.retry_delay
        if delay is None:
            delay = retry_delay(
                task.retry_delay,
                failed_try=instance.try_number,
                multiplier=task.retry_exponential_backoff,
                maximum=task.max_retry_delay,
                seed=retry_seed(self.run.dag_id, task.task_id, self.run.run_id, instance.map_index),
            )
        instance.next_at = later(report.at, delay)
        self._set(instance, TaskEvent.FAILED_RETRYABLE)
        self.effects.slots.timers.append((just_after(instance.next_at), instance))

    def _fail_finally(self, instance: Instance, report: Report, now: datetime) -> None:
        if report.unattended or report.outcome is Outcome.LOST:
            self.effects.rows.callbacks += task_callback(self.graph, instance, "task_failure")
        self._remember_try(instance, "failed", report)
        self._set(instance, TaskEvent.FAILED_FINALLY)
        if self.graph.spec.fail_fast:
            self._fail_fast(instance, now)

    def _fail_fast(self, failed: Instance, now: datetime) -> None:
        """22.5 and decision 13: the run will fail; all others end now, except teardowns and mapped siblings."""
        self._expect_failure(str(TASK_FAILURE.reason))
        because = f"{self.graph.task_ids[failed.task]} failed (fail_fast)"
        for instance in self:
            event = TaskEvent.FAIL_FAST_RUNNING if instance.state is TaskState.RUNNING else TaskEvent.FAIL_FAST_WAITING
            if instance.task != failed.task and not self.graph.is_teardown[instance.task] and _can(instance, event):
                self._stop(instance, now, event, because, undone=True)

    def _lose(self, instance: Instance, report: Report, now: datetime) -> None:
        """A lost attempt does not spend the user's retries; three in a row fail the task (decision 17)."""
        instance.losses += 1
        instance.reason = report.reason or "its worker died"
        if instance.losses >= MAX_LOSSES or instance.try_number >= MOST_TRIES:
            instance.end_date = now
            instance.reason = f"lost {instance.losses} times in a row: {instance.reason}"
            self._fail_finally(instance, report, now)
            return
        self._remember_try(instance, "lost", report)
        instance.max_tries = min(instance.max_tries + 1, MOST_TRIES)
        instance.queued_by = None
        self._set(instance, TaskEvent.LOST)

    def _requeue(self, instance: Instance, report: Report, now: datetime) -> None:
        """Its executor never started it (20.4): the same try waits for a slot again."""
        if instance.state is not TaskState.QUEUED:
            self._lose(instance, report, now)
            return
        instance.scheduled_at, instance.reason = now, report.reason
        instance.queued_at = instance.queued_by = None
        self._set(instance, TaskEvent.REQUEUED)
        self.effects.slots.ready.append(instance)

    # -- rows and their effects ----------------------------------------------------------------

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

    def _settle(
        self, instance: Instance, event: TaskEvent, now: datetime, reason: str | None, *, undone: bool | None = None
    ) -> None:
        """A state change without running the task (2.4): empty dates become now.

        `undone`: because its run is stopped. None: a rule settles it, maybe for what a stop left undone before it.
        """
        instance.is_stopped = self._is_behind_undone(instance) if undone is None else undone
        instance.start_date = instance.start_date or now
        instance.end_date = instance.end_date or now
        instance.next_at = None
        instance.reason = reason
        self._set(instance, event)

    def _ran(self, instance: Instance, source: str) -> None:
        """Its worker reports which code it ran."""
        if (ran := self.code.ended(instance, source)) is not None:
            self.effects.rows.sources.append(ran)

    def _stop(self, instance: Instance, now: datetime, event: TaskEvent, reason: str, *, undone: bool = False) -> None:
        """As `_settle`, for an instance that may have an attempt: its reports are stale from now on.

        `undone`: not the instance, but its run is stopped.
        """
        if instance.state in _EXECUTING:
            self.effects.cancelled[self.key(instance)] = instance.queued_by
        self._settle(instance, event, now, reason, undone=undone)

    def _is_behind_undone(self, instance: Instance) -> bool:
        """Whether a stop of the run left something undone that `instance`, no teardown, depends on.

        A teardown is cleared with its setups.
        """
        if (self.run.reason is None and not self.run.clear_number) or self.graph.is_teardown[instance.task]:
            return False  # the run was never stopped, or it is no work
        task, graph = instance.task, self.graph
        producers = () if graph.mappings is None else graph.mappings.producers[task]
        return any(
            is_undone(each)
            for other in (*graph.upstream[task], *graph.indirect_setups[task], *producers)
            for each in self._upstream_counts.counterparts(other, instance)
        )

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


def _can(instance: Instance, event: TaskEvent) -> bool:
    return (instance.state, event) in TRANSITIONS
