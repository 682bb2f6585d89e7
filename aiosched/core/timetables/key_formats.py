"""Partition keys as text: formatting an instant as a key, and reading a key back.

A format has the directives of `strftime`; `{quarter}` is the number of the quarter. Source: the semantics reference,
section 37.2.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from aiosched.core.timetables.zones import zone

MOST_CHARACTERS: Final = 250  # of a partition key
DEFAULT_FORMAT: Final = "%Y-%m-%dT%H:%M:%S"
QUARTER: Final = "{quarter}"

_DIGITS: Final = {"Y": r"\d{4}", **dict.fromkeys("mdHMSVUW", r"\d{2}")}
_PARTS: Final = re.compile(r"%(?P<directive>[YmdHMSVUW])|(?P<quarter>\{quarter\})|(?P<literal>.)", re.DOTALL)
_NAMES: Final = {"Y": "year", "m": "month", "d": "day", "H": "hour", "M": "minute", "S": "second"}
_COMPUTED: Final = frozenset("VUW")  # directives that follow from a date and are not read back


def check_key(key: str) -> str:
    """The key itself. Raises ValueError for one that is blank, not printable or longer than `MOST_CHARACTERS`."""
    if not key.strip() or not key.isprintable():
        raise ValueError(f"The partition key {key[:50]!r} is not printable text.")
    if len(key) > MOST_CHARACTERS:
        raise ValueError(f"The partition key {key[:20]!r}… has {len(key)} characters; use at most {MOST_CHARACTERS}.")
    return key


def check_format(form: str) -> None:
    """Raise ValueError for a format whose keys cannot be read back: with a directive that is given twice."""
    pattern_of(form)


def format_key(at: datetime, form: str) -> str:
    """The key of `at`, whose wall clock is used as it is."""
    return at.strftime(form).replace(QUARTER, str((at.month - 1) // 3 + 1))


def read_instant(key: str, form: str, timezone: str) -> datetime:
    """The instant of a key that has the format, on the wall clock of the time zone. Raises ValueError."""
    at = datetime.strptime(key, form)  # noqa: DTZ007 - the zone follows
    return instant_at(at, timezone) if at.tzinfo is None else at.astimezone(zone(timezone))


def instant_at(wall: datetime, timezone: str) -> datetime:
    """The instant of a wall-clock time: the second one of a repeated hour; one that is skipped moves on by the gap."""
    there = wall.replace(tzinfo=zone(timezone), fold=1)
    if exists(wall, timezone):
        return there
    return there.replace(fold=0).astimezone(UTC).astimezone(there.tzinfo)


def read_period(key: str, form: str) -> datetime:
    """The beginning of the period that a key of `format_key` names, as a naive wall-clock time.

    Parts that the format leaves out are the first ones possible. Raises ValueError for a key without this format, and
    for a format from which no date follows.
    """
    if QUARTER not in form and not any(f"%{directive}" in form for directive in _COMPUTED):
        return datetime.strptime(key, form).replace(tzinfo=None)  # noqa: DTZ007 - a wall clock
    found = pattern_of(form).fullmatch(key)
    if found is None:
        raise ValueError(f"the key {key!r} does not have the format {form!r}")
    parts = {name: int(text) for name, text in found.groupdict().items()}
    if "Y" not in parts or not (parts.keys() & {"m", "quarter"}):
        raise ValueError(f"from the format {form!r} no date follows: give it %Y, and %m and %d, or {QUARTER}")
    if "quarter" in parts:
        parts.setdefault("m", parts["quarter"] * 3 - 2)
    values = {_NAMES[name]: number for name, number in parts.items() if name in _NAMES}
    return datetime(**{"day": 1, **values})  # type: ignore[arg-type]  # noqa: DTZ001 - a wall clock


def exists(at: datetime, timezone: str) -> bool:
    """Whether the wall-clock time occurs in the time zone: clocks that go forward skip some."""
    there = at.replace(tzinfo=zone(timezone))
    return there.astimezone(UTC).astimezone(there.tzinfo).replace(tzinfo=None) == at.replace(tzinfo=None)


@lru_cache(maxsize=256)
def pattern_of(form: str) -> re.Pattern[str]:
    """The regular expression of the keys of a format. Raises ValueError for a directive that is given twice."""
    seen: set[str] = set()
    found = []
    for part in _PARTS.finditer(form):
        name = part["directive"] or ("quarter" if part["quarter"] else "")
        if name in seen:
            raise ValueError(f"The format {form!r} has {part[0]!r} twice: name each part of a key once.")
        seen.update({name} - {""})
        digits = "[1-4]" if name == "quarter" else _DIGITS.get(name)
        found.append(f"(?P<{name}>{digits})" if digits else re.escape(part[0]))
    return re.compile("".join(found))
