"""What a scheduler remembers of failures while its sessions come and go; one that starts begins anew.

Reports that fail whenever they are applied or stored (partitions/set_aside_reports.py), reports that cannot be read
(partitions/unreadable_reports.py), requests that kill their owner (requests/inbox.py), and what retention could not
remove (loops/retention.py).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from aiosched.core.figures.metrics import Metrics
from aiosched.core.values.messages import AttemptKey, Outcome
from aiosched.db.statements.inbox import WaitingRequest
from aiosched.db.statements.reports import UnreadableReport
from aiosched.db.upkeep.retention import NotRemoved
from aiosched.scheduler.failures.isolation import ReportFailure

logger: logging.Logger = logging.getLogger(__name__)

MOST_FAILURES: Final = 3  # of a report in a row: then it is set aside
MOST_ATTEMPTS: Final = 3  # to apply a request that its owner did not survive
_FIRST_PAUSE: Final = 3_600.0  # seconds until something is removed again; doubled with each failure in a row
_LONGEST_PAUSE: Final = 7 * 86_400.0


class FailedReports:
    """How often each report has failed, when it was applied or stored."""

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


class _Kept(NamedTuple):
    report: UnreadableReport
    since: float  # monotonic second


class UnreadableReports:
    """Reports of other schedulers that this one cannot read: each is logged and counted once, and its row is kept."""

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


class RequestAttempts:
    """Attempts to apply requests, so that one that kills its owner does not kill the next owner, too.

    Before a request is applied, its number of attempts is stored. An attempt that this process survives, with an answer
    or an error, does not count.
    """

    def __init__(self) -> None:
        self._survived: dict[int, int] = {}  # request -> the number of attempts that was stored for one we survived

    def failed(self, request: WaitingRequest) -> int:
        """How many owners have died or stalled while they applied the request."""
        return request.attempts - (self._survived.get(request.id) == request.attempts)

    def is_poisonous(self, request: WaitingRequest) -> bool:
        """Whether no further attempt is made."""
        return self.failed(request) >= MOST_ATTEMPTS

    def begin(self, requests: Iterable[WaitingRequest]) -> dict[int, int]:
        """The numbers of attempts to store before these requests are applied."""
        return {request.id: self.failed(request) + 1 for request in requests}

    def survive(self, begun: Mapping[int, int]) -> None:
        """The process is still there after these attempts."""
        self._survived.update(begun)

    def forget(self, answered: Iterable[int]) -> None:
        """These requests do not come again."""
        for number in answered:
            self._survived.pop(number, None)


@dataclass(slots=True)
class _LeftOut:
    text: str
    failures: int
    retry_at: float  # monotonic second


class Unremovable:
    """The runs and kinds of rows that retention could not remove: they are tried again after growing pauses."""

    def __init__(self) -> None:
        self._kept: dict[int | str, _LeftOut] = {}  # by the key of the run, or the kind of rows
        self.logs_looked_at: float | None = None  # when old logs in remote storage were last looked for; monotonic
        self.modules_looked_at: float | None = None  # the same for texts of modules in the database

    def left_out(self, now: float) -> list[int | str]:
        """What is not tried at the monotonic second `now`."""
        return [key for key, kept in self._kept.items() if kept.retry_at > now]

    def settle(self, failed: Iterable[NotRemoved], now: float) -> list[NotRemoved]:
        """After a pass at `now`: keep what has failed, forget what was tried and did not; returns what is new."""
        new, tried = [], {key for key, kept in self._kept.items() if kept.retry_at <= now}
        for each in failed:
            if (kept := self._kept.get(each.key)) is None:
                kept = self._kept[each.key] = _LeftOut(str(each), 0, now)
                new.append(each)
            tried.discard(each.key)
            kept.text = str(each)
            kept.retry_at = now + min(_FIRST_PAUSE * 2.0 ** min(kept.failures, 20), _LONGEST_PAUSE)
            kept.failures += 1
        for key in tried:
            del self._kept[key]
        return new

    def texts(self) -> list[str]:
        """What is left out, in words, with the errors."""
        return [kept.text for kept in self._kept.values()]
