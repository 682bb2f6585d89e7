"""Reports of other schedulers that this one cannot read: each is logged and counted once, and its row is kept.

What becomes of their attempts: partitions/unreadable_reports.py.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import NamedTuple

from aiosched.core.figures.metrics import Metrics
from aiosched.db.statements.reports import UnreadableReport

logger: logging.Logger = logging.getLogger(__name__)


class _Kept(NamedTuple):
    report: UnreadableReport
    since: float  # monotonic second


class UnreadableReports:
    """The reports that are kept. Outlives sessions, so that a row is not read and logged again in each."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}  # by the number of the row

    def add(self, reports: Iterable[UnreadableReport], now: float, metrics: Metrics) -> None:
        """Remember reports; `now` is a monotonic second."""
        for report in reports:
            if report.inbox_id in self._kept:
                continue
            self._kept[report.inbox_id] = _Kept(report, now)
            metrics.count_unreadable()
            logger.error(
                "a report of scheduler %s about %s (%s, row %d of task_report) cannot be read: %s; a newer aiosched "
                "wrote it, or it is broken. The row is kept for a scheduler that can read it: upgrade this one.",
                report.ran_by, tuple(report.key), report.outcome, report.inbox_id, report.error,
            )  # fmt: skip

    def ids(self) -> set[int]:
        """The rows that need not be read again."""
        return set(self._kept)

    def of(self, partitions: Collection[int]) -> list[tuple[UnreadableReport, float]]:
        """The reports to the owner of `partitions` and since when each is known; the others are forgotten."""
        self._kept = {number: kept for number, kept in self._kept.items() if kept.report.partition in partitions}
        return list(self._kept.values())

    def forget(self, number: int) -> None:
        """The row is about to be deleted."""
        del self._kept[number]
