"""Changes of a run by users: clearing and marking its task instances, marking the run.

They also work on finished runs: if there is something to do again, the run becomes queued, and is stored and started
like any queued run. Does not live here: which task instances a request selects (clearing.py). Source: the semantics
reference, sections 2.3, 2.5 and 28.2 to 28.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from aiosched.core.graph.instances import Instance
from aiosched.core.run.clearing import belonging
from aiosched.core.run.run_rows import RunRows
from aiosched.core.values.instants import just_after
from aiosched.core.values.messages import Outcome, Report
from aiosched.core.values.retries import MOST_TRIES
from aiosched.core.values.states import FAILURES, FINISHED, RunState, TaskEvent, TaskState
from aiosched.errors import Refused

CANCELLED: Final = "cancelled"
MARKED: Final = "marked"
MARKED_SUCCESS: Final = "marked_success"
INTENTIONS: Final = {  # reasons of an unfinished run: how it will end, whatever its tasks do
    CANCELLED: RunState.FAILED,
    MARKED: RunState.FAILED,
    MARKED_SUCCESS: RunState.SUCCESS,
}
ENDING: Final = frozenset({TaskState.RESTARTING, TaskState.SHUTDOWN})  # their attempts were asked to stop
_MARKS: Final = {
    TaskState.SUCCESS: TaskEvent.MARKED_SUCCESS,
    TaskState.FAILED: TaskEvent.MARKED_FAILED,
    TaskState.SKIPPED: TaskEvent.MARKED_SKIPPED,
}
_BEGUN: Final = frozenset(TaskState) - {
    TaskState.NONE, TaskState.SCHEDULED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED, TaskState.REMOVED
}  # fmt: skip
_MARKED_WITH_ITS_RUN: Final = frozenset({TaskState.RUNNING, TaskState.DEFERRED, TaskState.UP_FOR_RESCHEDULE})


class ManualChanges(RunRows):
    """The part of a `Board` that carries out requests of users. Evaluate a running board afterwards."""

    __slots__ = ()

    def clear(self, instances: Iterable[Instance], now: datetime) -> None:
        """Clear `instances`: they run again, with as many retries as at first (28.2, 28.3).

        A running instance becomes restarting until its attempt has ended, any other waits for its dependencies; its
        last try is kept as a row of history. A finished run becomes queued, an unfinished run continues. Without
        instances nothing happens. Raises Refused, before anything is changed, for an instance that has reached the
        maximum number of tries.
        """
        cleared = [instance for instance in instances if instance.state is not TaskState.RESTARTING]
        self._refuse_too_many_tries(cleared)
        for instance in cleared:
            self._clear(instance, now)
        if cleared:
            self._clear_run(now)
        if any(not self.graph.is_teardown[instance.task] for instance in cleared):
            self.run.reason = None  # how an unfinished run was to end once its teardowns are done

    def mark(self, instances: Iterable[Instance], state: TaskState, now: datetime) -> list[Instance]:
        """Set `instances` to success, failed or skipped; returns those that were in another state (28.4).

        Their attempts are stopped. Failed instances downstream are cleared, with their setups and teardowns if the
        teardown has already begun. Only then (or if some of its instances still wait, as after a deadlock) does a
        finished run become queued again.
        """
        marked = [instance for instance in instances if instance.state is not state]
        for instance in marked:
            instance.losses = 0
            self._stop(instance, now, _MARKS[state], f"marked {state}")
        behind = frozenset().union(*(self.graph.descendants(task) for task in {i.task for i in marked}))
        apart = set(marked)
        again = {i for i in self if i.task in behind and i.state in FAILURES and i not in apart}
        scopes = belonging(self.graph, self._upstream_counts, again) - apart
        if any(self.graph.is_teardown[i.task] and i.state in _BEGUN for i in scopes):
            again |= scopes
        self.clear([i for i in self if i in again], now)
        if marked and self.finished and self.unfinished:
            self._clear_run(now)
        return marked

    def mark_run(self, state: RunState, now: datetime) -> None:
        """Set the state of the run (28.5).

        Success or failed: finished task instances do not change; running, deferred and rescheduled ones get the same
        state, others are skipped, unfinished teardowns still run, and the run ends when they have ended. Queued: a
        finished run starts again with its unfinished instances.
        """
        if state is RunState.QUEUED:
            if self.finished:
                self._queue_again(now)
        elif state is RunState.SUCCESS:
            self._end_by_hand(state, TaskEvent.MARKED_SUCCESS, MARKED_SUCCESS, "the run was marked success", now)
        else:
            self._end_by_hand(RunState.FAILED, TaskEvent.MARKED_FAILED, MARKED, "the run was marked failed", now)

    # -- how ----------------------------------------------------------------------------------

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
                self._stop(instance, now, event, because)
        if not teardowns_left:
            ended = run.end_date if was_finished else now
            self._end(state, ended or now, None if state is RunState.SUCCESS else reason, ())
            return
        if was_finished:
            self._queue_again(now)
        run.reason = reason
        self.effects.rows.run_changed = True
