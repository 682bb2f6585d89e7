"""Values of libraries and of classes of authors, as parts that `typed_json` writes, and back.

    Point(x=1)                  {"$aiosched": "object", "class": "shapes:Point", "value": {"x": 1}}
    numpy.float32(1.5)          {"$aiosched": "numpy", "value": 1.5, "dtype": "<f4"}
    a table or an array         {"$aiosched": "pandas.DataFrame", "value": "UEFSMR…"}, its bytes in base64

A class is found again by the name of its module and its own. It is one of: enums, dataclasses, attrs classes, pydantic
models, msgspec Structs, named tuples, subclasses of str, int, float, list, dict and the like, classes with `serialize`
and `deserialize(data, version)`, and those with a registered codec. The state is given back, `__init__` is not called;
whoever writes a value reads it at once, so that one that does not come back equal is refused where it was made.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, time
from enum import Enum
from functools import cached_property, partial
from types import BuiltinFunctionType, MappingProxyType, MemberDescriptorType
from typing import Any, Final, NamedTuple

import msgspec

from aiosched.core.values.texts import a_type
from aiosched.core.values.typed_json import (
    MARK,
    PATH,
    VALUE,
    NotJson,
    Reader,
    Tagged,
    clock_parts,
    decode,
    marked_text,
    plain_text,
    tagged,
)
from aiosched.lazy import provided

Find = Callable[[str], Any]
"""Imports a module by its name."""

OBJECT: Final = "object"
_METHODS: Final = "give the class serialize() and deserialize()"
_CACHED_HASH: Final = "_attrs_cached_hash"


class Codec(NamedTuple):
    """How values of a class are written and read: `serialize(value)`, `deserialize(data, version)`."""

    serialize: Callable[[Any], Any]
    deserialize: Callable[[Any, int], Any]
    version: int = 1


registered: Final[dict[type, Codec]] = {}
"""The codecs of classes that have no methods for it, by class."""


class _Kind(NamedTuple):
    """A kind of classes whose values can be written: how it is recognized, and the data of a value and back."""

    has: Callable[[type], bool]
    data: Callable[[Any], Any]
    make: Callable[[type, Any], Any]


def typed(value: Any, find: Find, *, objects: bool = True) -> bytes:
    """`value` as JSON text; see typed_json. Raises NotJson, also for a value that would not come back equal.

    Without `objects` none of a class of an author: where people write such values, too, none is made when it is read.
    """
    if (plain := plain_text(value)) is not None:
        return plain
    classes: list[type] = []

    def more(inner: Any) -> Any:
        found = _parts(inner, find, classes)
        if classes and not objects:
            raise NotJson(f"is {a_type(inner)}: values of classes of your own can only be XComs and go to triggers")
        return found

    text = marked_text(value, more)
    if classes and not _comes_back(value, text, find, more, set(classes)):
        names = ", ".join(dict.fromkeys(kind.__qualname__ for kind in classes))
        raise NotJson(f"does not come back equal when it is read ({names})")
    return text


def named_parts(values: Mapping[str, Any], find: Find) -> dict[str, Any]:
    """Values by name as JSON with marks, as in `conf` and extras: no name is a mark, no value of an author's class.

    Raises NotJson.
    """
    if wrong := [key for key in values if not isinstance(key, str)]:
        raise NotJson(f"has the key {wrong[0]!r:.80}, which is no text: put it into one of the values")
    found = {}
    for key, value in values.items():
        try:
            found[key] = json.loads(typed(value, find, objects=False))
        except NotJson as error:
            raise NotJson(error.what, f"[{key!r:.80}]{error.place}") from None
    return found


def untyped(text: str | bytes, find: Find, *, objects: bool = True) -> Any:
    """The value of such a text. Raises ValueError with what cannot be read."""
    readers = _readers(find)
    if not objects:
        del readers[OBJECT]
    return decode(text, readers)


def register_codec(
    kind: type, serialize: Callable[[Any], Any], deserialize: Callable[[Any, int], Any], *, version: int = 1
) -> None:
    """Let tasks return and push values of the class `kind`: `serialize(value)` returns other values that tasks can
    return, `deserialize(data, version)` makes the value again. Call it in a module that the DAG files of the tasks
    that push and pull import.
    """
    registered[kind] = Codec(serialize, deserialize, version)


def _parts(value: Any, find: Find, classes: list[type]) -> Any:
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if kind not in registered and package in _LIBRARIES and package in sys.modules:
        found = _data_of(value, _LIBRARIES[package])
        if found is not NotImplemented:
            return found
    if kind.__name__ == "ObjectStoragePath" and kind.__module__.startswith("aiosched."):
        return {PATH: value.serialize()}
    codec = _codec_of(kind)
    if codec is None:
        return NotImplemented
    classes.append(kind)
    name = _name_of(kind, find)
    more = {} if codec.version == 1 else {"version": codec.version}
    return tagged(OBJECT, _data_of(value, codec.serialize), **more) | {"class": name}


def _data_of(value: Any, serialize: Callable[[Any], Any]) -> Any:
    """What `serialize` makes of a value. Raises NotJson, whatever the code of an author or library raises."""
    try:
        return serialize(value)
    except (NotJson, RecursionError):
        raise
    except (Exception, SystemExit) as error:
        raise NotJson(f"is {a_type(value)}, which cannot be written: {_shown(error)}") from None


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _comes_back(value: Any, text: bytes, find: Find, more: Callable[[Any], Any], classes: Collection[type]) -> bool:
    """Whether a value with objects of classes of authors is read as it was: equal, and of the same text."""
    try:
        back = untyped(text, find)
        again = marked_text(back, more)
    except NotJson:
        raise
    except ValueError as error:  # also what the class of an author raised
        raise NotJson(f"cannot be read again: {error}") from None
    if again != text and (b'set"' not in text or sorted(again) != sorted(text)):  # a set has no order
        return False
    if b'"nan"' in text:  # equal to nothing
        return True
    if any("__eq__" not in _names(kind) for kind in classes):  # no two values of such a class are equal
        return True
    try:
        return bool(back == value)
    except Exception:  # arrays have no one answer
        return True


def _names(kind: type) -> set[str]:
    """What a class has beyond `object`."""
    return {name for one in kind.__mro__[:-1] for name in vars(one)}


def _name_of(kind: type, find: Find) -> str:
    name = f"{kind.__module__}:{kind.__qualname__}"
    try:
        found = _class_at(name, find)
    except Exception:
        found = None
    if found is not kind:
        where = "inside a function" if "<locals>" in name else "where its name does not lead to it"
        raise NotJson(f"is of the class {kind.__qualname__} that is defined {where}: define it at the top of a module")
    return name


def _class_at(name: str, find: Find) -> Any:
    module, _, path = name.partition(":")
    found = find(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _readers(find: Find) -> dict[str, Reader]:
    def read_object(found: Tagged) -> Any:
        name = str(found.get("class"))
        try:
            kind = _class_at(name, find)
        except (Exception, SystemExit) as error:  # importing runs any code
            raise ValueError(f"a value of the class {name} cannot be read: {_shown(error)}") from None
        codec = _codec_of(kind) if isinstance(kind, type) else None
        if codec is None:
            raise ValueError(f"a value of the class {name} cannot be read: it is no class of a kind that is allowed")
        try:
            return codec.deserialize(found[VALUE], found.get("version", 1))
        except (Exception, SystemExit) as error:  # the class of an author
            raise ValueError(f"a value of the class {name} cannot be read: {_shown(error)}") from error

    def read_path(found: Tagged) -> Any:
        return provided("path_of_data")(found[PATH])

    def of_library(read: Callable[[Find, Tagged], Any]) -> Reader:
        return lambda found: read(find, found)

    return {OBJECT: read_object, PATH: read_path} | {name: of_library(read) for name, read in _READERS.items()}


# Classes of authors


def _codec_of(kind: type) -> Codec | None:
    if kind in registered:
        return registered[kind]
    if callable(getattr(kind, "serialize", None)) and callable(getattr(kind, "deserialize", None)):
        version = getattr(kind, "__version__", 1)
        make: Any = kind.deserialize  # type: ignore[attr-defined]
        return Codec(lambda value: value.serialize(), make, version if isinstance(version, int) else 1)
    one = next((one for one in _KINDS if one.has(kind)), None)
    return None if one is None else Codec(one.data, lambda data, _version: one.make(kind, data))


def _state(value: Any, names: Collection[str]) -> dict[str, Any]:
    """The attributes of a value: its fields, and what was set besides. Raises NotJson for one with more."""
    kind = type(value)
    if _new_of_c(kind) is not object.__new__:
        raise NotJson(f"is {a_type(value)}, which has more than its fields: {_METHODS}")
    fields = {name: getattr(value, name) for name in names if hasattr(value, name)}
    others = {name: item for name, item in _slots(value) if name not in fields}
    others |= {
        name: item
        for name, item in getattr(value, "__dict__", {}).items()
        if name not in fields
        and not name.startswith("__")
        and not isinstance(getattr(kind, name, None), cached_property)
    }
    if hasattr(value, _CACHED_HASH):  # of attrs; hashes of text differ from process to process
        others[_CACHED_HASH] = None
    return fields | others


def _slots(value: Any) -> Iterator[tuple[str, Any]]:
    """What is set of `__slots__`. Those of attrs classes are their fields, and what they cache."""
    for kind in type(value).__mro__:
        if "__attrs_attrs__" in vars(kind):
            continue
        for name, member in vars(kind).items():
            if isinstance(member, MemberDescriptorType) and not name.startswith("__"):
                with suppress(AttributeError):
                    yield name, member.__get__(value)


Default = Callable[[], Any] | None
"""Makes the value of a field that is not given; None: it must be given."""


def _with_state(kind: Any, found: Mapping[str, Any], defaults: Iterable[tuple[str, Default]]) -> Any:
    made = kind.__new__(kind)
    for name, item in _completed(found, defaults).items():
        if name.startswith("__"):
            raise ValueError(f"{kind.__qualname__} has no field {name!r:.80}")
        object.__setattr__(made, name, item)
    return made


def _completed(found: Mapping[str, Any], defaults: Iterable[tuple[str, Default]]) -> dict[str, Any]:
    """A state, with the fields that the class got since it was written. Raises ValueError for one without default."""
    made = dict(found)
    for name, default in defaults:
        if name not in made:
            if default is None:
                raise ValueError(f"it has a field {name!r} without a default, which the value does not have")
            made[name] = default()
    return made


def _dataclass_defaults(kind: Any) -> Iterator[tuple[str, Default]]:
    for field in dataclasses.fields(kind):
        if field.default_factory is not dataclasses.MISSING:
            yield field.name, field.default_factory
        elif field.default is not dataclasses.MISSING:
            yield field.name, partial(_itself, field.default)
        elif field.init:
            yield field.name, None


def _attrs_defaults(kind: Any) -> Iterator[tuple[str, Default]]:
    for field in kind.__attrs_attrs__:
        if field.default is sys.modules["attr"].NOTHING:
            if field.init:
                yield field.name, None
        elif (factory := getattr(field.default, "factory", None)) is None:
            yield field.name, partial(_itself, field.default)
        else:
            yield field.name, None if field.default.takes_self else factory


def _model_defaults(kind: Any) -> Iterator[tuple[str, Default]]:
    if hasattr(kind, "model_fields_set"):
        for name, field in kind.model_fields.items():
            yield name, None if field.is_required() else partial(field.get_default, call_default_factory=True)
    else:  # of pydantic 1
        for name, field in kind.__fields__.items():
            yield name, None if field.required else field.get_default


def _itself(value: Any) -> Any:
    return value


def _make_model(kind: Any, found: Any) -> Any:
    made = kind.__new__(kind)
    made.__setstate__({**found, "__dict__": _completed(found["__dict__"], _model_defaults(kind))})
    return made


def _make_named_tuple(kind: Any, found: Mapping[str, Any]) -> Any:
    if unknown := [name for name in found if name not in kind._fields]:
        raise ValueError(f"it has no field {unknown[0]!r:.80}, which the value has")
    defaults = kind._field_defaults
    whole = _completed(found, ((name, partial(_itself, defaults[name]) if name in defaults else None)
                               for name in kind._fields))  # fmt: skip
    return _new_of_c(kind)(kind, (whole[name] for name in kind._fields))


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and hasattr(kind, "_field_defaults")


def _base_of(kind: type) -> type | None:
    return next((base for base in _BASES if issubclass(kind, base)), None)


def _base_data(value: Any) -> Any:
    base: Any = _base_of(type(value))
    if getattr(value, "__dict__", None) or isinstance(value, defaultdict) or any(_slots(value)):
        raise NotJson(f"is {a_type(value)} with attributes of its own: {_METHODS}")
    if base is str:
        return str.__str__(value)
    copy: Any = {int: int.__int__, float: float.__float__, tuple: list}.get(base, base)
    return copy(value)


def _named(value: Any) -> dict[str, Any]:
    """The items of a named tuple by their names."""
    return dict(zip(value._fields, _base_data(value), strict=True))


def _make_of_base(kind: Any, data: Any) -> Any:
    base: Any = _base_of(kind)
    if base in {list, dict, set, bytearray}:
        made = kind.__new__(kind)
        base.__init__(made, data)
        return made
    return _new_of_c(kind)(kind, data)


def _new_of_c(kind: type) -> Any:
    """`__new__` of the next class that is written in C: one of a class further up refuses to make values of `kind`."""
    return next(new for one in kind.__mro__ if isinstance(new := vars(one).get("__new__"), BuiltinFunctionType))


def _make_struct_sequence(kind: Any, data: Any) -> Any:
    items, hidden = data
    return _new_of_c(kind)(kind, items, hidden)


_BASES: Final = (str, int, float, bytes, bytearray, tuple, list, dict, set, frozenset)
_KINDS: Final = (
    _Kind(lambda kind: issubclass(kind, Enum), lambda value: value.value, lambda kind, data: kind(data)),
    _Kind(
        lambda kind: hasattr(kind, "model_fields_set") or hasattr(kind, "__fields_set__"),
        lambda value: value.__getstate__(),
        _make_model,
    ),
    _Kind(
        lambda kind: issubclass(kind, msgspec.Struct),
        msgspec.structs.asdict,
        lambda kind, data: kind(**data),
    ),
    _Kind(
        dataclasses.is_dataclass,
        lambda value: _state(value, [field.name for field in dataclasses.fields(value)]),
        lambda kind, data: _with_state(kind, data, _dataclass_defaults(kind)),
    ),
    _Kind(
        lambda kind: hasattr(kind, "__attrs_attrs__"),
        lambda value: _state(value, [field.name for field in value.__attrs_attrs__]),
        lambda kind, data: _with_state(kind, data, _attrs_defaults(kind)),
    ),
    _Kind(lambda kind: hasattr(kind, "unicode_string"), str, lambda kind, data: kind(data)),  # a URL of pydantic
    _Kind(_is_named_tuple, _named, _make_named_tuple),
    _Kind(  # time.struct_time, os.stat_result: with attributes that are no items
        lambda kind: issubclass(kind, tuple) and hasattr(kind, "n_sequence_fields"),
        lambda value: [list(value), value.__reduce__()[1][1]],
        _make_struct_sequence,
    ),
    _Kind(lambda kind: _base_of(kind) is not None and kind not in _BASES, _base_data, _make_of_base),
)


# Libraries: looked at only when they were imported by whoever made the value


def _pendulum(value: Any) -> Any:
    match type(value).__name__:
        case "DateTime":
            return tagged("pendulum.DateTime", datetime.isoformat(value), **clock_parts(value))
        case "Date":
            return tagged("pendulum.Date", date.isoformat(value))
        case "Time":
            return tagged("pendulum.Time", time.isoformat(value), **clock_parts(value))
        case "Duration":
            days = value.as_timedelta().days - value.years * 365 - value.months * 30
            rest = value.as_timedelta()
            more = {"years": value.years, "months": value.months, "days": days}
            return tagged("pendulum.Duration", str(rest), **more, seconds=rest.seconds, microseconds=rest.microseconds)
        case "Interval":
            return tagged("pendulum.Interval", [value.start, value.end], absolute=value._absolute)
        case "Timezone":
            return tagged("pendulum.Timezone", value.name)
    return NotImplemented


def _read_pendulum(find: Find, found: Tagged) -> Any:
    pendulum = find("pendulum")
    kind = found[MARK].partition(".")[2]
    if kind == "Timezone":
        return pendulum.timezone(found[VALUE])
    if kind == "Interval":
        return pendulum.interval(*found[VALUE], absolute=found["absolute"])
    if kind == "Duration":
        return pendulum.Duration(**{name: part for name, part in found.items() if name not in {MARK, VALUE}})
    plain = decode(msgspec.json.encode(found | {MARK: kind.lower()}))
    if kind == "Date":
        return pendulum.Date(plain.year, plain.month, plain.day)
    clock = (plain.hour, plain.minute, plain.second, plain.microsecond)
    if kind == "Time":
        return pendulum.Time(*clock, tzinfo=plain.tzinfo)
    return pendulum.DateTime(plain.year, plain.month, plain.day, *clock, tzinfo=plain.tzinfo, fold=plain.fold)


def _numpy(value: Any) -> Any:
    numpy = sys.modules["numpy"]
    if type(value) is numpy.ndarray or type(value) is numpy.void:
        dtype = value.dtype
        if dtype.names is not None and dtype.type is not numpy.void:
            return NotImplemented
        if dtype.hasobject:
            raise NotJson("is a numpy array of objects, which has no bytes of its own: return a list")
        file = io.BytesIO()
        numpy.save(file, value, allow_pickle=False)
        return tagged("numpy.ndarray", _text(file.getvalue()), scalar=not isinstance(value, numpy.ndarray))
    if not isinstance(value, numpy.generic) or isinstance(value, numpy.void):
        return NotImplemented
    dtype = value.dtype
    if dtype.kind in "mM":
        return tagged("numpy", int(value.view("int64")), dtype=dtype.str)
    if dtype.kind in "fc" and dtype.itemsize > (8 if dtype.kind == "f" else 16):
        raise NotJson(f"is a {dtype}, which has more digits than JSON: return float(value)")
    item = _whole_text(value) if isinstance(value, str | bytes) else value.item()
    same = numpy.dtype(dtype.str).type is type(value)  # of two types with as many bits one is the usual
    return tagged("numpy", item, dtype=dtype.str if same else dtype.char)


def _whole_text(value: str | bytes) -> str | bytes:
    """As Python's own type, with the NULs at its end, which numpy leaves out."""
    return str.__str__(value) if isinstance(value, str) else bytes(value)


def _read_numpy(find: Find, found: Tagged) -> Any:
    numpy = find("numpy")
    if found[MARK] == "numpy.ndarray":
        array = numpy.load(io.BytesIO(base64.b64decode(found[VALUE])), allow_pickle=False)
        return array[()] if found.get("scalar") else array
    dtype = numpy.dtype(found["dtype"])
    if dtype.kind in "mM":
        return numpy.int64(found[VALUE]).view(dtype)
    return dtype.type(found[VALUE])


def _pandas(value: Any) -> Any:
    pandas = sys.modules["pandas"]
    kind = type(value)
    if kind is pandas.Timestamp:
        more = {"unit": value.unit, "shown": value.isoformat(), "tz": value.tzinfo}
        return tagged("pandas.Timestamp", int(value.asm8.view("int64")), **more)
    if kind is pandas.Timedelta:
        return tagged("pandas.Timedelta", int(value.asm8.view("int64")), unit=value.unit, shown=str(value))
    if value is pandas.NaT:
        return tagged("pandas.NaT", None)
    if value is pandas.NA:
        return tagged("pandas.NA", None)
    if kind not in {pandas.DataFrame, pandas.Series}:
        return NotImplemented
    frame = value if kind is pandas.DataFrame else value.to_frame("value")
    more = {} if kind is pandas.DataFrame else {"name": value.name}
    if type(frame.columns) is pandas.RangeIndex:  # Parquet has names of columns, and no steps of an index
        more["columns"] = range(frame.columns.start, frame.columns.stop, frame.columns.step)
    if isinstance(frame.index, pandas.DatetimeIndex | pandas.TimedeltaIndex) and frame.index.freq is not None:
        more["freq"] = frame.index.freqstr
    file = io.BytesIO()
    try:
        frame.to_parquet(file)
        found = tagged(f"pandas.{kind.__name__}", _text(file.getvalue()), **more)
        back = _read_frame(pandas, found)
        pandas.testing.assert_frame_equal(back, frame, check_exact=True)
        if back.attrs != frame.attrs:
            raise ValueError("its attrs differ")
        if _types_of_objects(back) != _types_of_objects(frame):
            raise ValueError("its values are of other types")
    except ImportError:
        raise NotJson(f"is a pandas {kind.__name__}, which is written as Parquet: install pyarrow") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise NotJson(f"is a pandas {kind.__name__} that does not come back equal from Parquet: {reason}") from None
    return found


def _types_of_objects(frame: Any) -> list[list[type]]:
    return [list(map(type, frame[name])) for name in frame if frame[name].dtype.kind == "O"]


def _read_pandas(find: Find, found: Tagged) -> Any:
    pandas = find("pandas")
    kind = found[MARK].partition(".")[2]
    if kind in {"NaT", "NA"}:
        return getattr(pandas, kind)
    if kind == "Timestamp":
        made = pandas.Timestamp(find("numpy").datetime64(found[VALUE], found["unit"]))
        return made if found["tz"] is None else made.tz_localize("UTC").tz_convert(found["tz"])
    if kind == "Timedelta":
        return pandas.Timedelta(find("numpy").timedelta64(found[VALUE], found["unit"]))
    frame = _read_frame(pandas, found)
    return frame if kind == "DataFrame" else frame["value"].rename(found["name"])


def _read_frame(pandas: Any, found: Tagged) -> Any:
    frame = pandas.read_parquet(io.BytesIO(base64.b64decode(found[VALUE])))
    if "columns" in found:
        frame.columns = pandas.RangeIndex(found["columns"], name=frame.columns.name)
    if "freq" in found:
        frame.index.freq = found["freq"]
    return frame


def _polars(value: Any) -> Any:
    polars = sys.modules["polars"]
    kind = type(value)
    if kind not in {polars.DataFrame, polars.Series}:
        return NotImplemented
    more = {} if kind is polars.DataFrame else {"name": value.name}
    frame = value if kind is polars.DataFrame else polars.DataFrame({"value": value})
    file = io.BytesIO()
    frame.write_ipc(file)
    return tagged(f"polars.{kind.__name__}", _text(file.getvalue()), **more)


def _read_polars(find: Find, found: Tagged) -> Any:
    frame = find("polars").read_ipc(io.BytesIO(base64.b64decode(found[VALUE])))
    return frame if found[MARK] == "polars.DataFrame" else frame["value"].rename(found["name"])


def _arrow(value: Any) -> Any:
    arrow = sys.modules["pyarrow"]
    if type(value) is not arrow.Table:
        return NotImplemented
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, value.schema) as writer:
        writer.write_table(value)
    return tagged("pyarrow.Table", _text(sink.getvalue().to_pybytes()))


def _read_arrow(find: Find, found: Tagged) -> Any:
    return find("pyarrow").ipc.open_stream(base64.b64decode(found[VALUE])).read_all()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


_LIBRARIES: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {"pendulum": _pendulum, "numpy": _numpy, "pandas": _pandas, "polars": _polars, "pyarrow": _arrow}
)
_OF_PENDULUM: Final = ("DateTime", "Date", "Time", "Duration", "Interval", "Timezone")
_READERS: Final[Mapping[str, Callable[[Find, Tagged], Any]]] = MappingProxyType(
    {
        **{f"pendulum.{kind}": _read_pendulum for kind in _OF_PENDULUM},
        "numpy": _read_numpy,
        "numpy.ndarray": _read_numpy,
        **{f"pandas.{kind}": _read_pandas for kind in ("DataFrame", "Series", "Timestamp", "Timedelta", "NaT", "NA")},
        **{f"polars.{kind}": _read_polars for kind in ("DataFrame", "Series")},
        "pyarrow.Table": _read_arrow,
    }
)
