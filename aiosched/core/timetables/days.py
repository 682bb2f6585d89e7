"""A date without a time is that whole day in a time zone; a date with a time is an instant.

What people ask for, in lists and in requests, is one or the other, and becomes instants here: the first and the last
ones of the days that are meant. A day of a clock change has 23 or 25 hours.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from aiosched.core.timetables.zones import zone
from aiosched.core.values.instants import LAST, in_utc
from aiosched.errors import TimetableError

DayOrInstant = date | datetime  # a `datetime` is an instant and has a time zone

_TICK = timedelta(microseconds=1)


class Period(NamedTuple):
    """From one instant to another, both inclusive, in UTC."""

    first: datetime
    final: datetime


def read_day_or_instant(text: str) -> DayOrInstant:
    """A day, as `2026-01-31`, or an instant in ISO 8601, in UTC unless it names an offset. Raises ValueError.

    Raises OverflowError for an instant that is outside the years 1 to 9999 in UTC.
    """
    try:
        return date.fromisoformat(text)
    except ValueError:
        found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


def is_day(given: DayOrInstant | None) -> bool:
    """Whether it is a whole day."""
    return given is not None and not isinstance(given, datetime)


def start_of(given: DayOrInstant, timezone: str) -> datetime:
    """The first instant that is meant, in UTC; `timezone` as schedules name it, UTC if there is none of that name."""
    if isinstance(given, datetime):
        return in_utc(given)
    try:
        place = zone(timezone)
    except TimetableError:
        place = UTC
    return in_utc(datetime(given.year, given.month, given.day, tzinfo=place))


def end_of(given: DayOrInstant, timezone: str) -> datetime:
    """The last instant that is meant, in UTC: of a day the microsecond before the next day begins."""
    return in_utc(given) if isinstance(given, datetime) else start_after(given, timezone) - _TICK


def start_after(given: DayOrInstant, timezone: str) -> datetime:
    """The instant that ends it and belongs to it no more, in UTC: of a day the beginning of the next one."""
    if isinstance(given, datetime):
        return in_utc(given)
    try:
        return start_of(given + timedelta(days=1), timezone)
    except OverflowError:
        return LAST


def period_of(first: DayOrInstant, final: DayOrInstant, timezone: str) -> Period:
    """What is meant by a first and a last day or instant, both inclusive."""
    return Period(start_of(first, timezone), end_of(final, timezone))
