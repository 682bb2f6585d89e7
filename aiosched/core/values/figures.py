"""The figures that schedulers publish in their rows, as far as this aiosched knows them.

What it does not know is kept and passed on. Figures with another shape than the known one are no figures: pages and
metrics show the scheduler without them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec


class _Histogram(msgspec.Struct):
    count: float
    sum: float
    bounds: list[float]
    buckets: list[int]

    def __post_init__(self) -> None:
        if len(self.buckets) != len(self.bounds) + 1:
            raise ValueError("a histogram has one bucket more than bounds")


class _Room(msgspec.Struct):
    open: int
    open_async: int
    blocked: list[dict[str, Any]] = []
    times_blocked: int = 0


class _Figures(msgspec.Struct):
    """Those that other processes read (scheduler/observability/metrics_snapshot.py)."""

    counters: dict[str, float] = {}
    histograms: dict[str, _Histogram] = {}
    tasks: dict[str, int] = {}
    finished: dict[str, int] = {}
    executor: dict[str, _Room] = {}
    waiting: dict[str, int] = {}
    remarks: list[str] = []
    pools: dict[str, dict[str, int]] = {}
    runs: int = 0
    parallelism: int = 0
    in_flight: int = 0
    oldest_queued_seconds: float | None = None
    stalled: float = 0.0


_check: Final = msgspec.json.Decoder(_Figures).decode


def read_figures(document: str | None) -> dict[str, Any] | None:
    """The figures in a scheduler's row, None if there are none that can be read."""
    if document is None:
        return None
    try:
        _check(document)
    except msgspec.MsgspecError:
        return None
    figures: dict[str, Any] = msgspec.json.decode(document)
    return figures
