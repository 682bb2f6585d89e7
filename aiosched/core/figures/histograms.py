"""Histograms of durations, as lists of counts: the bounds that all of them have, and quantiles.

Rows store the counts without the bounds, and without zeros at the end. So the bounds never change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

# 0.1 ms to 52 s; one more bucket is for what is longer.
SECONDS: Final[tuple[float, ...]] = tuple(0.0001 * 2.0**i for i in range(20))
BUCKETS: Final = len(SECONDS) + 1


def increase(now: Sequence[int], before: Sequence[int]) -> list[int]:
    """What was counted since `before`, without zeros at the end. Empty if nothing was."""
    earlier = [*before, *[0] * (len(now) - len(before))]
    more = [max(a - b, 0) for a, b in zip(now, earlier, strict=False)]
    while more and not more[-1]:
        more.pop()
    return more


def quantile(buckets: Sequence[int], share: float) -> float | None:
    """The value in seconds below which `share` of all are, interpolated in its bucket; None if there are none.

    What is longer than the last bound counts as that bound.
    """
    total = sum(buckets)
    if total <= 0:
        return None
    wanted, seen = share * total, 0
    for place, inside in enumerate(buckets):
        if inside > 0 and seen + inside >= wanted:
            low = SECONDS[place - 1] if place else 0.0
            high = SECONDS[place] if place < len(SECONDS) else math.inf
            return low if math.isinf(high) else low + (high - low) * ((wanted - seen) / inside)
        seen += inside
    return SECONDS[-1]
