"""Rates and quantiles of schedulers, from the metrics that each stores with its heartbeat.

These count from the start of a scheduler, so a rate needs two samples: a web server keeps the samples of the last
minutes, and answers for the time since the oldest of them, or since the scheduler's start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from aiosched.db.queries.schedulers import SchedulerRow

WINDOW: Final = timedelta(minutes=2)
_SHORTEST: Final = timedelta(seconds=4)  # younger samples say too little


@dataclass(frozen=True, slots=True)
class Percentiles:
    """A summary of a histogram: the number of values, their median and 99th percentile in seconds."""

    count: int
    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class SchedulerRates:
    """The rates of a scheduler in the last `seconds`: commits and ended attempts a second, and its delays."""

    seconds: float
    commits_per_second: float
    tasks_per_second: float
    tasks_per_commit: float | None
    task_lag: Percentiles
    commit: Percentiles
    schedule_delay: Percentiles
    loop_lag: Percentiles


@dataclass(frozen=True, slots=True)
class _Sample:
    at: datetime
    figures: Mapping[str, Any]


class FleetRates:
    """Keeps samples of each incarnation."""

    def __init__(self) -> None:
        self._samples: dict[int, deque[_Sample]] = {}

    def rates_of(self, rows: Sequence[SchedulerRow], now: datetime) -> dict[int, SchedulerRates]:
        """The rates by incarnation; without those that have stored no metrics yet."""
        found: dict[int, SchedulerRates] = {}
        for row in rows:
            if not row.figures:
                continue
            newest = _Sample(now - timedelta(seconds=row.lease_age), row.figures)
            samples = self._samples.setdefault(row.incarnation, deque())
            if not samples or newest.at - samples[-1].at >= _SHORTEST:
                samples.append(newest)
            while len(samples) > 1 and newest.at - samples[1].at >= WINDOW:
                samples.popleft()
            first = samples[0] if newest.at - samples[0].at >= _SHORTEST else _Sample(row.started_at, {})
            found[row.incarnation] = _rates_between(first, newest)
        for gone in self._samples.keys() - {row.incarnation for row in rows}:
            del self._samples[gone]
        return found


def _rates_between(first: _Sample, last: _Sample) -> SchedulerRates:
    seconds = max((last.at - first.at).total_seconds(), 0.001)
    commit = _between(first, last, "journal_commit")
    ended = sum(last.figures.get("finished", {}).values()) - sum(first.figures.get("finished", {}).values())
    commits = sum(commit[1])
    return SchedulerRates(
        seconds=seconds,
        commits_per_second=commits / seconds,
        tasks_per_second=max(ended, 0) / seconds,
        tasks_per_commit=ended / commits if commits else None,
        task_lag=_spread(_between(first, last, "task_lag")),
        commit=_spread(commit),
        schedule_delay=_spread(_between(first, last, "schedule_delay")),
        loop_lag=_spread(_between(first, last, "loop_lag")),
    )


_Counts = tuple[Sequence[float], list[int]]  # bounds, the number of values up to each, and the number beyond the last


def _between(first: _Sample, last: _Sample, name: str) -> _Counts:
    new = last.figures.get("histograms", {}).get(name)
    if new is None:
        return (), []
    old = first.figures.get("histograms", {}).get(name)
    before = [0] * len(new["buckets"]) if old is None else old["buckets"]
    return new["bounds"], [max(now - then, 0) for now, then in zip(new["buckets"], before, strict=True)]


def _spread(counts: _Counts) -> Percentiles:
    return Percentiles(sum(counts[1]), quantile(*counts, 0.5), quantile(*counts, 0.99))


def quantile(bounds: Sequence[float], buckets: Sequence[int], share: float) -> float | None:
    """The value that a `share` of all values are below, interpolated linearly in its bucket; None without values.

    Values beyond the last bound count as that bound.
    """
    wanted = share * sum(buckets)
    if not wanted:
        return None
    seen, low = 0, 0.0
    for high, count in zip(bounds, buckets, strict=False):
        if count and seen + count >= wanted:
            return low + (high - low) * (wanted - seen) / count
        seen, low = seen + count, high
    return low
