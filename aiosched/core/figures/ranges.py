"""How finely a range of time is shown, so that a chart gets a few hundred points."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

MOST_POINTS: Final = 701
LONGEST: Final = timedelta(days=700)

# The longest range of each step. From an hour on, rows of hours are read instead of rows of minutes.
_STEPS: Final = (
    (timedelta(hours=11), timedelta(minutes=1)),
    (timedelta(hours=48), timedelta(minutes=5)),
    (timedelta(hours=700), timedelta(hours=1)),
    (LONGEST, timedelta(days=1)),
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Range:
    """The instants from `since` (inclusive) to `until` (exclusive) in steps; both are full steps."""

    since: datetime
    until: datetime
    step: timedelta

    @property
    def of_hours(self) -> bool:
        """Whether it is read from rows of hours."""
        return self.step >= timedelta(hours=1)


def range_before(now: datetime, length: timedelta) -> Range:
    """The range of `length` that ends with the step of `now`. Nothing is longer than `LONGEST`."""
    length = min(length, LONGEST)
    step = next(step for longest, step in _STEPS if length <= longest)
    until = _EPOCH + -(-(now - _EPOCH) // step) * step
    first = until - -(-length // step) * step
    return Range(first, until, step)
