"""Cron expressions on the naive wall clock: what they mean, without time zones.

croniter reads the fields and walks the days; a tick is a matching day and a matching time of it, so the times within a
day are looked up. wallclock.py maps the ticks to real time.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left, bisect_right
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

from croniter import CroniterBadDateError, CroniterError, croniter

from aiosched.errors import TimetableError

PRESETS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
WORDS: Final = ("@once", "@continuous", *PRESETS)

_FIELDS: Final = (
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day-of-month", "1-31 or L"),
    ("month", "1-12 or JAN-DEC"),
    ("day-of-week", "0-7 or SUN-SAT"),
    ("second", "0-59"),
)
_FORM: Final = "five fields (minute hour day-of-month month day-of-week), or six with the seconds last"
_RANDOM: Final = re.compile(r"(?<![a-z])[hr](?![a-z])", re.IGNORECASE)  # Jenkins' H and R: no fixed instants
_SINGLE: Final = re.compile(r"(?<![\w-])(\w+)-\1(?:/\d+)?(?![\w-])", re.IGNORECASE)  # `5-5`: for croniter all, here 5
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_LAST_WEEKDAY: Final = re.compile(rf"([0-7]|{'|'.join(_WEEKDAYS)})L", re.IGNORECASE)  # as Quartz writes it
_DAY: Final = timedelta(days=1)


class Cron:
    """One parsed expression. Create it with `parse_cron`.

    `after` and `before` take and return naive wall times; the result is strictly later or earlier. `every_hour`: the
    hour field is `*`.
    """

    __slots__ = ("_days", "_every_day", "_minutes", "_seconds", "every_hour", "expression")

    def __init__(self, expression: str) -> None:
        fields = _fields_of(expression)
        minutes, hours, *days, seconds = _expanded(expression, fields)
        self.expression: str = expression
        self.every_hour: bool = len(hours) == 24
        self._minutes = tuple(60 * hour + minute for hour in hours for minute in minutes)  # of the day
        self._seconds = tuple(seconds)
        self._days = " ".join(fields[2:5])
        self._every_day = not any(days)
        if not self._every_day and _day_after(self._days, date(2000, 1, 1)) is None:
            raise TimetableError(
                f"The cron expression {expression!r} never happens: no calendar has such a day; "
                "correct its day-of-month and month fields."
            )

    def after(self, wall: datetime) -> datetime:
        """The first tick strictly after `wall`."""
        day, second = wall.date(), wall.hour * 3600 + wall.minute * 60 + wall.second
        if self._matches(day) and (found := self._second_after(second)) is not None:
            return _at(day, found)
        following = day + _DAY if self._every_day else _day_after(self._days, day)
        if following is None:
            raise self._exhausted(wall)
        return _at(following, 60 * self._minutes[0] + self._seconds[0])

    def before(self, wall: datetime) -> datetime:
        """The last tick strictly before `wall`."""
        day, second = wall.date(), wall.hour * 3600 + wall.minute * 60 + wall.second + bool(wall.microsecond)
        if self._matches(day) and (found := self._second_before(second)) is not None:
            return _at(day, found)
        previous = day - _DAY if self._every_day else _day_before(self._days, day)
        if previous is None:
            raise self._exhausted(wall)
        return _at(previous, 60 * self._minutes[-1] + self._seconds[-1])

    def is_tick(self, wall: datetime) -> bool:
        """True when the expression matches `wall` to the second."""
        return not wall.microsecond and self.after(wall - timedelta(seconds=1)) == wall

    def _matches(self, day: date) -> bool:
        return self._every_day or _day_after(self._days, day - _DAY) == day

    def _second_after(self, second: int) -> int | None:
        minutes, seconds = self._minutes, self._seconds
        minute, rest = divmod(second, 60)
        at = bisect_left(minutes, minute)
        if at < len(minutes) and minutes[at] == minute:
            if rest < seconds[-1]:
                return 60 * minute + seconds[bisect_right(seconds, rest)]
            at += 1
        return 60 * minutes[at] + seconds[0] if at < len(minutes) else None

    def _second_before(self, second: int) -> int | None:
        minutes, seconds = self._minutes, self._seconds
        minute, rest = divmod(second, 60)
        at = bisect_left(minutes, minute)
        if at < len(minutes) and minutes[at] == minute and rest > seconds[0]:
            return 60 * minute + seconds[bisect_left(seconds, rest) - 1]
        return 60 * minutes[at - 1] + seconds[-1] if at else None

    def _exhausted(self, wall: datetime) -> TimetableError:
        return TimetableError(f"The cron expression {self.expression!r} has no tick within 50 years of {wall}.")


@lru_cache(maxsize=8192)
def parse_cron(expression: str) -> Cron:
    """Parse five or six cron fields or a preset such as `@daily`.

    Raises TimetableError, naming the invalid field and the remedy.
    """
    return Cron(expression)


def nearest_words(text: str) -> str:
    """A remedy for a mistyped preset: `did you mean '@daily'?`, or nothing."""
    near = difflib.get_close_matches("@" + text.lstrip("@").lower(), WORDS, n=1, cutoff=0.75)
    return f"did you mean {near[0]!r}?" if near else ""


def _fields_of(expression: str) -> list[str]:
    fields = _SINGLE.sub(r"\1", PRESETS.get(expression.strip().lower(), expression)).split()
    if len(fields) in {5, 6}:
        return fields
    if len(fields) == 1:
        remedy = nearest_words(fields[0]) or f"use a preset ({', '.join(WORDS)}) or a cron expression of {_FORM}."
        raise TimetableError(f"{expression!r} is not a schedule; {remedy}")
    raise TimetableError(
        f"The cron expression {expression!r} has {len(fields)} fields; it needs {_FORM}.{_meant(fields)}"
    )


def _expanded(expression: str, fields: list[str]) -> tuple[list[int], list[int], bool, bool, bool, list[int]]:
    """Minutes, hours, whether each of the three day fields restricts anything, seconds; numbers are sorted."""
    read = [_read_field(expression, fields, position) for position in range(len(fields))]
    try:
        croniter.expand(" ".join(fields))
    except (CroniterError, TypeError, ValueError) as problem:
        raise TimetableError(f"The cron expression {expression!r} cannot be understood: {problem}") from None
    seconds = _numbers(read[5], 60) if len(read) == 6 else [0]
    return (_numbers(read[0], 60), _numbers(read[1], 24), *(field != ["*"] for field in read[2:5]), seconds)  # type: ignore[return-value]


def _read_field(expression: str, fields: list[str], position: int) -> list[int | str]:
    """One field as croniter expands it; the error names the field, and what was probably meant."""
    try:
        return _alone(position, fields[position])
    except (CroniterError, TypeError, ValueError, IndexError):
        name, allowed = _FIELDS[position]
        raise TimetableError(
            f"The cron expression {expression!r} cannot be understood: its {name} field {fields[position]!r} "
            f"is not a list of numbers, ranges and steps within {allowed}; correct that field.{_meant(fields)}"
        ) from None


def _alone(position: int, text: str) -> list[int | str]:
    """One field as croniter expands it, with `*` for all others. Raises various errors."""
    if _RANDOM.search(text):
        raise CroniterError("H and R have no fixed instants")
    alone = ["*"] * max(5, position + 1)
    alone[position] = text
    expanded: list[list[int | str]] = croniter.expand(" ".join(alone))[0]
    return expanded[position]


def _meant(fields: list[str]) -> str:
    """What fields that are refused mean elsewhere: seconds first, a year last, `5L` for the last Friday; or nothing."""
    remarks: list[str] = []
    if len(fields) == 7 and fields[6] in {"*", "?"}:
        fields = fields[:6]
        remarks.append("there is no field for years")
    if len(fields) == 6 and not _reads(fields):
        fields = [*fields[1:], fields[0]]
        remarks.append("seconds are the last of six fields")
    if last := _LAST_WEEKDAY.fullmatch(fields[4] if len(fields) > 4 else ""):
        day = _WEEKDAYS.index(last[1].upper()) if last[1].isalpha() else int(last[1]) % 7
        fields = [*fields[:4], f"L{day}", *fields[5:]]
        remarks.append(f"the last {_WEEKDAYS[day].capitalize()} of a month is L{day}")
    if not remarks or not _reads(fields):
        return ""
    remark = "; ".join(remarks)
    return f" {remark[0].upper()}{remark[1:]}: did you mean {' '.join(fields)!r}?"


def _reads(fields: list[str]) -> bool:
    """Whether each of the fields can be understood."""
    try:
        for position, text in enumerate(fields):
            _alone(position, text)
    except (CroniterError, TypeError, ValueError, IndexError):
        return False
    return len(fields) in {5, 6}


def _numbers(field: list[int | str], size: int) -> list[int]:
    return list(range(size)) if field == ["*"] else sorted(int(number) for number in field)


def _at(day: date, second: int) -> datetime:
    minute, second = divmod(second, 60)
    return datetime(day.year, day.month, day.day, minute // 60, minute % 60, second)  # noqa: DTZ001 (a wall time)


@lru_cache(maxsize=4096)
def _day_after(days: str, day: date) -> date | None:
    """The first day strictly after `day` that the three day fields `days` match; None within 50 years."""
    return _croniter_day(days, day, "get_next")


@lru_cache(maxsize=4096)
def _day_before(days: str, day: date) -> date | None:
    """The last day strictly before `day` that the three day fields `days` match; None within 50 years."""
    return _croniter_day(days, day, "get_prev")


def _croniter_day(days: str, day: date, step: str) -> date | None:
    midnight = _at(day, 0)
    try:
        found: datetime = getattr(croniter(f"0 0 {days}", midnight), step)(datetime)
    except CroniterBadDateError:
        return None
    return found.date()
