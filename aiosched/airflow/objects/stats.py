"""`Stats`: metrics that DAG code and providers count. They go nowhere: aiosched has metrics of its own.

A metric that is counted in a worker would have to reach the process that serves `/metrics`, which workers have no way
to. The calls are accepted, so that code which counts runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Timer:
    """Measures a block: `duration` in milliseconds, None while it runs."""

    duration: float | None = None
    _started: float = field(default_factory=time.perf_counter)

    def start(self) -> Timer:
        """Begin again."""
        self._started = time.perf_counter()
        return self

    def stop(self, send: bool = True) -> None:
        """End the measurement."""
        self.duration = 1000 * (time.perf_counter() - self._started)

    def __enter__(self) -> Timer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class Stats:
    """Airflow's class of metrics. Every call is accepted and counts nothing."""

    @staticmethod
    def incr(stat: str, count: int = 1, rate: float = 1, **_: Any) -> None:
        """Count."""

    @staticmethod
    def decr(stat: str, count: int = 1, rate: float = 1, **_: Any) -> None:
        """Count backwards."""

    @staticmethod
    def gauge(stat: str, value: float, rate: float = 1, delta: bool = False, **_: Any) -> None:
        """Set a value."""

    @staticmethod
    def timing(stat: str, dt: Any, **_: Any) -> None:
        """Report a duration."""

    @staticmethod
    def timer(*_args: Any, **_: Any) -> Timer:
        """Measure a block."""
        return Timer()
