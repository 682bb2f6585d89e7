"""Injectable clocks. Only `SystemClock` reads the real one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Two readings: `now()`, aware and in UTC, for schedules; `monotonic()`, in seconds, for timeouts."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass
class FakeClock:
    """Advances only when a test says so. `at` must be aware and in UTC."""

    at: datetime

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
