"""Dates as authors write them: aware or naive datetimes, pendulum, ISO strings; and their time zones."""

from __future__ import annotations

from datetime import date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from aiosched.authoring.checks import fail
from aiosched.authoring.location import Location
from aiosched.authoring.settings import defaults


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
    return value if value.utcoffset() is not None else value.replace(tzinfo=ZoneInfo(defaults().timezone))


def optional_aware(name: str, value: object, where: Location | None = None) -> datetime | None:
    """As `aware`, but None is allowed too."""
    return None if value is None else aware(name, value, where)


def zone_name(moment: datetime, where: Location | None = None) -> str:
    """The IANA name of the time zone of `moment`; whole-hour offsets become `Etc/GMT…`, an offset of zero UTC."""
    zone = moment.tzinfo
    for attribute in ("key", "name", "zone"):  # zoneinfo, pendulum, pytz
        name = getattr(zone, attribute, None)
        if isinstance(name, str) and _is_iana(name):
            return "UTC" if name in {"Etc/UTC", "Zulu", "Etc/Zulu"} else name
    offset = moment.utcoffset()
    if zone is not None and offset is not None and _is_fixed(zone, moment, offset):
        hours, rest = divmod(offset, timedelta(hours=1))
        if not hours and not rest:
            return "UTC"
        if not rest and -14 <= -hours <= 12:
            return f"Etc/GMT{-hours:+d}"
    raise fail(
        f"The time zone of {moment.isoformat()} ({zone!r}) has no IANA name. "
        "Use zoneinfo.ZoneInfo('Europe/Amsterdam') or pendulum.datetime(…, tz='Europe/Amsterdam').",
        where,
    )


def _is_iana(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _is_fixed(zone: tzinfo, moment: datetime, offset: timedelta) -> bool:
    """Whether `zone` keeps one offset all year (asked in four months)."""
    return all(moment.replace(month=month, day=1).utcoffset() == offset for month in (1, 4, 7, 10))
