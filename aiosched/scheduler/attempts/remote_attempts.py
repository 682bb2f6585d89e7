"""Attempts that run in this process for the schedulers that own their partitions now, and their reports.

The reports are sent as rows of `task_report` (loops/remote_attempts.py).
Source: docs/decisions/0017-attempts-stay-when-partitions-move.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from aiosched.core.values.messages import AttemptKey, Outcome, Report


@dataclass(slots=True)
class RemoteAttempts:
    """See the module docstring. An attempt stays here until the report of its end is sent."""

    partitions: dict[AttemptKey, int] = field(default_factory=dict)  # of the attempts
    outgoing: deque[Report] = field(default_factory=deque)  # reports that are not sent yet
    recheck_at: float | None = None  # monotonic second at which to check whether they are still wanted; None: now
    on_change: Callable[[], None] = lambda: None

    def add_report(self, report: Report) -> None:
        self.outgoing.append(report)
        self.on_change()

    def take_back(self, partitions: Container[int]) -> list[Report]:
        """These partitions are ours again: remove their attempts, and return the reports that were not sent."""
        back = {key for key, partition in self.partitions.items() if partition in partitions}
        reports = [report for report in self.outgoing if report.key in back]
        self.outgoing = deque(report for report in self.outgoing if report.key not in back)
        for key in back:
            del self.partitions[key]
        return reports

    def sent(self, reports: Sequence[Report], *, instead: Sequence[Report] = ()) -> None:
        """These reports, the first of the outgoing ones, are stored, or others are sent `instead` of them."""
        still = {report.key: self.partitions[report.key] for report in instead}
        for report in reports:
            self.outgoing.popleft()
            if report.outcome is not Outcome.STARTED:
                self.partitions.pop(report.key, None)
        self.partitions |= still
        self.outgoing.extend(instead)

    def recheck_due(self, now: float, every: float) -> bool:
        """Whether it is time to check if they are still wanted; if so, the next period begins."""
        if self.recheck_at is not None and now < self.recheck_at:
            return False
        self.recheck_at = now + every
        return True

    def clear(self) -> None:
        self.partitions.clear()
        self.outgoing.clear()
