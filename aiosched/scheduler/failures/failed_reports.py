"""How often each report has failed, when it was applied or stored: after three times in a row it is set aside.

What becomes of it and of its attempt: partitions/set_aside_reports.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aiosched.core.values.messages import AttemptKey, Outcome
from aiosched.scheduler.failures.isolation import ReportFailure

MOST_FAILURES: Final = 3


class FailedReports:
    """The counts of failures, by report. Outlives sessions; a scheduler that starts counts anew."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[tuple[AttemptKey, Outcome], int]] = {}  # by DAG

    def count(self, failures: Iterable[ReportFailure]) -> list[ReportFailure]:
        """Count failures of one session; returns those of reports that have failed often enough."""
        last = {(failure.report.key, failure.report.outcome): failure for failure in failures}
        for (key, outcome), failure in last.items():
            counts = self._counts.setdefault(failure.dag_id, {})
            counts[key, outcome] = counts.get((key, outcome), 0) + 1
        return [failure for failure in last.values() if self.of(failure) >= MOST_FAILURES]

    def of(self, failure: ReportFailure) -> int:
        """How often this report has failed."""
        return self._counts.get(failure.dag_id, {}).get((failure.report.key, failure.report.outcome), 0)

    def forget(self, dag_id: str) -> None:
        """The DAG works again."""
        self._counts.pop(dag_id, None)

    def forget_report(self, failure: ReportFailure) -> None:
        """The report does not come again."""
        self._counts[failure.dag_id].pop((failure.report.key, failure.report.outcome))
