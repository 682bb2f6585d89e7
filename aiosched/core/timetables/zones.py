"""Time zones by name, as schedules store them: `Europe/Amsterdam`, `UTC`, `+02:00`."""

from __future__ import annotations

import difflib
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from aiosched.errors import TimetableError

_LONGEST: Final = 64  # characters of a mistyped name
_OFFSET: Final = re.compile(r"^([+-])(\d{2}):(\d{2})$")


@cache
def _names() -> list[str]:
    return sorted(available_timezones())  # reads some 600 files


@lru_cache(maxsize=1024)
def zone(name: str) -> tzinfo:
    """The time zone with that name: an IANA name or a fixed offset such as `+02:00`.

    Raises TimetableError, with the nearest names, for one that does not exist.
    """
    if name == "UTC":
        return UTC
    if offset := _OFFSET.match(name):
        sign, hours, minutes = offset.groups()
        shift = timedelta(hours=int(hours), minutes=int(minutes))
        if int(minutes) < 60 and shift < timedelta(days=1):
            return timezone(-shift if sign == "-" else shift)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        near = difflib.get_close_matches(name[:_LONGEST], _names(), n=2, cutoff=0.6)
        remedy = f"did you mean {' or '.join(map(repr, near))}?" if near else "use an IANA name, 'Europe/Amsterdam'."
        raise TimetableError(f"There is no time zone {name!r:.200}; {remedy}") from None


def timezone_name(value: str | tzinfo) -> str:
    """The name under which `value` is stored; `zone()` of it is the same time zone.

    Takes names, ZoneInfo, pendulum and pytz zones and fixed offsets. Raises
    TimetableError for a name that does not exist and for a zone that has no name.
    """
    if isinstance(value, str):
        zone(value)
        return value
    if value is UTC:
        return "UTC"
    name = getattr(value, "key", None) or getattr(value, "zone", None)
    if isinstance(name, str):
        return name
    offset = value.utcoffset(None)
    if offset is None:
        raise TimetableError(f"The time zone {value!r} has no name; use zoneinfo.ZoneInfo('Area/City') instead.")
    if not offset:
        return "UTC"
    minutes = round(abs(offset).total_seconds()) // 60
    return f"{'-' if offset < timedelta(0) else '+'}{minutes // 60:02}:{minutes % 60:02}"


def schedule_timezone(start_date: datetime | None) -> str:
    """The zone of a cron schedule: that of the DAG's start date, else UTC.

    Source: the semantics reference, section 11.1.
    """
    if start_date is None or start_date.tzinfo is None:
        return "UTC"
    return timezone_name(start_date.tzinfo)
