"""Task lag: the time between "could start" and "has started". Pure.

The lag of a task is the start of its body minus the latest end of its direct upstreams' bodies; that of
a root is the start of its body minus the creation of its run. All instants are monotonic seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.record import Record
from benchmarks.shapes import Shape


@dataclass(frozen=True)
class Lag:
    """Seconds."""

    total: float
    mean: float
    p50: float
    p99: float


def lags(shape: Shape, records: Sequence[Record], created: Mapping[str, float]) -> list[float]:
    """The lag of every recorded task, in seconds; `created` is when each DAG's run was created."""
    ends = {(r.dag_id, r.task_id): r.end for r in records}
    upstreams = shape.upstreams()
    return [
        r.start - max((ends[r.dag_id, up] for up in upstreams[r.task_id]), default=created[r.dag_id]) for r in records
    ]


def summarise(values: Sequence[float]) -> Lag:
    """Raises ValueError when there is nothing to summarise."""
    if not values:
        raise ValueError("no lags: nothing ran")
    return Lag(sum(values), sum(values) / len(values), percentile(values, 50), percentile(values, 99))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` per cent of the values do not exceed (nearest rank)."""
    rank = max(1, math.ceil(len(values) * percent / 100))
    return sorted(values)[rank - 1]
