"""What this process's executor was given and has not finished, and the reports nobody has stored yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field

from aiosched.core.deferral import is_trigger
from aiosched.core.messages import AttemptKey, Outcome, Report
from aiosched.scheduler.metrics import Metrics


@dataclass(slots=True)
class Attempts:
    """Outlives sessions. Triggers and callbacks hold no slot and count against no limit."""

    metrics: Metrics
    in_flight: dict[AttemptKey, float] = field(default_factory=dict)  # key -> monotonic second of its dispatch
    triggers: set[AttemptKey] = field(default_factory=set)
    callbacks: dict[int, int] = field(default_factory=dict)  # id -> partition; until their reports are stored
    reports: deque[Report] = field(default_factory=deque)
    callback_reports: deque[Report] = field(default_factory=deque)
    on_news: Callable[[], None] = lambda: None
    on_callback: Callable[[], None] = lambda: None

    def known(self) -> set[AttemptKey]:
        """The attempts that run here, and those that have ended here and are not stored as ended yet."""
        return self.in_flight.keys() | {r.key for r in self.reports if r.outcome is not Outcome.STARTED}

    def forget_triggers(self, runs: Container[int]) -> None:
        """Others wait for these runs' triggers from now on: ours are not heard any more, and may be handed out anew.

        An executor that gets a trigger again, or another one under its key, drops the old one.
        """
        self.triggers = {key for key in self.triggers if key.run not in runs}

    def receive(self, report: Report) -> None:
        """What executors call. News of an attempt that is not (or no longer) ours is dropped."""
        key, started = report.key, report.outcome is Outcome.STARTED
        if key.task_index < 0 and key.try_number in self.callbacks:
            if not started:
                self.callback_reports.append(report)
                self.on_callback()
            return
        if is_trigger(key) and key in self.triggers:
            if started:
                return
            self.triggers.discard(key)
        elif key not in self.in_flight:
            self.metrics.stale_reports += 1
            return
        elif not started:
            del self.in_flight[key]
        self.reports.append(report)
        self.on_news()
