"""Figures that the scheduler keeps about itself: counters and histograms without a library.

They cost a few nanoseconds each, are available as `Scheduler.metrics`, and are exported under
`aiosched_…` by the web role. All durations are in seconds.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from aiosched.core.figures.histograms import SECONDS

_SIZES: Final = tuple(float(2**i) for i in range(15))  # 1 to 16,384


@dataclass(slots=True)
class Histogram:
    """How often a value fell into each of a row of buckets; values are seconds by default."""

    bounds: tuple[float, ...] = SECONDS
    count: int = 0
    total: float = 0.0
    largest: float = 0.0
    buckets: list[int] = field(default_factory=list)  # up to each bound, and beyond the last

    def __post_init__(self) -> None:
        self.buckets = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        self.count += 1
        self.total += value
        if value > self.largest:
            self.largest = value
        self.buckets[bisect.bisect_left(self.bounds, value)] += 1

    def observe_all(self, values: Iterable[float]) -> None:
        for value in values:
            self.observe(value)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class Metrics:
    """One scheduler's figures since it started."""

    journal_commit: Histogram = field(default_factory=Histogram)
    journal_batch: Histogram = field(default_factory=lambda: Histogram(_SIZES))  # rows a commit
    critical_section: Histogram = field(default_factory=Histogram)
    task_lag: Histogram = field(default_factory=Histogram)  # from ready to handed to the executor
    schedule_delay: Histogram = field(default_factory=Histogram)  # from a run's run_after to its start
    loop_lag: Histogram = field(default_factory=Histogram)  # how late the event loop runs a call
    finished: Counter[str] = field(default_factory=Counter)  # attempts by outcome
    stale_reports: int = 0
    lost_attempts: int = 0
    takeovers: int = 0
    recoveries: int = 0
    stale_writes_refused: int = 0  # by the fence or by a guard
    differences: int = 0  # between memory and rows: bugs in aiosched
    recounted: int = 0  # corrections of rows that did not agree: pools, leases, rows without a run
    unknown_commits: int = 0  # connections that were lost between sending a commit and its confirmation
    runs_created: int = 0
    watchers_stopped: int = 0  # asset watchers with more events than could be stored
    quarantines: int = 0  # how often a DAG was put into quarantine
    reports_set_aside: int = 0  # reports of attempts that could not be applied or stored time after time
    not_removed: int = 0  # runs and kinds of rows that retention could not remove: each is counted once
    restarted_loops: int = 0  # auxiliary loops that failed and were started again
    unreadable_rows: int = 0  # of other versions of aiosched, or broken: each is left alone and counted once

    unwritten_logs: int = 0  # attempts that had output which could not be written

    def count_unwritten(self) -> None:
        """Output of an attempt could not be written to its log."""
        self.unwritten_logs += 1

    def count_unreadable(self) -> None:
        """A row cannot be read."""
        self.unreadable_rows += 1

    def claimed(self, ready_at: Iterable[datetime | None], now: datetime) -> None:
        """Task instances that were ready at these instants are handed to the executor."""
        lags = [(now - at).total_seconds() for at in ready_at if at is not None]
        self.task_lag.observe_all(lags)

    def run_started(self, run_after: datetime | None, start: datetime | None) -> None:
        """A run that might start at `run_after` has started."""
        if run_after is not None and start is not None:
            self.schedule_delay.observe(max((start - run_after).total_seconds(), 0.0))
