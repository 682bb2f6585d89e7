"""What a deferred task instance waits for, and how it goes on.

Pure. Does not live here: when an instance defers or goes on (board.py), the row (db/triggers.py),
who runs its trigger (scheduler/triggers.py). A trigger is an attempt without a slot; its key
is that of the try with the number negated, so that a trigger that is being stopped and the
try that goes on can never be taken for each other.

Source: the semantics reference, section 25.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from aiosched.core.messages import AttemptKey, Deferral, Outcome, Report, Resume

MAX_TRIGGER_LOSSES: Final = 3  # how often in a row a trigger may die with its process


@dataclass(slots=True, eq=False)
class Deferred:
    """A deferral under way. With `resume` it is over: the task instance goes on with that.

    `timeout_at` is an aware instant, None for no timeout. `losses` counts in memory only.
    """

    deferral: Deferral
    timeout_at: datetime | None = None
    resume: Resume | None = None
    losses: int = 0

    def overdue(self, now: datetime) -> bool:
        """Whether it still waits and its timeout has passed (strictly)."""
        return self.resume is None and self.timeout_at is not None and self.timeout_at < now

    def fired(self, report: Report) -> Resume:
        """How the task goes on after its trigger ended: with the event, or by failing."""
        method, kwargs = self.deferral.next_method, self.deferral.next_kwargs
        if report.outcome is Outcome.TRIGGERED:
            return Resume(next_method=method, next_kwargs=kwargs, event=report.event or "null")
        error = report.reason or "the trigger ended without an event"
        if report.outcome is Outcome.LOST:
            error = f"the trigger was lost {self.losses} times in a row: {error}"
        return Resume(next_method=method, next_kwargs=kwargs, error=error)

    def timed_out(self) -> Resume:
        """How the task goes on when the trigger did not fire in time."""
        seconds = self.deferral.timeout
        error = "Trigger timeout" if seconds is None else f"Trigger timeout: no event within {seconds:g} s"
        return Resume(
            next_method=self.deferral.next_method, next_kwargs=self.deferral.next_kwargs, error=error, timed_out=True
        )


def deferred(deferral: Deferral, now: datetime) -> Deferred:
    """A deferral that begins at `now`; a timeout beyond the end of the calendar is none."""
    timeout_at = None
    if deferral.timeout is not None:
        try:
            timeout_at = now + timedelta(seconds=max(deferral.timeout, 0.0))
        except (OverflowError, ValueError):
            timeout_at = None
    return Deferred(deferral, timeout_at)


def without_trigger() -> Deferred:
    """For an instance whose trigger's row is missing: it goes on by failing, with its usual rules for retries."""
    return Deferred(
        Deferral(classpath="", kwargs="{}", next_method=""),
        resume=Resume(next_method="", error="what the task waited for is not stored any more"),
    )


def trigger_key(key: AttemptKey) -> AttemptKey:
    """The key under which the trigger of the try `key` runs."""
    return key._replace(try_number=-key.try_number)


def is_trigger(key: AttemptKey) -> bool:
    """Whether `key` is that of a trigger."""
    return key.try_number < 0
