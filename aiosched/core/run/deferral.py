"""The deferrals of a run's task instances: what they wait for, and how they resume. Pure.

Does not live here: their states (board.py), the rows (db/statements/triggers.py), running the triggers
(scheduler/effects/triggers.py). A trigger is an attempt without a slot; its key is that of the try with the number
negated, so that a trigger that is being stopped is never mistaken for the try that resumes.

Source: the semantics reference, section 25.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from aiosched.core.graph.human_input import WAITS_FOR_PERSON
from aiosched.core.graph.instances import Effects, Instance
from aiosched.core.graph.spec import TaskSpec
from aiosched.core.values.instants import just_after
from aiosched.core.values.messages import AttemptKey, Deferral, Outcome, Report, Resume
from aiosched.core.values.states import TaskState

MAX_TRIGGER_LOSSES: Final = 3  # how often in a row a trigger can die with its process
NOT_STORED: Final = "what it waited for is not stored"


@dataclass(slots=True, eq=False)
class Deferred:
    """A deferral. Once `resume` is set it has ended: the task instance resumes with that.

    `timeout_at` is an aware instant, None for no timeout. `losses` counts in memory only.
    """

    deferral: Deferral
    timeout_at: datetime | None = None
    resume: Resume | None = None
    losses: int = 0

    def fired(self, report: Report) -> Resume:
        """How the task resumes after its trigger has ended: with the event, or by failing."""
        method, kwargs = self.deferral.next_method, self.deferral.next_kwargs
        if report.outcome is Outcome.TRIGGERED:
            return Resume(next_method=method, next_kwargs=kwargs, event=report.event or "null")
        error = report.reason or "the trigger ended without an event"
        if report.outcome is Outcome.LOST:
            error = f"the trigger was lost {self.losses} times in a row: {error}"
        return Resume(next_method=method, next_kwargs=kwargs, error=error)

    def timed_out(self) -> Resume:
        """How the task resumes if the trigger did not fire in time."""
        seconds = self.deferral.timeout
        error = "Trigger timeout" if seconds is None else f"Trigger timeout: no event within {seconds:g} s"
        return Resume(
            next_method=self.deferral.next_method, next_kwargs=self.deferral.next_kwargs, error=error, timed_out=True
        )


class Deferrals(dict[Instance, Deferred]):
    """The deferrals of one run; what has to be done about them is added to the board's effects.

    A deferral is kept from the report of the try that deferred to the end of the try that resumed, so that every start
    of that try gets its `resume`.
    """

    __slots__ = ()

    def resume_of(self, instance: Instance) -> Resume | None:
        """How the next call of the task resumes; None: it starts."""
        waited = self.get(instance)
        return None if waited is None else waited.resume

    def recall(self, instance: Instance, waited: Deferred) -> None:
        """Add a deferral that was read from the database."""
        self[instance] = waited

    def begin(self, effects: Effects, instance: Instance, deferral: Deferral, now: datetime) -> None:
        """The task defers; an earlier deferral that it resumed from is replaced."""
        self[instance] = Deferred(deferral, _timeout_at(deferral, now))
        effects.rows.deferrals[instance] = None
        self.wait(effects, instance)

    def wait(self, effects: Effects, instance: Instance) -> bool:
        """Request the trigger; returns whether there is something to wait for.

        There always is. If its row is missing, the task resumes by failing, under its usual rules for retries.
        """
        waited = self.get(instance)
        if waited is None:
            waited = self[instance] = Deferred(Deferral(classpath="", kwargs="{}", next_method=""))
            self._end(effects, instance, waited, Resume(next_method="", error=NOT_STORED))
            return False
        if waited.resume is not None:  # it was read with a reason to resume
            effects.rows.deferrals[instance] = None
            return False
        effects.triggers.append(instance)
        return True

    def timer_of(self, instance: Instance) -> datetime | None:
        """When the timeout of a deferral has passed; None if it has ended, or has none.

        The timer is set when the deferral is stored: one that began and ended in one commit could not be told from one
        that has not begun, if the report that began it has to be applied again.
        """
        waited = self.get(instance)
        if waited is None or waited.resume is not None or waited.timeout_at is None:
            return None
        return just_after(waited.timeout_at)

    def answered(self, effects: Effects, instance: Instance, report: Report) -> bool:
        """Apply the final report of a trigger; returns whether the task resumes. A lost trigger runs again."""
        waited = self[instance]
        if report.outcome is Outcome.LOST:
            waited.losses += 1
            if waited.losses < MAX_TRIGGER_LOSSES:
                effects.triggers.append(instance)
                return False
        self._end(effects, instance, waited, waited.fired(report))
        return True

    def overdue(self, effects: Effects, instance: Instance, key: AttemptKey, now: datetime) -> bool:
        """Whether the timeout of a deferral has passed (strictly); if so, its trigger is stopped, its task resumes."""
        waited = self.get(instance)
        if waited is None or waited.resume is not None or waited.timeout_at is None or waited.timeout_at >= now:
            return False
        effects.cancelled[trigger_key(key)] = None
        self._end(effects, instance, waited, waited.timed_out())
        return True

    def answered_by_hand(self, effects: Effects, instance: Instance, key: AttemptKey, event: str) -> None:
        """A person answered what a deferred task asked: its trigger is stopped, the task resumes with this event."""
        waited = self[instance]
        effects.cancelled[trigger_key(key)] = None
        resume = Resume(next_method=waited.deferral.next_method, next_kwargs=waited.deferral.next_kwargs, event=event)
        self._end(effects, instance, waited, resume)

    def asks(self, instance: Instance) -> bool:
        """Whether an instance waits for the answer of a person."""
        waited = self.get(instance)
        if instance.state is not TaskState.DEFERRED or waited is None or waited.resume is not None:
            return False
        return waited.deferral.classpath == WAITS_FOR_PERSON

    def vanished(self, effects: Effects, instance: Instance, key: AttemptKey) -> bool:
        """The row of a deferral was deleted: its trigger is stopped, the task resumes by failing.

        Returns whether it waited.
        """
        waited = self.get(instance)
        if instance.state is not TaskState.DEFERRED or waited is None or waited.resume is not None:
            return False
        effects.cancelled[trigger_key(key)] = None
        self._end(effects, instance, waited, Resume(next_method="", error=NOT_STORED))
        return True

    def moved(self, effects: Effects, instance: Instance, old: TaskState, key: AttemptKey) -> None:
        """The state of a deferred or resumed instance has changed: drop what is no longer needed."""
        if instance.state in _GOES_ON:
            return
        del self[instance]
        effects.rows.deferrals[instance] = None
        if old is TaskState.DEFERRED:
            effects.cancelled[trigger_key(key)] = None

    def _end(self, effects: Effects, instance: Instance, waited: Deferred, resume: Resume) -> None:
        waited.resume = resume
        effects.rows.deferrals[instance] = None


_GOES_ON: Final = frozenset({TaskState.DEFERRED, TaskState.SCHEDULED, TaskState.QUEUED, TaskState.RUNNING})


def _timeout_at(deferral: Deferral, now: datetime) -> datetime | None:
    """None for no timeout, and for one beyond the end of the calendar."""
    try:
        return None if deferral.timeout is None else now + timedelta(seconds=max(deferral.timeout, 0.0))
    except (OverflowError, ValueError):
        return None


def first_deferral(task: TaskSpec) -> Deferral:
    """The deferral of a task that starts in its trigger; it lasts at most as long as the execution timeout (25.5)."""
    deferral = task.starts_deferred
    assert deferral is not None
    limits = [seconds for seconds in (deferral.timeout, task.execution_timeout) if seconds is not None]
    return msgspec.structs.replace(deferral, timeout=min(limits, default=None))


def trigger_key(key: AttemptKey) -> AttemptKey:
    """The key under which the trigger of the try `key` runs."""
    return key._replace(try_number=-key.try_number)


def is_trigger(key: AttemptKey) -> bool:
    """Whether `key` is that of a trigger."""
    return key.try_number < 0
