"""JSON that gives back what it was made of, type for type. Pure: nothing here imports a class by its name.

What JSON itself holds (None, booleans, numbers, text, lists, dicts with text as keys) is written as it is. Anything
else becomes an object with a mark, which says what the value is:

    datetime(2026, 1, 2, tzinfo=ZoneInfo("Europe/Amsterdam"))
        {"$aiosched": "datetime", "value": "2026-01-02T00:00:00+01:00", "zone": "Europe/Amsterdam"}
    (1, Decimal("2.50"))      {"$aiosched": "tuple", "value": [1, {"$aiosched": "decimal", "value": "2.50"}]}
    {1: "a"}                  {"$aiosched": "dict", "value": [[1, "a"]]}; so is a dict with a key like the mark
    Point(x=1)                {"$aiosched": "object", "class": "shapes:Point", "value": {"x": 1}}

`value` of a collection is an array of as many items. Objects and arrays of libraries are in typed_objects.py: they need
`Find`, which imports a module; only processes that run the code of authors have one.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import math
import pathlib
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from types import MappingProxyType, NoneType
from typing import Any, Final

import msgspec

from aiosched.core.values.json_bounds import LEAST_INTEGER, MOST_DEPTH, MOST_INTEGER, find_problem, is_bounded
from aiosched.core.values.texts import a_type

MARK: Final = "$aiosched"
VALUE: Final = "value"
PATH: Final = "__object_storage_path__"  # an object with this key alone is a path in an object store

Tagged = dict[str, Any]
Writer = Callable[[Any], Any]  # the parts of a value, or NotImplemented
Reader = Callable[[Tagged], Any]

_MARK_IN_TEXT: Final = f'"{MARK}"'
_PATH_IN_TEXT: Final = f'"{PATH}"'
_MARK_IN_BYTES: Final = _MARK_IN_TEXT.encode()
_PATH_IN_BYTES: Final = _PATH_IN_TEXT.encode()
_SCALARS: Final = frozenset({NoneType, bool, int, str})
_PLAIN: Final = _SCALARS | {float, list, dict}
RESERVED: Final = frozenset({MARK, PATH})
_SMALL: Final = 2 * MOST_DEPTH  # characters: it cannot be nested more deeply
_FEW: Final = 1_024  # characters: of fewer, one value after the other is faster than whole levels
_CONTAINERS: Final = frozenset({list, dict})
_TEXT: Final = frozenset({str})
_OF_PAIRS: Final = frozenset({"dict", "ordered dict", "defaultdict", "counter"})
_FACTORIES: Final[Mapping[str, Any]] = MappingProxyType(
    {kind.__name__: kind for kind in (list, dict, set, int, float, str, bool, tuple)}
)
_ADDRESSES: Final = (
    "IPv4Address", "IPv6Address", "IPv4Network", "IPv6Network", "IPv4Interface", "IPv6Interface",
)  # fmt: skip
_PATHS: Final = ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")

_encode: Final = msgspec.json.Encoder().encode


class NotJson(TypeError):
    """A value that cannot be given back: `place` in it, such as `['a'][1]`, and what is wrong there."""

    def __init__(self, what: str, place: str = "") -> None:
        super().__init__(f"{place or 'it'} {what}")
        self.what: str = what
        self.place: str = place


def plain_text(value: Any) -> bytes | None:
    """The JSON of a value that needs no mark; None for others. The fast way, for most values."""
    kind = type(value)
    if kind is float:
        return _encode(value) if math.isfinite(value) else None
    is_container = kind is dict or kind is list
    if not is_container and kind not in _SCALARS:
        return None
    try:
        text = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    if not is_container or (_is_small_plain(value) if _is_small(text) else _is_plain(value, text)):
        return text
    return None


def marked_text(value: Any, more: Writer | None = None) -> bytes:
    """The JSON of any value. `more` writes what this module does not know, and returns NotImplemented for the rest.

    Raises NotJson.
    """
    try:
        parts = _Walk(more).parts(value)
        text = _encode(parts)
    except RecursionError:
        raise NotJson("is nested too deeply, or contains itself") from None
    except UnicodeEncodeError:
        raise NotJson("has a text with lone surrogates, which is not Unicode: decode or replace it") from None
    if not is_bounded(text) and (problem := find_problem(parts, "")) is not None:
        raise NotJson(problem.what)
    return text


def decode(text: str | bytes, read: Mapping[str, Reader] = MappingProxyType({})) -> Any:
    """The value of a text made by `marked_text`, or of any JSON. `read` are the readers of further marks.

    Raises ValueError for a mark that is not known here.
    """

    def give_back(found: Tagged) -> Any:
        if MARK in found:
            reader = _READERS.get(found[MARK]) or read.get(found[MARK])
            if reader is None:
                raise ValueError(f"a value of the kind {found[MARK]!r:.80} cannot be read here")
            return reader(found)
        if len(found) == 1 and PATH in found and PATH in read:
            return read[PATH](found)
        return found

    return json.loads(text, object_hook=give_back)


def is_marked(text: str | bytes) -> bool:
    """Whether a text can have values that JSON does not hold."""
    if isinstance(text, str):
        return _MARK_IN_TEXT in text or _PATH_IN_TEXT in text
    return _MARK_IN_BYTES in text or _PATH_IN_BYTES in text


def items_in(text: str) -> list[msgspec.Raw] | dict[str, msgspec.Raw] | None:
    """The items of a list, tuple or dict as JSON, not decoded yet; None for other values."""
    if text.startswith("["):
        return msgspec.json.decode(text, type=list[msgspec.Raw])
    if not text.startswith("{"):
        return None
    found = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    if MARK not in found:
        return found
    kind = msgspec.json.decode(found[MARK])
    return msgspec.json.decode(found[VALUE], type=list[msgspec.Raw]) if kind == "tuple" else None


def json_length(text: str) -> int | None:
    """The number of items of a list, dict or other collection; None for other values, and for what is not JSON."""
    try:
        if text.startswith("["):
            return len(msgspec.json.decode(text, type=list[msgspec.Raw]))
        if not text.startswith("{"):
            return None
        found = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return None
    return json_length(bytes(found.get(VALUE, b"")).decode()) if MARK in found else len(found)


def without_marks(value: Any, *, long_integers: bool = True) -> Any:
    """A JSON value as if there were no marks: a date as text, a tuple as a list. For JSON schemas.

    Integers of more than 64 bits are text without `long_integers`: JSON of ours holds none.
    """
    if isinstance(value, list):
        return [without_marks(item, long_integers=long_integers) for item in value]
    if not isinstance(value, dict):
        return value
    if MARK not in value:
        return {key: without_marks(item, long_integers=long_integers) for key, item in value.items()}
    inner = value.get(VALUE)
    if value[MARK] == "int" and isinstance(inner, str) and long_integers:
        try:
            return int(inner, 0)
        except ValueError:  # anyone can have written it
            return inner
    return _as_dict(value[MARK], without_marks(inner, long_integers=long_integers))


def _as_dict(kind: Any, items: Any) -> Any:
    """The pairs of a dict as an object, if its keys have a text; anything else as it is."""
    if not isinstance(kind, str) or kind not in _OF_PAIRS or not isinstance(items, list):
        return items
    pairs = [pair for pair in items if isinstance(pair, list) and len(pair) == 2]
    if len(pairs) < len(items) or any(isinstance(key, dict | list) for key, _ in pairs):
        return items
    return {key if isinstance(key, str) else json.dumps(key): item for key, item in pairs}


def readable(value: Any) -> Any:
    """What a JSON value with marks holds, for people: `{"$aiosched": "decimal", "value": "2.50"}` is `decimal 2.50`."""
    if isinstance(value, list):
        return [readable(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(MARK)
    if not isinstance(kind, str):
        return {key: readable(item) for key, item in value.items()}
    inner = readable(value.get(VALUE))
    if kind == "dict" and isinstance(inner := _as_dict(kind, inner), dict):
        return inner
    name = str(value.get("class", kind)).rpartition(":")[2]
    if isinstance(inner, dict | list):
        return {name: inner}
    zone = value.get("zone", value.get("pendulum_zone"))
    return f"{name} {inner}" + (f" [{zone}]" if zone else "")


def readable_text(text: str) -> str:
    """The same for JSON text; as it is if it has no marks, or is the beginning of one."""
    if _MARK_IN_TEXT not in text:
        return text
    try:
        return json.dumps(readable(json.loads(text)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def tagged(kind: str, value: Any, **more: Any) -> Tagged:
    """The object of a value of this kind."""
    return {MARK: kind, VALUE: value, **more}


def _is_small(text: bytes) -> bool:
    """Whether the JSON is of few values, which are not nested too deeply."""
    size = len(text)
    return size < _SMALL or (size < _FEW and text.count(b"[") + text.count(b"{") <= MOST_DEPTH)


def _is_plain(value: Any, text: bytes) -> bool:
    """Whether a list or dict has nothing but what JSON gives back. It looks at a whole level at a time, in C.

    `text` is its JSON, so it has an end, and its integers have at most 64 bits.
    """
    has_null = b"null" in text  # not only None: numbers that are not finite, too
    level: Collection[Any] = value
    if type(value) is dict:
        if not _TEXT.issuperset(map(type, value)) or not RESERVED.isdisjoint(value):
            return False
        level = value.values()
    for _ in range(MOST_DEPTH):
        kinds = set(map(type, level))
        if not _PLAIN.issuperset(kinds):
            return False
        if has_null and float in kinds and not all(map(math.isfinite, _of(float, level, kinds))):
            return False
        if _CONTAINERS.isdisjoint(kinds):
            return True
        dicts = _of(dict, level, kinds)
        if not _TEXT.issuperset(map(type, chain.from_iterable(dicts))):
            return False
        if not RESERVED.isdisjoint(chain.from_iterable(dicts)):
            return False
        level = [*chain.from_iterable(_of(list, level, kinds)), *chain.from_iterable(map(dict.values, dicts))]
    return False


def _is_small_plain(value: Any) -> bool:
    """The same, value by value: faster for few."""
    items = [value]
    for item in items:
        kind = type(item)
        if kind is str or kind is int:
            continue
        if kind is dict:
            for key in item:
                if type(key) is not str or key in RESERVED:
                    return False
                items.append(item[key])
        elif kind is list:
            items += item
        elif kind is float:
            if not math.isfinite(item):
                return False
        elif item is not None and kind is not bool:
            return False
    return True


def _of(kind: type, values: Collection[Any], kinds: Collection[type]) -> Collection[Any]:
    """Those of the values that are of a kind; `kinds` are all that there are."""
    if kind not in kinds:
        return ()
    return values if len(kinds) == 1 else [value for value in values if type(value) is kind]


class _Walk:
    """Makes the parts of a value: what JSON holds."""

    def __init__(self, more: Writer | None) -> None:
        self._more = more

    def parts(self, value: Any) -> Any:
        """The parts of one value. Raises NotJson with its place."""
        kind = type(value)
        if kind is str or kind is bool or value is None:
            return value
        if kind is int:
            return _whole(value)
        if kind is float:
            return value if math.isfinite(value) else tagged("float", repr(value))
        if kind is list:
            return self._items(value)
        if kind is dict:
            if all(type(key) is str for key in value) and RESERVED.isdisjoint(value):
                return {key: self._inner(item, key) for key, item in value.items()}
            return tagged("dict", self._pairs(value))
        if kind in _COLLECTIONS:
            return self._collection(kind, value)
        if (write := _WRITERS.get(kind)) is not None:
            return write(value)
        found = NotImplemented if self._more is None else self._more(value)
        if found is NotImplemented:
            raise NotJson(f"is {a_type(value)}, which JSON cannot hold")
        return {key: part if key in {MARK, "class"} else self.parts(part) for key, part in found.items()}

    def _inner(self, value: Any, key: Any) -> Any:
        try:
            return self.parts(value)
        except NotJson as error:
            raise NotJson(error.what, f"[{_shown(key)}]{error.place}") from None

    def _items(self, values: Iterable[Any]) -> list[Any]:
        return [self._inner(item, number) for number, item in enumerate(values)]

    def _pairs(self, value: Mapping[Any, Any]) -> list[Any]:
        return [[self._key(key), self._inner(item, key)] for key, item in value.items()]

    def _key(self, key: Any) -> Any:
        try:
            return self.parts(key)
        except NotJson as error:
            raise NotJson(f"has the key {_shown(key)}, which {error.what}", error.place) from None

    def _collection(self, kind: type, value: Any) -> Tagged:
        name = _COLLECTIONS[kind]
        if kind is defaultdict:
            factory = value.default_factory
            known = factory is None or _FACTORIES.get(getattr(factory, "__name__", "")) is factory
            if not known:
                raise NotJson(f"is a defaultdict with the factory {factory!r:.80}: return dict(value)")
            return tagged(name, self._pairs(value), factory=factory and factory.__name__)
        if isinstance(value, Mapping):
            return tagged(name, self._pairs(value))
        if kind is deque:
            return tagged(name, self._items(value), maxlen=value.maxlen)
        return tagged(name, self._items(_in_order(value) if kind in {set, frozenset} else value))


_COLLECTIONS: Final[Mapping[type, str]] = MappingProxyType(
    {
        tuple: "tuple",
        set: "set",
        frozenset: "frozenset",
        deque: "deque",
        OrderedDict: "ordered dict",
        defaultdict: "defaultdict",
        Counter: "counter",
    }
)


def _shown(key: Any) -> str:
    try:
        return f"{key!r:.80}"
    except Exception:  # any class can be a key
        return "…"


def _in_order(values: Iterable[Any]) -> list[Any]:
    """The items of a set, in the same order each time if they have one."""
    try:
        return sorted(values)
    except Exception:  # any class can be in it
        return list(values)


def _whole(value: int) -> Any:
    return value if LEAST_INTEGER <= value <= MOST_INTEGER else tagged("int", _digits(value))


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # thousands of digits
        return hex(value)


def zone_parts(zone: tzinfo | None) -> dict[str, str]:
    """What a text with the offset does not say about the zone of a time. Raises NotJson."""
    kind = type(zone)
    if zone is None or kind is timezone:
        return _name_parts(zone)
    if isinstance(zone, zoneinfo.ZoneInfo) and kind is zoneinfo.ZoneInfo and zone.key:
        return {"zone": zone.key}
    if kind.__module__.startswith("pendulum.") and kind.__name__ == "Timezone":
        return {"pendulum_zone": str(zone.name)}  # type: ignore[attr-defined] # it is pendulum's
    if kind.__module__.startswith("pendulum.") and kind.__name__ == "FixedTimezone":
        return {"pendulum_offset": str(zone.offset)}  # type: ignore[attr-defined]
    raise NotJson(f"has a time zone that is {a_type(zone)}, which cannot be given back: use zoneinfo.ZoneInfo")


def _name_parts(zone: tzinfo | None) -> dict[str, str]:
    """The name of an offset that has one of its own, such as `timezone(timedelta(hours=1), "CET")`."""
    if zone is None or zone is UTC:
        return {}
    name = str(zone.tzname(None))
    return {} if name == timezone(_offset(zone)).tzname(None) else {"offset_name": name}


def _offset(zone: tzinfo) -> timedelta:
    return zone.utcoffset(None) or timedelta(0)


def clock_parts(value: datetime | time) -> dict[str, Any]:
    """The zone and the fold of a time."""
    return zone_parts(value.tzinfo) | ({"fold": 1} if value.fold else {})


def duration_parts(value: timedelta) -> Tagged:
    """A duration, in seconds, and the microseconds beyond."""
    seconds = value.days * 86_400 + value.seconds
    return tagged("timedelta", seconds, **({"microseconds": value.microseconds} if value.microseconds else {}))


_WRITERS: Final[Mapping[type, Callable[[Any], Tagged]]] = MappingProxyType(
    {
        datetime: lambda value: tagged("datetime", datetime.isoformat(value), **clock_parts(value)),
        date: lambda value: tagged("date", value.isoformat()),
        time: lambda value: tagged("time", value.isoformat(), **clock_parts(value)),
        timedelta: duration_parts,
        timezone: lambda value: tagged("timezone", _offset(value).total_seconds(), **_name_parts(value)),
        zoneinfo.ZoneInfo: lambda value: tagged("zone", _key_of(value)),
        Decimal: lambda value: tagged("decimal", str(value)),
        Fraction: lambda value: tagged("fraction", str(value)),
        uuid.UUID: lambda value: tagged("uuid", str(value)),
        bytes: lambda value: tagged("bytes", base64.b64encode(value).decode()),
        bytearray: lambda value: tagged("bytearray", base64.b64encode(value).decode()),
        complex: lambda value: tagged("complex", [repr(value.real), repr(value.imag)]),
        **{
            getattr(ipaddress, name): lambda value: tagged("address", str(value), address=type(value).__name__)
            for name in _ADDRESSES
        },
        range: lambda value: tagged("range", [_whole(one) for one in (value.start, value.stop, value.step)]),
        **{
            getattr(pathlib, name): lambda value: tagged("path", str(value), path=type(value).__name__)
            for name in _PATHS
        },
    }
)


def _key_of(zone: zoneinfo.ZoneInfo) -> str:
    if not zone.key:
        raise NotJson("is a zone without a name, which cannot be given back")
    return zone.key


def _with_zone(value: Any, found: Tagged) -> Any:
    if "zone" in found:
        value = value.replace(tzinfo=zoneinfo.ZoneInfo(found["zone"]))
    elif "pendulum_zone" in found or "pendulum_offset" in found:
        import pendulum  # takes 50 ms

        zone: tzinfo
        if "pendulum_zone" in found:
            zone = pendulum.timezone(found["pendulum_zone"])
        else:
            zone = pendulum.timezone(int(found["pendulum_offset"]))
        value = value.replace(tzinfo=zone)
    elif "offset_name" in found:
        value = value.replace(tzinfo=timezone(_offset(value.tzinfo), found["offset_name"]))
    return value.replace(fold=found["fold"]) if "fold" in found else value


def _name_in(found: Tagged) -> Collection[str]:
    return [found["offset_name"]] if "offset_name" in found else []


def _default_dict(found: Tagged) -> Any:
    factory = found.get("factory")
    return defaultdict(None if factory is None else _FACTORIES[factory], found[VALUE])


def _named(module: Any, names: Collection[str], key: str) -> Reader:
    """Makes a value of a class in a module of Python by its text; the class is one of `names`."""

    def read(found: Tagged) -> Any:
        if found[key] not in names:
            raise ValueError(f"there is no {key} of the kind {found[key]!r:.80}")
        return getattr(module, found[key])(found[VALUE])

    return read


_READERS: Final[Mapping[str, Reader]] = MappingProxyType(
    {
        "int": lambda found: int(found[VALUE], 0),
        "float": lambda found: float(found[VALUE]),
        "tuple": lambda found: tuple(found[VALUE]),
        "set": lambda found: set(found[VALUE]),
        "frozenset": lambda found: frozenset(found[VALUE]),
        "deque": lambda found: deque(found[VALUE], found.get("maxlen")),
        "dict": lambda found: dict(found[VALUE]),
        "ordered dict": lambda found: OrderedDict(found[VALUE]),
        "defaultdict": _default_dict,
        "counter": lambda found: Counter(dict(found[VALUE])),
        "datetime": lambda found: _with_zone(datetime.fromisoformat(found[VALUE]), found),
        "date": lambda found: date.fromisoformat(found[VALUE]),
        "time": lambda found: _with_zone(time.fromisoformat(found[VALUE]), found),
        "timedelta": lambda found: timedelta(seconds=found[VALUE], microseconds=found.get("microseconds", 0)),
        "timezone": lambda found: timezone(timedelta(seconds=found[VALUE]), *_name_in(found)),
        "zone": lambda found: zoneinfo.ZoneInfo(found[VALUE]),
        "decimal": lambda found: Decimal(found[VALUE]),
        "fraction": lambda found: Fraction(*map(int, found[VALUE].split("/"))),  # "1e999999999" would take for ever
        "uuid": lambda found: uuid.UUID(found[VALUE]),
        "bytes": lambda found: base64.b64decode(found[VALUE]),
        "bytearray": lambda found: bytearray(base64.b64decode(found[VALUE])),
        "complex": lambda found: complex(*map(float, found[VALUE])),
        "range": lambda found: range(*found[VALUE]),
        "path": _named(pathlib, _PATHS, "path"),
        "address": _named(ipaddress, _ADDRESSES, "address"),
    }
)
