"""Callbacks in this process's executor, and their reports that are not stored yet (effects/outbox.py)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from aiosched.core.values.messages import Outcome, Report


@dataclass(slots=True)
class RunningCallbacks:
    """See the module docstring."""

    partitions: dict[int, int] = field(default_factory=dict)  # by the callback's id; until its report is stored
    reports: deque[Report] = field(default_factory=deque)
    on_report: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self.partitions)

    def __contains__(self, callback: int) -> bool:
        return callback in self.partitions

    def receive(self, report: Report) -> None:
        """Keep the report of a callback's end; that of its start is not needed."""
        if report.outcome is not Outcome.STARTED:
            self.reports.append(report)
            self.on_report()
