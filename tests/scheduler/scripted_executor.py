"""An executor that does what the test says: it records attempts, and ends them when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from aiosched.clock import Clock
from aiosched.core.values.messages import (
    Attempt,
    AttemptKey,
    Deferral,
    Outcome,
    Report,
    SkipDecision,
    TaskServices,
    XComValue,
)


class ScriptedExecutor:
    """Implements `core.messages.Executor`: records attempts, and ends them when the test says so.

    `script` ends attempts by itself: it gets each attempt in the loop's next turn and calls
    `succeed`, `fail`, … or leaves it running. `on_submit` is called inside `submit`.
    """

    name = "scripted"

    def __init__(
        self,
        clock: Clock,
        *,
        slots: int = 10_000,
        async_slots: int = 10_000,
        script: Callable[[ScriptedExecutor, Attempt], None] | None = None,
    ) -> None:
        self.clock, self.slots, self.async_slots, self.script = clock, slots, async_slots, script
        self.on_submit: Callable[[Sequence[Attempt]], None] = lambda attempts: None
        self.submitted: list[Attempt] = []
        self.to_play = 0  # attempts whose script is called in the loop's next turn
        self.running: dict[AttemptKey, Attempt] = {}
        self.triggers: dict[AttemptKey, Attempt] = {}  # that wait now, and the callbacks that run: without slots
        self.callbacks: dict[AttemptKey, Attempt] = {}
        self.without_slot: list[Attempt] = []  # all of both that were handed out
        self.cancelled: list[AttemptKey] = []
        self.forgotten: list[AttemptKey] = []  # triggers that wait elsewhere
        self.stopped = False
        self._report: Callable[[Report], None] = lambda report: None

    @property
    def open_slots(self) -> int:
        return max(0, self.slots - len(self.running))

    @property
    def open_async_slots(self) -> int:
        return max(0, self.async_slots - len(self.running))

    async def start(self, report: Callable[[Report], None], services: TaskServices) -> None:
        self._report = report
        self._loop = asyncio.get_running_loop()

    def submit(self, attempts: Sequence[Attempt]) -> None:
        self.on_submit(attempts)
        for attempt in attempts:
            assert self._place(attempt.key) in (None, self.triggers), f"{attempt.key} was handed out while it runs"
            if attempt.trigger is not None or attempt.callback is not None:
                self.without_slot.append(attempt)
                (self.callbacks if attempt.trigger is None else self.triggers)[attempt.key] = attempt
                continue
            self.submitted.append(attempt)
            self.running[attempt.key] = attempt
            if self.script is not None:
                self.to_play += 1
                self._loop.call_soon(self._play, self.script, attempt)

    def _play(self, script: Callable[[ScriptedExecutor, Attempt], None], attempt: Attempt) -> None:
        self.to_play -= 1
        if attempt.key in self.running:
            script(self, attempt)

    def _place(self, key: AttemptKey) -> dict[AttemptKey, Attempt] | None:
        return next((where for where in (self.running, self.triggers, self.callbacks) if key in where), None)

    async def cancel(self, attempt: AttemptKey, grace: float) -> None:
        self.cancelled.append(attempt)
        self.triggers.pop(attempt, None)  # a trigger that is stopped says nothing
        if attempt in self.running:
            self.report(attempt, Outcome.LOST, reason="was stopped on request")

    def forget(self, triggers: Sequence[AttemptKey]) -> None:
        self.forgotten.extend(triggers)
        for key in triggers:
            self.triggers.pop(key, None)

    async def stop(self, grace: float) -> None:
        self.stopped = True
        for key in [*self.running, *self.triggers, *self.callbacks]:
            self.report(key, Outcome.LOST, reason="the scheduler stopped")

    # -- how attempts go

    def report(self, attempt: Attempt | AttemptKey, outcome: Outcome, **details: Any) -> Report:
        """Report an outcome at the clock's present instant; all but STARTED end the attempt."""
        key = attempt.key if isinstance(attempt, Attempt) else attempt
        if outcome is not Outcome.STARTED:
            place = self._place(key)
            assert place is not None, f"{key} does not run"
            del place[key]
        report = Report(key=key, outcome=outcome, at=self.clock.now(), **details)
        self._report(report)
        return report

    def start_running(self, attempt: Attempt) -> None:
        self.report(attempt, Outcome.STARTED)

    def succeed(self, attempt: Attempt, *, value: object = None, skip: SkipDecision | None = None) -> None:
        xcoms = () if value is None else (XComValue("return_value", msgspec.json.encode(value).decode()),)
        self.report(attempt, Outcome.SUCCESS, xcoms=xcoms, skip=skip)

    def fail(self, attempt: Attempt, reason: str = "boom", *, fail_now: bool = False) -> None:
        self.report(attempt, Outcome.FAILED, reason=reason, fail_now=fail_now)

    def skip(self, attempt: Attempt) -> None:
        self.report(attempt, Outcome.SKIPPED)

    def reschedule(self, attempt: Attempt, at: datetime) -> None:
        self.report(attempt, Outcome.RESCHEDULED, reschedule_at=at)

    def lose(self, attempt: Attempt, reason: str = "its worker died") -> None:
        self.report(attempt, Outcome.LOST, reason=reason)

    def defer(self, attempt: Attempt, *, timeout: float | None = None, value: object = None) -> None:
        deferral = Deferral(
            classpath="triggers.Wait", kwargs='{"n": 1}', next_method="go_on", next_kwargs='{"a": 1}', timeout=timeout
        )
        xcoms = () if value is None else (XComValue("return_value", msgspec.json.encode(value).decode()),)
        self.report(attempt, Outcome.DEFERRED, deferral=deferral, xcoms=xcoms)

    def fire(self, trigger: Attempt, event: object = None) -> None:
        self.report(trigger, Outcome.TRIGGERED, event=msgspec.json.encode(event).decode())

    # -- what was handed out

    def find(self, task_id: str, run_id: str | None = None, dag_id: str | None = None) -> Attempt | None:
        """The running attempt of a task; of any run unless said otherwise."""
        for attempt in self.running.values():
            run = attempt.run
            if attempt.task_id == task_id and run_id in (None, run.run_id) and dag_id in (None, run.dag_id):
                return attempt
        return None

    def order(self) -> list[str]:
        """The ids of the tasks that were handed out, in order."""
        return [attempt.task_id for attempt in self.submitted]


class DeafExecutor(ScriptedExecutor):
    """Notes what it is told to stop; the attempt ends when the test says so."""

    async def cancel(self, attempt: AttemptKey, grace: float) -> None:
        self.cancelled.append(attempt)


def succeeding(executor: ScriptedExecutor, attempt: Attempt) -> None:
    """A script: every attempt succeeds at once."""
    executor.succeed(attempt)
