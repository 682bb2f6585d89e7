"""An executor on a virtual clock: attempts end according to their script, or act (acting.py).

Implements `core.messages.Executor`. Attempts that end at the same instant end in an order that the
seed decides, so that no test relies on one. An attempt whose script takes longer than the task's
execution_timeout fails because of it, as in the real runner.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from aiosched.clock import Clock
from aiosched.core.graph.spec import TaskSpec
from aiosched.core.run.deferral import is_trigger
from aiosched.core.values.messages import Attempt, AttemptKey, Outcome, Report, TaskServices
from aiosched.core.values.retries import may_retry
from aiosched.db.statements.outbox import NewCallback
from aiosched.testing.attempts.acting import Stage
from aiosched.testing.attempts.endings import NO_TIME, Ending
from aiosched.testing.attempts.outcomes import ScriptedTask, report_fields, trigger_report_fields

_CALLBACKS: Final[Mapping[Outcome, tuple[str, Callable[[TaskSpec], bool]]]] = MappingProxyType(
    {
        Outcome.SUCCESS: ("task_success", lambda task: task.has_success_callback),
        Outcome.SKIPPED: ("task_skipped", lambda task: task.has_skipped_callback),
    }
)


def callback_of(attempt: Attempt, task: TaskSpec, report: Report) -> str | None:
    """The kind of the task's callbacks that a worker runs after this report; None when there are none."""
    if report.outcome is Outcome.FAILED:
        if not report.fail_now and may_retry(attempt.key.try_number, attempt.max_tries):
            return "task_retry" if task.has_retry_callback else None
        return "task_failure" if task.has_failure_callback else None
    kind, wanted = _CALLBACKS.get(report.outcome, ("", lambda task: False))
    return kind if wanted(task) else None


class Book(Protocol):
    """What the executor reads about attempts: see decisions.Scripts."""

    def ending_of(self, attempt: Attempt, now: datetime) -> Ending:
        """How an attempt ends, or its trigger."""
        ...

    def facts_of(self, attempt: Attempt) -> ScriptedTask:
        """The facts about its task that its final report depends on."""
        ...

    def asset_names(self) -> Mapping[str, str]:
        """The names of assets by URI."""
        ...


class ScriptedExecutor:
    """See the module docstring. `usual` is the duration of attempts whose ending sets none."""

    name = "scripted"

    def __init__(
        self,
        clock: Clock,
        book: Book,
        stage: Stage,
        *,
        seed: int,
        usual: timedelta,
        slots: int,
        async_slots: int,
        called: Callable[[NewCallback], None],
    ) -> None:
        self.slots: int = slots
        self.async_slots: int = async_slots
        self.usual: timedelta = usual
        self.running: dict[AttemptKey, tuple[Attempt, datetime | None]] = {}  # with its start; None: it has not begun
        self.never_begun: set[AttemptKey] = set()  # submitted, but never begun
        self._clock, self._book, self._stage, self._called = clock, book, stage, called
        self._chance = random.Random(seed).random
        self._ends: list[tuple[datetime, float, AttemptKey, Ending]] = []
        self._plain = self._async = 0
        self._report: Callable[[Report], None] = lambda report: None

    # -- the executor protocol

    @property
    def open_slots(self) -> int:
        return max(0, self.slots - self._plain)

    @property
    def open_async_slots(self) -> int:
        return max(0, self.async_slots - self._async)

    async def start(self, report: Callable[[Report], None], services: TaskServices | None = None) -> None:
        """Send reports to `report`. Scripted attempts use no services."""
        self.listen(report)

    def listen(self, report: Callable[[Report], None]) -> None:
        """Send reports to `report` from now on."""
        self._report = report

    def submit(self, attempts: Sequence[Attempt]) -> None:
        now = self._clock.now()
        for attempt in attempts:
            ending = self._book.ending_of(attempt, now)
            self.running[attempt.key] = (attempt, now if ending.begins else None)
            if attempt.trigger is not None:  # takes no slot
                self._end_later(attempt.key, ending, now)
                continue
            self._count(attempt, 1)
            if not ending.begins:
                self.never_begun.add(attempt.key)
                continue
            takes = self.usual if ending.takes is None else ending.takes
            limit = attempt.execution_timeout
            if limit is not None and (ending.outcome is None or takes.total_seconds() > limit):
                takes = timedelta(seconds=limit)
                reason = f"ran longer than its execution_timeout of {limit:g} s"
                ending = Ending(Outcome.FAILED, takes=takes, reason=reason)
            if takes > NO_TIME or ending.outcome is None or ending.acts:
                self._report(Report(key=attempt.key, outcome=Outcome.STARTED, at=now))
            self._end_later(attempt.key, ending, now)

    def _end_later(self, key: AttemptKey, ending: Ending, now: datetime) -> None:
        if ending.outcome is not None:
            takes = self.usual if ending.takes is None else ending.takes
            heapq.heappush(self._ends, (now + takes, self._chance(), key, ending))

    def _count(self, attempt: Attempt, step: int) -> None:
        if attempt.trigger is None:
            if attempt.is_async:
                self._async += step
            else:
                self._plain += step

    async def cancel(self, attempt: AttemptKey, grace: float) -> None:
        self.revoke(attempt)

    def revoke(self, attempt: AttemptKey) -> None:
        """Stop an attempt that is running or queued here."""
        self.end(attempt, Ending(Outcome.LOST, reason="it was stopped on request"))

    def forget(self, triggers: Sequence[AttemptKey]) -> None:
        """Drop these triggers without a report: another scheduler waits for them now."""
        self._stage.stop(triggers)
        for key in triggers:
            self.running.pop(key, None)

    async def stop(self, grace: float) -> None:
        self.die()

    # -- for the world

    def die(self) -> None:
        """The process dies: everything that runs is gone without a report."""
        self._stage.die()
        self.running.clear()
        self.never_begun.clear()
        self._ends.clear()
        self._plain = self._async = 0

    @property
    def earliest(self) -> datetime | None:
        """When the next attempt ends or continues to act."""
        ends, acts = self._next_end, self._stage.earliest
        return ends if acts is None else acts if ends is None else min(ends, acts)

    @property
    def _next_end(self) -> datetime | None:
        ends = self._ends
        while ends and ends[0][2] not in self.running:
            heapq.heappop(ends)
        return ends[0][0] if ends else None

    def end_due(self, now: datetime) -> None:
        """End what is due, and continue acting attempts that are due."""
        while (at := self._next_end) is not None and at <= now:
            _, _, key, ending = heapq.heappop(self._ends)
            if ending.acts:
                self._end_all(self._stage.begin(self._under_way(key, now), ending))
            else:
                self.end(key, ending)
        if (at := self._stage.earliest) is not None and at <= now:
            self._end_all(self._stage.go_on())

    def _under_way(self, key: AttemptKey, now: datetime) -> Attempt:
        """The attempt with the instant of its start and the rest of its execution timeout."""
        attempt, started_at = self.running[key]
        limit = attempt.execution_timeout
        if limit is not None and started_at is not None:
            limit -= (now - started_at).total_seconds()
        first = attempt.first_started or started_at
        return msgspec.structs.replace(attempt, execution_timeout=limit, first_started=first)

    def _end_all(self, reports: Sequence[Report]) -> None:
        for report in reports:
            attempt, started_at = self.running.pop(report.key)
            self._finish(attempt, msgspec.structs.replace(report, at=self._clock.now(), started_at=started_at))

    def end(self, key: AttemptKey, ending: Ending) -> bool:
        """End an attempt or a trigger now; returns whether it was running."""
        if key not in self.running or ending.outcome is None:
            return False
        self._stage.stop([key])
        attempt, started_at = self.running.pop(key)
        self.never_begun.discard(key)
        facts, names = self._book.facts_of(attempt), self._book.asset_names
        by_trigger = is_trigger(key)
        if by_trigger:
            fields = trigger_report_fields(ending, facts, attempt, names)
        else:
            fields = report_fields(ending, facts, attempt, names)
        now = self._clock.now()
        if fields["outcome"] is Outcome.RESCHEDULED:
            fields["reschedule_at"] = now + ending.call_again
        self._finish(attempt, Report(key=key, at=now, started_at=started_at, **fields))
        return True

    def _finish(self, attempt: Attempt, report: Report) -> None:
        key = report.key
        if not is_trigger(key):
            task = self._book.facts_of(attempt).spec
            if (kind := callback_of(attempt, task, report)) is not None:
                of_task = (task.task_id, key.map_index, key.try_number)
                self._called(NewCallback(0, kind, attempt.run.dag_id, key.run, *of_task, reason=report.reason))
            self._count(attempt, -1)
        self._report(report)

    def adopt_running(self, attempt: Attempt, started_at: datetime) -> None:
        """Register an attempt or a trigger as running without `submit`; it ends only by `end`."""
        self.running[attempt.key] = (attempt, started_at)
        self._count(attempt, 1)
