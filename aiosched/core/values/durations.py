"""Durations as text."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

_WRITTEN: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([smhd])")
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def duration(seconds: float | None) -> str:
    """A duration to display: `340 ms`, `2.1 s`, `4 m 12 s`, `3 h 5 m`, `2 d 4 h`; empty for None."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, small, size, step in (("m", "s", 60, 1), ("h", "m", 3600, 60), ("d", "h", 86400, 3600)):
        if unit == "d" or whole < size * (60 if unit == "m" else 24):
            rest = whole % size // step
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    raise AssertionError("the last unit takes everything")


def read_duration(text: str) -> float:
    """The seconds of `90s`, `30m`, `2h` or `1.5d`. Raises ValueError."""
    found = _WRITTEN.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is no duration: write it with its unit, such as 30m, 2h or 1d")
    return float(found[1]) * next(size for size, unit in _UNITS if unit == found[2])


def relative(at: datetime, now: datetime) -> str:
    """When that is, in one unit: `12 s ago`, `5 m ago`, `in 3 h`, `in 40 d`."""
    seconds = round((now - at).total_seconds())
    distance = abs(seconds)
    size, unit = next((size, unit) for size, unit in _UNITS if distance >= 2 * size or size == 1)
    text = f"{distance // size} {unit}"
    return f"in {text}" if seconds < 0 else f"{text} ago"
