"""`airflow.utils.timezone`: instants with a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any, Final

import pendulum
from dateutil.relativedelta import relativedelta

from aiosched.authoring.base.settings import defaults
from aiosched.core.timetables import zone

utc: Final = pendulum.UTC

__all__ = [
    "coerce_datetime",
    "convert_to_utc",
    "datetime",
    "from_timestamp",
    "initialize",
    "is_localized",
    "is_naive",
    "local_timezone",
    "make_aware",
    "make_naive",
    "parse",
    "parse_timezone",
    "td_format",
    "utc",
    "utc_epoch",
    "utcnow",
]


def utcnow() -> datetime:
    """Now, aware, in UTC."""
    return datetime.now(UTC)


def utc_epoch() -> datetime:
    """1 January 1970 in UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC)


def is_localized(value: datetime) -> bool:
    """Whether `value` has an offset from UTC."""
    return value.utcoffset() is not None


def is_naive(value: datetime) -> bool:
    """Whether `value` has no offset from UTC."""
    return not is_localized(value)


def make_aware(value: datetime | None, timezone: tzinfo | None = None) -> datetime | None:
    """`value` in `timezone`, by default that of the setting. Raises ValueError for an aware one."""
    if value is None:
        return None
    if is_localized(value):
        raise ValueError(f"make_aware() takes a naive datetime, and {value!r} has a time zone. Use astimezone().")
    return value.replace(tzinfo=timezone or _default())


def make_naive(value: datetime, timezone: tzinfo | None = None) -> datetime:
    """The wall clock of `value` in `timezone`, by default that of the setting. Raises ValueError for a naive one."""
    if is_naive(value):
        raise ValueError(f"make_naive() takes an aware datetime, and {value!r} has no time zone.")
    return value.astimezone(timezone or _default()).replace(tzinfo=None)


def convert_to_utc(value: datetime | None) -> pendulum.DateTime | None:
    """`value` in UTC, as pendulum; a naive one is read in the default time zone."""
    aware = coerce_datetime(value)
    return None if aware is None else aware.in_timezone("UTC")


def coerce_datetime(value: datetime | None, tz: tzinfo | None = None) -> pendulum.DateTime | None:
    """`value` as pendulum, aware; in `tz` if that is given."""
    if value is None:
        return None
    aware = value if is_localized(value) else value.replace(tzinfo=_default())
    found = pendulum.instance(aware)
    return found if tz is None else found.in_timezone(tz)  # type: ignore[arg-type] # takes every tzinfo


def parse(string: str, timezone: tzinfo | None = None, *, strict: bool = False) -> pendulum.DateTime:
    """The instant that `string` has; without an offset it is in `timezone`, by default that of the setting."""
    found: pendulum.DateTime = pendulum.parse(string, tz=timezone or _default(), strict=strict)  # type: ignore[assignment]
    return found


def parse_timezone(name: str | int) -> Any:
    """The time zone of that name, or of that offset in seconds."""
    return pendulum.FixedTimezone(name) if isinstance(name, int) else pendulum.Timezone(name)


def local_timezone() -> Any:
    """The time zone of this machine."""
    return pendulum.now().timezone


def from_timestamp(timestamp: float, tz: Any = utc) -> pendulum.DateTime:
    """The instant at that many seconds after 1970, in `tz`."""
    return pendulum.from_timestamp(timestamp, tz=tz)


def initialize(default_timezone: str) -> None:
    """Nothing: the time zone is the setting `core.default_timezone`."""


def td_format(span: relativedelta | float | None) -> str | None:
    """A duration in a few letters, such as `1d2h3min`; None for none."""
    if span is None:
        return None
    rest = relativedelta(seconds=int(span)) if isinstance(span, int | float) else span
    rest = rest.normalized()
    units = (("y", "years"), ("mon", "months"), ("d", "days"), ("h", "hours"), ("min", "minutes"), ("s", "seconds"))
    return "".join(f"{getattr(rest, name)}{unit}" for unit, name in units if getattr(rest, name)) or "<1s"


def _default() -> tzinfo:
    return zone(defaults().timezone)
