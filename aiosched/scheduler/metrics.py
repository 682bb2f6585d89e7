"""Figures that the scheduler keeps about itself: counters and histograms without a library.

They cost a few nanoseconds each and are read by `Scheduler.metrics` (and, with the web
role, exported under `aiosched_…`). Seconds everywhere.
"""

from __future__ import annotations

import bisect
import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_BOUNDS: Final = tuple(0.0001 * 2**i for i in range(20))  # 0.1 ms to 52 s


@dataclass(slots=True)
class Histogram:
    """How often a duration fell below each of a row of bounds."""

    count: int = 0
    total: float = 0.0
    largest: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))

    def observe(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.largest = max(self.largest, value)
        self.buckets[bisect.bisect_left(_BOUNDS, value)] += 1

    @contextlib.contextmanager
    def time(self) -> Iterator[None]:
        """Observe how long the block took."""
        start = time.perf_counter()
        yield
        self.observe(time.perf_counter() - start)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class Metrics:
    """One scheduler's figures since it started."""

    journal_commit: Histogram = field(default_factory=Histogram)
    journal_batch: Histogram = field(default_factory=Histogram)  # rows a commit
    critical_section: Histogram = field(default_factory=Histogram)
    finished: Counter[str] = field(default_factory=Counter)  # attempts by outcome
    stale_reports: int = 0
    lost_attempts: int = 0
    takeovers: int = 0
    recoveries: int = 0
    runs_created: int = 0
