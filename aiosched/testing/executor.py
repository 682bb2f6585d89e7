"""An executor on a virtual clock: attempts end when and as their script says.

Implements `core.messages.Executor`. What ends at the same instant ends in an order that the
seed decides, so that no test comes to rely on one. An attempt whose script takes longer than
the task's execution_timeout fails by it, as in the real runner.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from aiosched.clock import Clock
from aiosched.core.messages import Attempt, AttemptKey, Outcome, Report, TaskServices
from aiosched.core.retries import may_retry
from aiosched.core.spec import TaskSpec
from aiosched.db.outbox import NewCallback
from aiosched.testing.assets import touches_of
from aiosched.testing.endings import NO_TIME, Ending, trigger_ending

_CALLBACKS: Final[Mapping[Outcome, tuple[str, Callable[[TaskSpec], bool]]]] = MappingProxyType(
    {
        Outcome.SUCCESS: ("task_success", lambda task: task.has_success_callback),
        Outcome.SKIPPED: ("task_skipped", lambda task: task.has_skipped_callback),
    }
)


def callback_of(attempt: Attempt, task: TaskSpec, ending: Ending) -> str | None:
    """The kind of the task's callbacks that a worker runs after this ending; None when there are none."""
    if ending.outcome is Outcome.FAILED:
        if not ending.fail_now and may_retry(attempt.key.try_number, attempt.max_tries):
            return "task_retry" if task.has_retry_callback else None
        return "task_failure" if task.has_failure_callback else None
    kind, wanted = _CALLBACKS.get(ending.outcome or Outcome.LOST, ("", lambda task: False))
    return kind if wanted(task) else None


class ScriptedExecutor:
    """See the module docstring. `usual` is how long an attempt takes whose ending does not say."""

    name = "scripted"

    def __init__(
        self,
        clock: Clock,
        ending_of: Callable[[Attempt, datetime], Ending],
        task_of: Callable[[Attempt], TaskSpec],
        *,
        seed: int,
        usual: timedelta,
        slots: int,
        async_slots: int,
        called: Callable[[NewCallback], None],
    ) -> None:
        self.slots, self.async_slots, self.usual = slots, async_slots, usual
        self.running: dict[AttemptKey, tuple[Attempt, datetime]] = {}  # with the instant of its start
        self._clock, self._ending_of, self._task_of, self._called = clock, ending_of, task_of, called
        self._chance = random.Random(seed).random
        self._ends: list[tuple[datetime, float, AttemptKey, Ending]] = []
        self._plain = self._async = 0
        self._report: Callable[[Report], None] = lambda report: None

    # -- what the scheduler asks

    @property
    def open_slots(self) -> int:
        return max(0, self.slots - self._plain)

    @property
    def open_async_slots(self) -> int:
        return max(0, self.async_slots - self._async)

    async def start(self, report: Callable[[Report], None], services: TaskServices | None = None) -> None:
        """Hear of reports. Scripted attempts ask for no services."""
        self.listen(report)

    def listen(self, report: Callable[[Report], None]) -> None:
        """Hand reports to `report` from now on."""
        self._report = report

    def submit(self, attempts: Sequence[Attempt]) -> None:
        now = self._clock.now()
        for attempt in attempts:
            self.running[attempt.key] = (attempt, now)
            if attempt.trigger is not None:  # takes no slot
                self._end_later(attempt.key, trigger_ending(attempt.trigger, usual=self.usual), now)
                continue
            ending = self._ending_of(attempt, now)
            takes = self.usual if ending.takes is None else ending.takes
            limit = attempt.execution_timeout
            if limit is not None and (ending.outcome is None or takes.total_seconds() > limit):
                takes = timedelta(seconds=limit)
                reason = f"ran longer than its execution_timeout of {limit:g} s"
                ending = Ending(Outcome.FAILED, takes=takes, reason=reason)
            self._count(attempt, 1)
            if takes > NO_TIME or ending.outcome is None:
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
        self.end(attempt, Ending(Outcome.LOST, reason="it was stopped on request"))

    def forget(self, triggers: Sequence[AttemptKey]) -> None:
        """Others wait for these triggers from now on."""
        for key in triggers:
            self.running.pop(key, None)

    async def adopt(self, attempts: Sequence[AttemptKey]) -> Sequence[AttemptKey]:
        return [key for key in attempts if key in self.running]

    async def stop(self, grace: float) -> None:
        self.die()

    # -- what the world asks

    def die(self) -> None:
        """Everything that runs is gone without a report, with the process that it ran in."""
        self.running.clear()
        self._ends.clear()
        self._plain = self._async = 0

    @property
    def earliest(self) -> datetime | None:
        """When the next attempt ends."""
        ends = self._ends
        while ends and ends[0][2] not in self.running:
            heapq.heappop(ends)
        return ends[0][0] if ends else None

    def end_due(self, now: datetime) -> int:
        """Let end what is due; returns how many ended."""
        ended = 0
        while (at := self.earliest) is not None and at <= now:
            _, _, key, ending = heapq.heappop(self._ends)
            ended += self.end(key, ending)
        return ended

    def end(self, key: AttemptKey, ending: Ending) -> bool:
        """End an attempt now; whether it was running."""
        found = self.running.pop(key, None)
        if found is None or ending.outcome is None:
            return False
        attempt, started_at = found
        task = self._task_of(attempt)
        if attempt.trigger is None and (kind := callback_of(attempt, task, ending)) is not None:
            of_task = (task.task_id, key.map_index, key.try_number)
            self._called(NewCallback(0, kind, attempt.run.dag_id, key.run, *of_task, reason=ending.reason))
        self._count(attempt, -1)
        now = self._clock.now()
        reschedule_at = now + ending.call_again if ending.outcome is Outcome.RESCHEDULED else None
        self._report(
            Report(
                key=key,
                outcome=ending.outcome,
                at=now,
                started_at=started_at,
                reason=ending.reason,
                fail_now=ending.fail_now,
                reschedule_at=reschedule_at,
                xcoms=ending.xcoms,
                skip=ending.skip,
                deferral=ending.deferral,
                map_length=len(ending.returns) if isinstance(ending.returns, list | dict) else None,
                assets=touches_of(task) if ending.outcome is Outcome.SUCCESS else (),
            )
        )
        return True

    def adopt_running(self, attempt: Attempt, started_at: datetime) -> None:
        """Count an attempt as running that nobody has submitted; it ends only by `end`."""
        self.running[attempt.key] = (attempt, started_at)
        self._count(attempt, 1)
