"""Callbacks in this process's executor, and their reports that are not stored yet (effects/outbox.py)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from aiosched.core.values.messages import Outcome, Report
from aiosched.db.statements.outbox import WaitingCallback


@dataclass(slots=True)
class RunningCallbacks:
    """See the module docstring."""

    by_id: dict[int, WaitingCallback] = field(default_factory=dict)  # until their reports are stored
    reports: deque[Report] = field(default_factory=deque)
    on_report: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, callback: int) -> bool:
        return callback in self.by_id

    def running(self) -> Counter[str]:
        """How many run, by DAG."""
        ended = {report.key.try_number for report in self.reports}
        return Counter(callback.dag_id for number, callback in self.by_id.items() if number not in ended)

    def receive(self, report: Report) -> None:
        """Keep the report of a callback's end; that of its start is not needed."""
        if report.outcome is not Outcome.STARTED:
            self.reports.append(report)
            self.on_report()
