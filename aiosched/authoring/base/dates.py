"""Dates as authors write them: aware or naive datetimes, pendulum, ISO strings; and their time zones."""

from __future__ import annotations

from datetime import date, datetime

from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.location import Location
from aiosched.authoring.base.settings import defaults
from aiosched.core.timetables import schedule_timezone, zone
from aiosched.errors import TimetableError


def aware(name: str, value: object, where: Location | None = None) -> datetime:
    """`value` as an aware datetime in its own time zone; naive ones are in the default time zone.

    Takes datetimes, dates and ISO strings (`2026-01-01`, `2026-01-01T06:00:00+01:00`); `name` is for the error.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise fail(f"{name}={value!r} is not a date. Write it as '2026-01-31' or a datetime.", where) from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)  # noqa: DTZ001 - made aware below
    if not isinstance(value, datetime):
        raise fail(f"{name}={value!r} is not a date. Give a datetime such as datetime(2026, 1, 31).", where)
    return value if value.utcoffset() is not None else value.replace(tzinfo=zone(defaults().timezone))


def optional_aware(name: str, value: object, where: Location | None = None) -> datetime | None:
    """As `aware`, but None is allowed too."""
    return None if value is None else aware(name, value, where)


def zone_name(moment: datetime, where: Location | None = None) -> str:
    """The name of the time zone of `moment`, as schedules store it: an IANA name or an offset such as +02:00."""
    try:
        return schedule_timezone(moment)
    except TimetableError as error:
        raise fail(f"start_date={moment.isoformat()}: {error}", where, kind=TimetableError) from None
