"""What is usual among durations, and what is not: pure functions.

Percentiles are those that PostgreSQL's `percentile_disc` finds, so pages that ask it show the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_ENOUGH: Final = 8  # with fewer values nothing is called unusual
_FAR: Final = 1.5  # times the distance between the quartiles


def percentile(values: Sequence[float], share: float) -> float | None:
    """The first value that at least this share of the values does not exceed; None without values."""
    if not values:
        return None
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


def unusually_long(values: Sequence[float]) -> float | None:
    """Above which duration a run is an outlier (Tukey's fence); None if there are too few to say."""
    low, high = percentile(values, 0.25), percentile(values, 0.75)
    if low is None or high is None or len(values) < _ENOUGH:
        return None
    return max(high + _FAR * (high - low), high * 1.1)  # durations that hardly differ have no outliers
