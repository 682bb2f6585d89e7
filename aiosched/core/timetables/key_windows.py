"""Windows of partition keys, and how many keys of a window a run waits for.

A window lists the members of a period: those that a run waits for (`RollupMapper`), or those into which one key fans
out (`FanOutMapper`). Source: the semantics reference, section 37.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import force_setattr

from aiosched.errors import TimetableError


class WindowDirection(StrEnum):
    """Whether a window begins at its period (forward) or ends with it (backward)."""

    FORWARD = "forward"
    BACKWARD = "backward"


class Window(ABC):
    """The base of all windows. Those of aiosched are registered; one of your own can be defined, but not used.

    `expected_decoded_type` is what its members are: instants, or texts.
    """

    Direction = WindowDirection
    expected_decoded_type: ClassVar[type] = str

    def __init__(self, *, direction: WindowDirection = WindowDirection.FORWARD) -> None:
        self.direction = direction

    @abstractmethod
    def to_upstream(self, decoded_downstream: Any) -> Iterable[Any]:
        """The members of the period that begins at (backward: of the one that ends with) this one."""


@Window.register
class _TimeWindow(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind"):
    """A window of wall-clock times without a time zone."""

    direction: WindowDirection = WindowDirection.FORWARD

    expected_decoded_type: ClassVar[type] = datetime

    def __post_init__(self) -> None:
        try:
            force_setattr(self, "direction", WindowDirection(self.direction))
        except ValueError:
            wrong = f"{type(self).__name__}(direction={self.direction!r}) is not a direction"
            raise TimetableError(f"{wrong}; use Window.Direction.FORWARD or Window.Direction.BACKWARD.") from None

    def _steps(self, begin: datetime, number: int, step: Callable[[int], datetime]) -> list[datetime]:
        first = 1 - number if self.direction is WindowDirection.BACKWARD else 0
        return [step(first + position) for position in range(number)]


class HourWindow(_TimeWindow, frozen=True, tag="hour"):
    """The 60 minutes of an hour."""

    def to_upstream(self, decoded_downstream: datetime) -> list[datetime]:
        return self._steps(decoded_downstream, 60, lambda n: decoded_downstream + timedelta(minutes=n))


class DayWindow(_TimeWindow, frozen=True, tag="day"):
    """The 24 hours of a day."""

    def to_upstream(self, decoded_downstream: datetime) -> list[datetime]:
        return self._steps(decoded_downstream, 24, lambda n: decoded_downstream + timedelta(hours=n))


class WeekWindow(_TimeWindow, frozen=True, tag="week"):
    """Seven days."""

    def to_upstream(self, decoded_downstream: datetime) -> list[datetime]:
        return self._steps(decoded_downstream, 7, lambda n: decoded_downstream + timedelta(days=n))


class MonthWindow(_TimeWindow, frozen=True, tag="month"):
    """The days of a month; backward those after the first day of the month before, up to the given day."""

    def to_upstream(self, decoded_downstream: datetime) -> list[datetime]:
        begin = _first_of_month(decoded_downstream, self)
        if self.direction is WindowDirection.BACKWARD:
            number = (begin - _months_after(begin, -1)).days
        else:
            number = (_months_after(begin, 1) - begin).days
        return self._steps(begin, number, lambda n: begin + timedelta(days=n))


class QuarterWindow(_TimeWindow, frozen=True, tag="quarter"):
    """Three months."""

    def to_upstream(self, decoded_downstream: datetime) -> list[datetime]:
        begin = _first_of_month(decoded_downstream, self)
        return self._steps(begin, 3, lambda n: _months_after(begin, n))


class YearWindow(_TimeWindow, frozen=True, tag="year"):
    """Twelve months."""

    def to_upstream(self, decoded_downstream: datetime) -> list[datetime]:
        begin = _first_of_month(decoded_downstream, self)
        return self._steps(begin, 12, lambda n: _months_after(begin, n))


@Window.register
class SegmentWindow(msgspec.Struct, frozen=True, tag_field="kind", tag="segments"):
    """A fixed set of keys, whatever the period: `SegmentWindow(["us", "eu"])`."""

    segments: tuple[str, ...]

    expected_decoded_type: ClassVar[type] = str

    if TYPE_CHECKING:

        def __init__(self, segments: Iterable[str]) -> None: ...

    def __post_init__(self) -> None:
        given = [self.segments] if isinstance(self.segments, str) else list(self.segments)
        if wrong := [one for one in given if not isinstance(one, str) or not one]:
            raise TimetableError(f"SegmentWindow has the segment {wrong[0]!r}; give texts that are not empty.")
        if not given:
            raise TimetableError("SegmentWindow needs at least one segment; give the keys that a run waits for.")
        force_setattr(self, "segments", tuple(sorted(set(given))))

    def to_upstream(self, decoded_downstream: Any) -> tuple[str, ...]:
        return self.segments


AnyWindow = HourWindow | DayWindow | WeekWindow | MonthWindow | QuarterWindow | YearWindow | SegmentWindow
"""Every window that a serialized DAG can have."""


class WaitForAll(msgspec.Struct, frozen=True, tag_field="kind", tag="all"):
    """A run waits for every key of the window."""

    def needed(self, expected: int) -> int:
        """How many of the `expected` keys a run waits for."""
        return expected


class MinimumCount(msgspec.Struct, frozen=True, tag_field="kind", tag="minimum"):
    """A run waits for `n` keys of the window; with a negative `n` until at most `-n` are missing."""

    n: int

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n == 0:
            raise TimetableError(
                f"MinimumCount({self.n!r}) is wrong: give how many keys are needed, or as a negative number how many "
                "can be missing; WaitForAll() waits for all."
            )

    def needed(self, expected: int) -> int:
        """How many of the `expected` keys a run waits for; can be more than there are."""
        return self.n if self.n > 0 else max(0, expected + self.n)


WaitPolicy = WaitForAll | MinimumCount


def _first_of_month(at: datetime, window: _TimeWindow) -> datetime:
    if at.day != 1:
        raise ValueError(f"a {type(window).__name__} begins on the first day of a month, not at {at.isoformat()}")
    return at


def _months_after(first: datetime, months: int) -> datetime:
    total = first.month - 1 + months
    return first.replace(year=first.year + total // 12, month=total % 12 + 1)
