"""One unfinished run in memory: which tasks can start, which are settled, when the run is done.

Lives here: every decision about a run's task instances, without I/O; its cost is proportional to what changed. Does not
live here: the rows (instances.py), which tasks are finished and what follows from the rules (upstream_counts.py,
trigger_rules.py), which tasks get a slot (slots.py), storing decisions (scheduler/journal/journal.py).

A board is a cache of rows. The effects of its decisions are collected in `Board.effects` until the caller takes them:
store the changed rows, queue the ready ones, set timers, stop attempts.

Source: the semantics reference, sections 2, 4, 7, 8, 9, 21.1, 22, 28.5 and 34.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from aiosched.core.graph.branching import skipped_by
from aiosched.core.graph.instances import Effects, FinishedTry, Instance, Run
from aiosched.core.graph.mapping import RETURN_VALUE
from aiosched.core.graph.new_instances import new_instances
from aiosched.core.graph.previous_run import Past
from aiosched.core.graph.trigger_rules import TriggerVerdict
from aiosched.core.run.callbacks import dag_callback, task_callback
from aiosched.core.run.deferral import first_deferral, is_trigger, trigger_key
from aiosched.core.run.expansion import Expansion
from aiosched.core.run.manual_changes import CANCELLED, ENDING, INTENTIONS, ManualChanges
from aiosched.core.run.run_result import TASK_FAILURE, judge_run, waits_outside
from aiosched.core.run.run_rows import is_due
from aiosched.core.values.instants import just_after, later
from aiosched.core.values.messages import Outcome, Report, XComValue
from aiosched.core.values.retries import MOST_TRIES, may_retry, retry_delay, retry_seed
from aiosched.core.values.states import FINISHED, HOLDING_SLOT, SCHEDULABLE, TRANSITIONS, RunState, TaskEvent, TaskState
from aiosched.errors import BranchError

__all__ = ["MAX_LOSSES", "SKIPPED_DOWNSTREAM", "Board", "Effects", "FinishedTry", "Instance", "Run", "new_instances"]

MAX_LOSSES: Final = 3
SKIPPED_DOWNSTREAM: Final = "skipped_downstream"  # XCom key of a branch's decision, see `Board.recall`
_SETTLING: Final = {
    TriggerVerdict.SKIPPED: TaskEvent.SETTLED_SKIPPED,
    TriggerVerdict.UPSTREAM_FAILED: TaskEvent.SETTLED_UPSTREAM_FAILED,
}


class Board(ManualChanges, Expansion):
    """See the module docstring. `instances` are the run's rows, in any order.

    A task without a row (its own dates exclude the run) counts as absent: no task waits for it.
    """

    __slots__ = ()

    # -- what happens -----------------------------------------------------------------------

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
        self._know_sizes()
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
    def past(self) -> Past | None:
        """What is known about earlier runs; None: not needed, or not known yet."""
        return self._past

    def set_past(self, past: Past | None) -> None:
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
        if instance.state in ENDING:
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
        if instance.state in ENDING:
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
                self._stop(instance, now, TaskEvent.RUN_TIMED_OUT, "the run timed out")
        self._pending.clear()
        self._end(RunState.FAILED, now, "timed_out", callbacks)

    def cancel(self, now: datetime) -> None:
        """A user ends the run as failed (28.5): at once, or when its unfinished teardowns are done."""
        if not self.finished:
            self._end_by_hand(RunState.FAILED, TaskEvent.MARKED_FAILED, CANCELLED, "the run was cancelled", now)
            self.evaluate(now)

    # -- deciding ---------------------------------------------------------------------------

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
            self._know_places(task)
        instances = self._upstream_counts.of(task)
        if len(instances) == 1:
            if (only := instances[0]).state in SCHEDULABLE:
                self._decide_instance(only, self._upstream_counts.judge(only), now)
            return
        verdict = self._upstream_counts.judge_all(task)
        if verdict is not None and task not in self._decided:
            if self._verdicts.get(task) is verdict:
                return
            self._verdicts[task] = verdict
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
        elif verdict is TriggerVerdict.RUN:
            units = self.graph.mappings and self.graph.mappings.units[instance.task]
            if not self.is_paused and (not units or self._take_place(instance, now)):
                self._ready(instance, now)
        elif verdict is not TriggerVerdict.WAIT and not self._revised_first(instance.task, now):
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
        )
        if result.state is RunState.RUNNING:
            return
        if run.reason in INTENTIONS:
            state = INTENTIONS[run.reason]
            self._end(state, now, run.reason if state is RunState.FAILED else None, ())
            return
        reason = run.reason or result.reason
        self._end(result.state, now, reason, dag_callback(self.graph, self, result.state, reason))

    # -- changing one instance --------------------------------------------------------------

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
                self._stop(instance, now, event, because)

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


def _can(instance: Instance, event: TaskEvent) -> bool:
    return (instance.state, event) in TRANSITIONS
