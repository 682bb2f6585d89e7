"""Instants: limited to the calendar, and formatted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

FIRST: Final = datetime.min.replace(tzinfo=UTC)
LAST: Final = datetime.max.replace(tzinfo=UTC)
LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)  # replaces everything later
_MICROSECOND: Final = timedelta(microseconds=1)


def later(instant: datetime, seconds: float) -> datetime:
    """`seconds` after an aware instant, but at most `LATEST`."""
    try:
        return min(instant + timedelta(seconds=seconds), LATEST)
    except OverflowError:
        return LATEST


def just_after(instant: datetime) -> datetime:
    """The first instant strictly after an aware one, for timers; that after `LATEST` if it is even later."""
    return min(instant, LATEST) + _MICROSECOND


def in_utc(instant: datetime) -> datetime:
    """An aware instant in UTC; the nearest one in the years 1 to 9999 if it is outside these years there."""
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        return FIRST if instant.year == FIRST.year else LAST


def plain_utc(instant: datetime) -> datetime:
    """As `in_utc`, without the class of pendulum, whose spans cannot be multiplied."""
    return in_utc(
        datetime(
            instant.year, instant.month, instant.day, instant.hour, instant.minute, instant.second,
            instant.microsecond, tzinfo=instant.tzinfo, fold=instant.fold,
        )
    )  # fmt: skip


def stamp(instant: datetime) -> str:
    """An aware instant to display, in UTC and to the second: `2026-01-01 00:00:00 UTC`."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
