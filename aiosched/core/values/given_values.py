"""Gives values that people write as JSON the type of a default: a date for a date, a set for a set. Pure.

Pages, requests and command lines give text, numbers, lists and objects. The default says what they mean; a value
never names a class by itself.
"""

from __future__ import annotations

import json
import zoneinfo
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from aiosched.core.values.json_bounds import is_bounded
from aiosched.core.values.texts import cut_repr
from aiosched.core.values.typed_json import MARK, VALUE, Tagged, decode, marked_text, plain_text, tagged, without_marks
from aiosched.core.values.typed_objects import Find, typed

_INSTANTS: Final = frozenset({"datetime", "pendulum.DateTime"})
_LISTS: Final = frozenset({"tuple", "set", "frozenset", "deque"})
_DICTS: Final = frozenset({"dict", "ordered dict", "defaultdict", "counter"})
_NUMBERS: Final = frozenset({"int", "float"})
_DURATIONS: Final = frozenset({"timedelta", "pendulum.Duration"})
_DIGITS: Final = frozenset({"decimal", "fraction"})
_CHECKED: Final = frozenset(
    {"int", "float", "datetime", "date", "time", "timedelta", "decimal", "uuid", "bytes", "address"}
)
_LONGEST: Final = 1_000  # characters of one of these
_WRONG: Final = (ValueError, TypeError, ArithmeticError, AttributeError, LookupError)


class CannotConvert(ValueError):
    """A value that cannot have the type of its default; the message says so."""

    def __init__(self, given: Any, default: Tagged) -> None:
        kind = str(default.get("class", default[MARK])).rpartition(":")[2]
        example = cut_repr(without_marks(default))
        super().__init__(f"{cut_repr(given)} is no {kind}, which its default is: give a value such as {example}")


def parts_of(value: Any, find: Find) -> Any:
    """A value as JSON with marks: itself if it needs none. Raises NotJson."""
    text = plain_text(value)
    if text is None:
        return json.loads(typed(value, find))
    return value if is_bounded(text) else json.loads(marked_text(value))


def like(given: Any, default: Any) -> Any:
    """`given` (JSON) with the marks that `default` (JSON with marks) has. None, and what has a mark, stay as they are.

    A time is in the zone of the default, in UTC if that has none. Raises CannotConvert.
    """
    if given is None or (isinstance(given, dict) and MARK in given):
        return given
    if isinstance(default, list) and isinstance(given, list):
        return _items(given, default)
    if not isinstance(default, dict):
        return given
    if MARK in default:
        return _as(given, default)
    if isinstance(given, dict):
        return {key: like(item, default[key]) if key in default else item for key, item in given.items()}
    return given


def find_problem(given: Any, default: Any) -> str | None:
    """What is wrong with a value for a param with that default, as far as it can be known without its class."""
    try:
        _check(like(given, default))
    except CannotConvert as error:
        return str(error)
    return None


def _as(given: Any, default: Tagged) -> Any:
    kind, value = default[MARK], default.get(VALUE)
    if kind in _INSTANTS:
        return _instant(given, default)
    if kind in _NUMBERS:
        if not isinstance(given, str | int | float) or len(str(given)) > _LONGEST:
            raise CannotConvert(given, default)
        return given if _is_number(given) else tagged(kind, given)
    if kind in _DURATIONS:
        if not _is_number(given):
            raise CannotConvert(given, default)
        return tagged(kind, given) if kind == "timedelta" else tagged(kind, str(given), seconds=given)
    if kind in _DIGITS and _is_number(given):
        return default | {VALUE: str(given)}
    if kind in _DICTS and isinstance(given, dict) and isinstance(value, list):
        return default | {VALUE: _pairs(given, value)}
    if kind in _DICTS or (kind in _LISTS and not isinstance(given, list)):
        raise CannotConvert(given, default)
    return default | {VALUE: like(given, value)}


def _items(given: list[Any], default: list[Any]) -> list[Any]:
    """By the items of the default: by any of them if all are of one kind, else each by that in its place."""
    if not default:
        return given
    one = len({item.get(MARK) if isinstance(item, dict) else type(item) for item in default}) == 1
    rest = default[0] if one else None
    return [like(item, default[place] if place < len(default) else rest) for place, item in enumerate(given)]


def _pairs(given: Mapping[str, Any], default: list[Any]) -> list[Any]:
    """The items of a dict, whose keys are the default's where these are no text."""
    keys = {str(key): (key, item) for key, item in default}
    numbers = bool(default) and all(type(key) is int for key, _ in default)
    found = []
    for key, item in given.items():
        own, like_what = keys.get(key, (key, None))
        number = numbers and own is key and key.removeprefix("-").isdecimal() and len(key) < 20
        found.append([int(key) if number else own, like(item, like_what)])
    return found


def _instant(given: Any, default: Tagged) -> Tagged:
    try:
        moment, usual = datetime.fromisoformat(given), datetime.fromisoformat(default[VALUE])
        name = default.get("zone", default.get("pendulum_zone"))
        zone = usual.tzinfo if name is None else zoneinfo.ZoneInfo(name)
        if zone is None:
            moment = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
        else:
            moment = moment.replace(tzinfo=zone) if moment.tzinfo is None else moment.astimezone(zone)
    except _WRONG:
        raise CannotConvert(given, default) from None
    kept = {key: part for key, part in default.items() if key != "fold"}
    return kept | {VALUE: moment.isoformat()} | ({"fold": 1} if moment.fold else {})


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _check(parts: Any) -> None:
    """Raise CannotConvert for a part that cannot be read as its kind; costly kinds are left out."""
    if isinstance(parts, list):
        for item in parts:
            _check(item)
    elif isinstance(parts, dict) and isinstance(kind := parts.get(MARK), str) and kind in _CHECKED:
        if len(str(parts.get(VALUE))) > _LONGEST and kind != "bytes":
            raise CannotConvert(parts.get(VALUE), tagged(kind, ""))
        try:
            decode(json.dumps(parts))
        except Exception:  # anyone can have written it: the name of a zone is looked up as a file
            raise CannotConvert(parts.get(VALUE), _EXAMPLES.get(kind, parts)) from None
    elif isinstance(parts, dict):
        for item in parts.values():
            _check(item)


_EXAMPLES: Final[Mapping[str, Tagged]] = {
    kind: tagged(kind, value)
    for kind, value in {
        "int": "5",
        "float": "1.5",
        "datetime": "2026-01-31T06:00:00+00:00",
        "date": "2026-01-31",
        "time": "06:00:00",
        "decimal": "1.50",
        "uuid": "12345678-1234-5678-1234-567812345678",
        "bytes": "YWJj",
        "address": "192.0.2.1",
    }.items()
}
