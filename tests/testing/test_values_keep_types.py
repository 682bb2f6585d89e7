"""What a task returns comes back equal and of the same type, or the task fails and says why: a table, through `World`.

Kinds of values one by one: tests/core/test_typed_json.py. Libraries: tests/testing/test_values_of_libraries.py.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import enum
import functools
import http
import logging
import math
import os
import pwd
import re
import sys
import threading
import time as clock
import types
import urllib.parse
import uuid
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, Generic, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pendulum
import pydantic
import pytest
from dateutil import tz
from pydantic import v1 as pydantic_v1

from aiosched.authoring.runtime.xcom_values import read_xcom
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, dag, minutes

T = TypeVar("T")
AMSTERDAM = ZoneInfo("Europe/Amsterdam")
TWICE = datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001 # a moment that comes twice in Amsterdam


class Whole(int):
    pass


class Share(float):
    pass


class Word(str):
    __slots__ = ()


class Bytes(bytes):
    pass


class Rows(list[Any]):
    pass


class Table(dict[Any, Any]):
    pass


class Bag(set[Any]):
    pass


class Bunch(tuple[Any, ...]):
    __slots__ = ()


class Moment(datetime):
    pass


class Price(Decimal):
    pass


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 1


class Mode(enum.Flag):
    READ = 1
    WRITE = 2


class Bits(enum.IntFlag):
    ONE = 1


class Planet(enum.Enum):
    EARTH = (5.9, "blue")

    def __init__(self, mass: float, colour: str) -> None:
        self.mass, self.colour = mass, colour


class Labelled(enum.Enum):
    A = "a", "the first"

    def __new__(cls, value: str, label: str) -> Labelled:
        made = object.__new__(cls)
        made._value_, made.label = value, label  # type: ignore[attr-defined] # that is how it is done
        return made


class Holder(enum.Enum):
    ANY = object()


class Generic1(NamedTuple, Generic[T]):
    x: T
    rest: tuple[Any, ...] = ()


class Doubled(collections.namedtuple("Doubled", "a b")):
    __slots__ = ()

    def __new__(cls, a: int, b: int = 5) -> Doubled:
        return super().__new__(cls, a, b * 2)


class Outer:
    class Inner(NamedTuple):
        a: int


@dataclasses.dataclass(slots=True)
class Slotted:
    x: Any
    y: Any = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any

    @functools.cached_property
    def twice(self) -> Any:
        return self.x * 2


@dataclasses.dataclass
class Initialized:
    x: int
    given: dataclasses.InitVar[int] = 3
    y: int = dataclasses.field(init=False, default=0)

    def __post_init__(self, given: int) -> None:
        self.y = given


@dataclasses.dataclass(kw_only=True)
class Made(Generic[T]):
    items: list[T] = dataclasses.field(default_factory=list)
    private: Any = dataclasses.field(default=None, compare=False, repr=False)


@dataclasses.dataclass
class Node:
    value: int
    inner: list[Node] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class Growing:
    """Is another value each time it is read."""

    x: int

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        return found + 1 if name == "x" else found


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    number: int = pydantic.Field(alias="n", default=1)
    point: Slotted | None = None
    path: Path = Path()
    colour: Colour = Colour.RED
    url: pydantic.HttpUrl = pydantic.HttpUrl("http://example.org")
    _hidden: int = pydantic.PrivateAttr(default=4)

    @pydantic.field_validator("number")
    @classmethod
    def _next(cls, number: int) -> int:
        return number + 1


class Roots(pydantic.RootModel[list[int]]):
    pass


class Wrapped(pydantic.BaseModel, Generic[T]):
    x: T


@pydantic.dataclasses.dataclass
class Checked:
    a: int


class Model1(pydantic_v1.BaseModel):
    a: int
    b: Decimal = Decimal("1.5")
    _p: int = pydantic_v1.PrivateAttr(3)


class Password(pydantic.BaseModel):
    word: pydantic.SecretStr


@attrs.define
class Converted:
    x: int = attrs.field(converter=int)
    _y: list[Any] = attrs.field(factory=list, alias="why")
    late: int = attrs.field(init=False, default=7)


class Record(msgspec.Struct, tag="t", rename="camel"):
    the_a: int
    b: tuple[int, ...] = ()


class PostRecord(msgspec.Struct):
    a: int

    def __post_init__(self) -> None:
        self.a += 1


class Ends:
    def serialize(self) -> int:
        return 1

    @staticmethod
    def deserialize(data: int, version: int) -> Ends:
        raise SystemExit("no")


class Fails:
    def serialize(self) -> int:
        raise KeyError("nothing")

    @staticmethod
    def deserialize(data: int, version: int) -> Fails:
        return Fails()


class Itself:
    def serialize(self) -> Itself:
        return self

    @staticmethod
    def deserialize(data: Any, version: int) -> Any:
        return data


def nested(kind: Any, depth: int) -> Any:
    value: Any = kind()
    for _ in range(depth):
        value = kind([value]) if kind is not dict else {"k": value}
    return value


def branch(depth: int) -> Node:
    return Node(depth, [branch(depth - 1)] if depth else [])


def shape(node: Any) -> str:
    """What a value is, type by type."""
    name = type(node).__qualname__
    if isinstance(node, dict):
        return f"{name}({','.join(f'{shape(key)}:{shape(item)}' for key, item in node.items())})"
    if isinstance(node, list | tuple | deque):
        hidden = node.__reduce__()[1][1] if hasattr(node, "n_sequence_fields") else ""
        return f"{name}({','.join(map(shape, node))}{hidden})"
    if isinstance(node, set | frozenset):
        return f"{name}({','.join(sorted(map(shape, node)))})"
    if isinstance(node, datetime | time):
        return f"{name} {node.isoformat()} {node.fold} {type(node.tzinfo)} {node.tzinfo}"
    return f"{name} {hex(node)}" if type(node) is int else f"{name} {node!r}"


cached = Frozen(2)
assert cached.twice == 4
ordered = OrderedDict([("b", 1), ("a", 2)])
ordered.move_to_end("b")
hidden = Model(n=4, more=date(2026, 1, 1))  # type: ignore[call-arg]
hidden._hidden = 9
labelled = Rows([1])
labelled.label = "x"  # type: ignore[attr-defined] # an attribute besides

COME_BACK: dict[str, Any] = {
    "booleans and numbers": [True, 1, 1.0, False, 0, 0.0, -0.0, None],
    "negative zero": -0.0,
    "no finite numbers": {"a": float("-inf"), "b": [float("inf")]},
    "the bounds of 64 bits": [2**64 - 1, 2**64, -(2**63), -(2**63) - 1],
    "a huge integer": -(10**5_000),
    "smallest and longest floats": [5e-324, 0.1 + 0.2, 1e16, 1e22, sys.float_info.max],
    "text with NUL": ["a\0b", {"k\0": "\0"}, ("\0",), {("\0",): 1}],
    "odd text": "\u2028\x7f\x1f e\u0301 \U0001f469\u200d\U0001f467",
    "keys of several types": {"1": 1, 1: 2, None: 3, (1, (2,)): 4, 1.5: 5, b"a": 6, frozenset({1}): 7, Colour.RED: 8},
    "true as a key": {True: "a", "true": "b"},
    "dates as keys": {date(2026, 1, 1): 1, TWICE: 2},
    "what looks like marks": [
        {"$aiosched": 1},
        {"$aiosched": "object", "class": "os:system", "value": {}},
        {"a": {"$aiosched": "tuple", "value": [1]}},
        {"__datetime__": "x"},
        {"__timedelta__": 1, "b": 2},
        {"__object_storage_path__": {"path": "x"}},
        ["$aiosched", "__date__"],
    ],
    "subclasses": [Whole(5), Whole(2**70), Share(1.5), Share("inf"), Word("a"), Bytes(b"x"), Rows([(1,)]),
                   Table({1: {2}}), Bag({1}), Bunch((1, [2]))],
    "a subclass as a key": {Word("a"): Whole(1), "b": 1},
    "enums": [Colour.RED, "red", Level.HIGH, 1, True, Mode.READ | Mode.WRITE, Mode(0), Bits(9), Planet.EARTH,
              Labelled.A, http.HTTPStatus.OK],
    "named tuples": [Generic1(1), Generic1(1, (Generic1(2),)), Doubled(1, 2), Outer.Inner(1),
                     urllib.parse.urlsplit("http://a/b?c")],
    "tuples of C": [clock.localtime(0), clock.struct_time(range(9)), Path("/").stat(), os.times(), os.uname(),
                    os.terminal_size((80, 25)), pwd.getpwuid(0)],
    "dataclasses": [Slotted(1, (2,)), Initialized(1, 9), Made[int](items=[1], private={2}), branch(8), Checked(1)],
    "a cached property": cached,
    "models": [Model(n=5, point=Slotted(1), path=Path("/a")), Model(), Roots([1]), Wrapped[int](x=1), Model1(a=1)],
    "hidden attributes of models": hidden,
    "a model that was not checked": Model.model_construct(number="text"),
    "attrs": Converted("5", [(1,)]),  # type: ignore[arg-type] # it converts
    "structs": Record(1, (2,)),
    "URLs": [pydantic.AnyUrl("http://a.b/?c"), pydantic.HttpUrl("https://a.b")],
    "times": [TWICE, TWICE.replace(fold=1), TWICE.replace(fold=1, tzinfo=AMSTERDAM), datetime.min, datetime.max,  # noqa: DTZ901
              datetime(1800, 1, 1, tzinfo=AMSTERDAM), datetime(2026, 3, 29, 2, 30, tzinfo=AMSTERDAM),
              time(2, fold=1), time(2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC"))],
    "offsets": [datetime(2026, 1, 1, tzinfo=timezone(timedelta(seconds=3661, microseconds=5))),
                datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
                time(1, tzinfo=timezone(timedelta(0), "Z")), timezone(timedelta(hours=-1), "X"),
                timezone(timedelta(hours=1, microseconds=5)), ZoneInfo("Etc/GMT+5")],
    "zones of pendulum": [datetime(2026, 1, 1, tzinfo=pendulum.timezone("Europe/Paris")), pendulum.UTC,
                          pendulum.datetime(2026, 10, 25, 2, 30, tz="Europe/Paris", fold=0),
                          pendulum.instance(datetime(2026, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))),
                          pendulum.parse("2026-01-01T00:00:00+02:00"), pendulum.naive(2026, 1, 1)],
    "durations": [timedelta.max, timedelta.min, timedelta.resolution, timedelta(microseconds=-1),
                  pendulum.duration(days=-1, seconds=5, years=-1), pendulum.duration(weeks=3, months=14)],
    "decimals and fractions": [Decimal("1.500"), Decimal("-0.00"), Decimal("1E+50"), Fraction(-1, 3), complex(-0.0)],
    "collections": [(), {frozenset({frozenset()})}, {1, "a", (1,), None}, deque([1], 3), deque(maxlen=0), ordered,
                    OrderedDict({1: 2}), defaultdict(int, {"a": 1}), defaultdict(None, {1: 2}), Counter(a=-1, b=2)],
    "ranges": [range(3), range(10, 0, -3), range(2**70)],
    "others": [uuid.UUID(int=7), PurePosixPath("."), Path("/a\0b"), bytearray(b"\0"), b""],
    "depth": [nested(list, 60), nested(dict, 60), nested(tuple, 29)],
    "all in all": {"a": {"b": ({1: {2: [{3}]}}, Slotted({"k": (Colour.RED, Model())}))}},
}  # fmt: skip

REFUSED: dict[str, tuple[Any, str]] = {
    "half of a surrogate pair": ({"a": "\ud800"}, "lone surrogates"),
    "the same in a key": ((1, {"\udfff": 1}), "lone surrogates"),
    "too deep": (nested(list, 10_000), "nested too deeply"),
    "dicts too deep": (nested(dict, 10_000), "nested too deeply"),
    "tuples too deep": (nested(tuple, 40), "is nested more than 64 levels deep"),
    "objects too deep": (branch(100), "nested"),
    "attributes besides": (labelled, "is a test_values_keep_types.Rows with attributes of its own"),
    "a subclass of datetime": (Moment(2026, 1, 1), "is a test_values_keep_types.Moment, which JSON cannot hold"),
    "a subclass of Decimal": (Price(1), "is a test_values_keep_types.Price, which JSON cannot hold"),
    "an enum of objects": (Holder.ANY, "is an object, which JSON cannot hold"),
    "an enum": (Colour, "is an enum.EnumType"),
    "another value each time": (Growing(1), "does not come back equal when it is read (Growing)"),
    "a struct that changes": (PostRecord(1), "does not come back equal when it is read (PostRecord)"),
    "a secret": (Password(word="x"), "['word'] is a pydantic.types.SecretStr"),
    "a class that ends the process": (Ends(), "test_values_keep_types:Ends cannot be read: SystemExit: no"),
    "a class that fails": ([Fails()], "[0] is a test_values_keep_types.Fails, which cannot be written: KeyError"),
    "a class that is its own data": (Itself(), "contains itself"),
    "a factory of one's own": (defaultdict(lambda: 1), "is a defaultdict with the factory"),
    "a class of a function": (dataclasses.make_dataclass("Local", ["x"])(1), "of the class Local that is defined"),
    "a zone of dateutil": (datetime(2026, 1, 1, tzinfo=tz.UTC), "has a time zone that is a dateutil"),
    "memory": (memoryview(b"a"), "is a memoryview"),
    "an array": (array.array("i", [1]), "is an array.array"),
    "a pattern": ({"p": re.compile("a")}, "['p'] is a re.Pattern"),
    "an exception": (ValueError("x"), "is a ValueError"),
    "a generator": ((x for x in ()), "is a generator"),
    "a lambda": (lambda: 1, "is a function"),
    "a builtin function": (len, "is a builtin_function_or_method"),
    "a partial": (functools.partial(int), "is a functools.partial"),
    "a module": (math, "is a module"),
    "a lock": (threading.Lock(), "is a _thread.lock"),
    "a logger": (logging.getLogger("x"), "is a logging.Logger"),
    "a view of a dict": ({}.keys(), "is a dict_keys"),
    "a proxy": (types.MappingProxyType({}), "is a mappingproxy"),
    "a namespace": (types.SimpleNamespace(), "is a types.SimpleNamespace"),
    "a chain": (ChainMap({}), "is a collections.ChainMap"),
    "a dict of users": (UserDict(), "is a collections.UserDict"),
    "an ellipsis": (..., "is an ellipsis"),
    "a slice": (slice(1), "is a slice"),
}


@pytest.mark.parametrize("value", COME_BACK.values(), ids=COME_BACK)
async def test_a_value_comes_back(value: Any) -> None:
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(dag("d"))
        it.script("d", "a", returns=value, pushes={"k": {"in": [value]}})
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.task("d", run, "a").state == "success", it.task("d", run, "a").reason
        whole, part = (read_xcom(it.xcom("d", run, "a", key) or "") for key in ("return_value", "k"))
        assert whole == part["in"][0] == value
        assert shape(whole) == shape(part["in"][0]) == shape(value)


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
async def test_what_cannot_come_back_fails_its_task(refused: tuple[Any, str]) -> None:
    value, why = refused
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(dag("d"))
        it.script("d", "a", returns=value)
        run = it.trigger("d")

        await it.run_until_idle()

        found = it.task("d", run, "a")
        assert found.state == "failed"
        assert why in (found.reason or "")
