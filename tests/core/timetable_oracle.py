"""Cron ticks by brute force: walk the real minutes of a zone and read the clock on the wall.

Shares nothing with the code under test: its own reading of cron fields, no croniter, no
offsets, no `fold`. A skipped wall time is seen as a jump of the clock between two minutes,
a repeated one as a reading that was there before. Whole minutes only.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
MARGIN = timedelta(hours=26)  # more than any clock change


class Fields:
    """Five fields of numbers, lists, ranges, `*` and steps."""

    def __init__(self, expression: str) -> None:
        minute, hour, day, month, weekday = expression.split()
        self.minutes, self.hours = _numbers(minute, 0, 59), _numbers(hour, 0, 23)
        self.days, self.months = _numbers(day, 1, 31), _numbers(month, 1, 12)
        self.weekdays = {number % 7 for number in _numbers(weekday, 0, 7)}
        self.every_hour = hour == "*"
        self.either_day = day != "*" and weekday != "*"

    def match(self, wall: datetime) -> bool:
        by_day, by_weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        day = (by_day or by_weekday) if self.either_day else (by_day and by_weekday)
        return day and wall.month in self.months and wall.hour in self.hours and wall.minute in self.minutes


def ticks(expression: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """All ticks in [start, end), whole UTC minutes, ascending."""
    fields = Fields(expression)
    readings, last_shown = _walk(zone, start - MARGIN, end + MARGIN)
    found = set()
    for (instant, wall), (_, earlier) in zip(readings[1:], readings, strict=False):
        if fields.match(wall) and (fields.every_hour or last_shown[wall] == instant):
            found.add(instant)
        skipped = earlier + MINUTE
        while skipped < wall and not fields.every_hour:
            if fields.match(skipped):
                found.add(instant + (skipped - earlier - MINUTE))
            skipped += MINUTE
    return sorted(instant for instant in found if start <= instant < end)


@lru_cache(maxsize=64)
def _walk(
    zone: str, start: datetime, end: datetime
) -> tuple[list[tuple[datetime, datetime]], dict[datetime, datetime]]:
    """Every minute of [start, end) with what the clock on the wall shows; and when it shows it last."""
    place = ZoneInfo(zone)
    instants = [start.astimezone(UTC) + minute * MINUTE for minute in range((end - start) // MINUTE)]
    readings = [(instant, instant.astimezone(place).replace(tzinfo=None, fold=0)) for instant in instants]
    return readings, {wall: instant for instant, wall in readings}


def _numbers(field: str, low: int, high: int) -> set[int]:
    numbers: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = low, high
        else:
            left, _, right = span.partition("-")
            first, last = int(left), int(right or left)
        numbers.update(range(first, last + 1, int(step or 1)))
    return numbers
