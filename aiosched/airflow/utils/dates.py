"""`airflow.utils.dates` of Airflow 1.10 and 2: days ago, ranges of dates, units of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from croniter import croniter
from dateutil.relativedelta import relativedelta

from aiosched.authoring.base.settings import defaults
from aiosched.core.timetables import PRESETS, zone

__all__ = [
    "cron_presets",
    "date_range",
    "datetime",
    "days_ago",
    "infer_time_unit",
    "parse_execution_date",
    "round_time",
    "scale_time_units",
    "timedelta",
]

cron_presets: Final = dict(PRESETS)
_UNITS: Final = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}


def days_ago(n: int, hour: int = 0, minute: int = 0, second: int = 0, microsecond: int = 0) -> datetime:
    """That time of the day `n` days ago, in the default time zone (`core.default_timezone`); midnight by default."""
    today = datetime.now(zone(defaults().timezone))
    day = today - timedelta(days=n)
    return day.replace(hour=hour, minute=minute, second=second, microsecond=microsecond)


def date_range(
    start_date: datetime,
    end_date: datetime | None = None,
    num: int | None = None,
    delta: str | timedelta | relativedelta | None = None,
) -> list[datetime]:
    """The dates from `start_date` on: up to `end_date` (or now), or `num` of them; a negative `num` goes back.

    `delta` is a distance or a cron expression. Without one there are no dates. Raises ValueError for both limits.
    """
    if not delta:
        return []
    if end_date is not None and num is not None:
        raise ValueError("date_range() takes end_date or num, not both. Leave one out.")
    if end_date is not None and start_date > end_date:
        raise ValueError(f"date_range() from {start_date} to {end_date}: the start is after the end. Exchange them.")
    if num is not None:
        dates = [start_date]
        while len(dates) < abs(num):
            dates.append(_step(dates[-1], delta, forward=num > 0))
        return sorted(dates[: abs(num)])
    last = end_date if end_date is not None else datetime.now(start_date.tzinfo or UTC)
    if end_date is None and start_date.tzinfo is None:
        last = last.replace(tzinfo=None)
    dates = []
    current = _step(start_date - timedelta(seconds=1), delta, forward=True) if isinstance(delta, str) else start_date
    while current <= last:
        dates.append(current)
        current = _step(current, delta, forward=True)
    return dates


def round_time(
    dt: datetime, delta: str | timedelta | relativedelta, start_date: datetime = datetime(1970, 1, 1, tzinfo=UTC)
) -> datetime:
    """The nearest of the dates `start_date` + n * `delta`, not before `start_date`; the earlier of two as near."""
    at = start_date if (dt.tzinfo is None) == (start_date.tzinfo is None) else start_date.replace(tzinfo=dt.tzinfo)
    if isinstance(delta, str):
        schedule = croniter(PRESETS.get(delta, delta), dt)
        earlier: datetime = schedule.get_prev(datetime)
        following: datetime = schedule.get_next(datetime)
        return max(at, following if following == dt else earlier)
    if isinstance(delta, timedelta):
        count = max(0, (dt - at) // delta)
        before = at + count * delta
    else:
        before = at
        while before + delta <= dt:
            before += delta
    after = before + delta
    return before if dt - before <= after - dt else after


def infer_time_unit(time_seconds_arr: Sequence[float]) -> str:
    """The unit in which the longest of these durations (in seconds) is most readable."""
    longest = max(time_seconds_arr, default=0)
    for unit, limit in (("seconds", 120), ("minutes", 7200), ("hours", 172_800)):
        if longest <= limit:
            return unit if time_seconds_arr else "hours"
    return "days"


def scale_time_units(time_seconds_arr: Sequence[float], unit: str) -> list[float]:
    """These durations, in seconds, in another unit."""
    return [seconds / _UNITS[unit] for seconds in time_seconds_arr]


def parse_execution_date(execution_date_str: str) -> datetime:
    """The instant that the text has."""
    return datetime.fromisoformat(execution_date_str)


def _step(moment: datetime, delta: str | timedelta | relativedelta, *, forward: bool) -> datetime:
    if isinstance(delta, str):
        schedule = croniter(PRESETS.get(delta, delta), moment)
        found: datetime = schedule.get_next(datetime) if forward else schedule.get_prev(datetime)
        return found
    moved: datetime = moment + delta if forward else moment - delta
    return moved
