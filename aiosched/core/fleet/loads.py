"""The load of partitions: how many rows of task instances a second their owner stores, as a decaying average.

Counting costs one addition for each run of a commit, and the clock is read when the counts are added, about once a
second. A load follows its partition to the next owner, which starts with it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from aiosched.core.values.ids import PARTITIONS

AVERAGED_OVER: Final = 60.0  # seconds after which a row counts a third of what it counted at first


class PartitionLoads:
    """The loads of one scheduler's partitions, in rows a second."""

    def __init__(self) -> None:
        self._loads: dict[int, float] = {}
        self._at: float | None = None  # the second of which they are

    def add(self, stored: Mapping[int, int], now: float) -> None:
        """Count the rows that were stored since the last call, by partition; `now` in seconds."""
        passed = 0.0 if self._at is None else max(now - self._at, 0.0)
        self._at = now
        fade = math.exp(-passed / AVERAGED_OVER)
        loads = {partition: load * fade for partition, load in self._loads.items()}
        for partition, rows in stored.items():
            loads[partition] = loads.get(partition, 0.0) + rows / AVERAGED_OVER
        self._loads = loads

    def begin(self, loads: Mapping[int, float]) -> None:
        """These partitions are ours now, with the loads that they had elsewhere."""
        self._loads.update(loads)

    def forget(self, partitions: Iterable[int]) -> None:
        """These partitions are no longer ours."""
        for partition in partitions:
            self._loads.pop(partition, None)

    def published(self, partitions: Collection[int]) -> list[float | None]:
        """One number for each partition there is; None: it is not among `partitions`, which are ours."""
        return [self._loads.get(p, 0.0) if p in partitions else None for p in range(PARTITIONS)]
