"""Values that come back as they went: equal, of the same type, or refused where they were made."""

from __future__ import annotations

import dataclasses
import enum
import ipaddress
import json
import sys
from collections import Counter, OrderedDict, defaultdict, namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pendulum
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.authoring.runtime.xcom_values import find_module, read_xcom, write_xcom
from aiosched.core.values.typed_json import NotJson, decode, items_in, json_length, plain_text, readable
from aiosched.core.values.typed_objects import register_codec, registered
from aiosched.errors import AioschedError


class Odd(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta:
        return timedelta(hours=1)


class Colour(enum.Enum):
    RED = "red"


class Rows(list[int]):
    pass


class Place(NamedTuple):
    x: int
    at: datetime


Untyped = namedtuple("Untyped", "a b")  # that is what is tried


@dataclasses.dataclass
class Point:
    x: Any
    twice: int = dataclasses.field(default=0, init=False)

    def __post_init__(self) -> None:
        self.twice = 1 if self.twice == 0 else self.twice * 2

    @cached_property
    def name(self) -> str:
        return "point"


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    when: datetime
    inner: Point | None = None


class Noted:
    __slots__ = ("note",)


@dataclasses.dataclass(slots=True)
class Slim(Noted):
    x: int


@dataclasses.dataclass
class Batch(list[int]):
    name: str


@dataclasses.dataclass
class Refused(Exception):
    code: int


@attrs.define
class Headers(dict[str, str]):
    name: str


class Marked(list[int]):
    __slots__ = ("mark",)


class Groups(defaultdict[str, list[int]]):
    pass


@attrs.define
class Cached:
    x: int

    @cached_property
    def twice(self) -> int:
        return self.x * 2


@attrs.frozen(cache_hash=True)
class Hashed:
    name: str


@attrs.define
class Box:
    _hidden: int
    items: set[int]


class Model(pydantic.BaseModel):
    when: datetime = pydantic.Field(alias="at")
    price: Decimal = Decimal("1.50")
    inner: list[Fixed] = []


class Record(msgspec.Struct):
    a: int
    b: tuple[int, ...] = ()


class Account:
    """As Airflow has it: `serialize`, `deserialize(data, version)`."""

    __version__ = 2

    def __init__(self, number: int) -> None:
        self.number = number

    def serialize(self) -> dict[str, Any]:
        return {"number": self.number, "since": date(2026, 1, 1)}

    @staticmethod
    def deserialize(data: dict[str, Any], version: int) -> Account:
        assert version == 2
        assert data["since"] == date(2026, 1, 1)
        return Account(data["number"])


class Handle:
    def __init__(self, name: str) -> None:
        self.name = name


class Forgetful:
    def __init__(self, x: int) -> None:
        self.x = x

    def serialize(self) -> int:
        return self.x

    @staticmethod
    def deserialize(data: int, version: int) -> Forgetful:
        return Forgetful(data + 1)


def with_attributes(value: Any, **attributes: Any) -> Any:
    for name, item in attributes.items():
        setattr(value, name, item)
    return value


AMSTERDAM = ZoneInfo("Europe/Amsterdam")
TWICE = datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001 # a moment that comes twice in Amsterdam


@pytest.mark.parametrize(
    "value",
    [
        datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=timezone(-timedelta(hours=3, minutes=30))),
        TWICE.replace(tzinfo=AMSTERDAM, fold=1),
        pendulum.datetime(2024, 7, 1, tz="Europe/Paris"),
        pendulum.date(2024, 1, 1),
        pendulum.time(1, 2, 3),
        pendulum.interval(pendulum.datetime(2024, 1, 1), pendulum.datetime(2024, 3, 1)),
        UTC,
        AMSTERDAM,
        Decimal("-Infinity"),
        {1: "a", None: 2, (1, 2): {3}, False: 4} | {"1": "text"},
        ipaddress.ip_address("10.0.0.1"),
        ipaddress.ip_network("fe80::/64"),
        Rows([1, 2]),
        Place(1, datetime(2024, 1, 1, tzinfo=UTC)),
        Untyped((1,), {2}),
        Point([Decimal(1)]),
        Fixed(datetime(2024, 1, 1, tzinfo=UTC), Point(None)),
        {Hashed("a"): Hashed("b")},
        Model(at=datetime(2024, 1, 1, tzinfo=UTC), inner=[Fixed(datetime(2024, 1, 1, tzinfo=AMSTERDAM))]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    """All other kinds of values: tests/testing/test_values_keep_types.py."""
    text = write_xcom(value)
    back = read_xcom(text)

    assert back == value
    assert type(back) is type(value)
    assert repr(back) == repr(value) or isinstance(value, set)
    assert write_xcom(back) == text or isinstance(value, set)
    if isinstance(value, datetime | time):
        assert type(back.tzinfo) is type(value.tzinfo)
        assert back.utcoffset() == value.utcoffset()  # type: ignore[union-attr] # it is a time
    assert json.loads(json.dumps(json.loads(text), allow_nan=False)) == json.loads(text)  # strict JSON, for anyone


def test_what_is_in_slots_comes_back() -> None:
    back = read_xcom(write_xcom(with_attributes(Slim(1), note=Decimal(2))))

    assert (back.x, back.note) == (1, Decimal(2))


def test_what_attrs_caches_is_not_written() -> None:
    value = Cached(1)
    assert value.twice == 2

    assert b"twice" not in write_xcom(value)


def test_a_number_of_thousands_of_digits_comes_back() -> None:
    assert read_xcom(write_xcom({10**5_000: -(10**5_000)})) == {10**5_000: -(10**5_000)}


def test_no_number_is_not_a_number_again() -> None:
    back = read_xcom(write_xcom([float("nan"), None, Decimal("NaN"), Point(float("nan"))]))

    assert [str(back[0]), back[1], str(back[2]), str(back[3].x)] == ["nan", None, "NaN", "nan"]


def test_classes_with_methods_or_a_codec_come_back() -> None:
    register_codec(Handle, lambda value: (value.name,), lambda data, version: Handle(f"{data[0]}{version}"[:-1]))
    try:
        account, handle = read_xcom(write_xcom([Account(7), Handle("h")]))
    finally:
        del registered[Handle]

    assert (type(account), account.number, type(handle), handle.name) == (Account, 7, Handle, "h")


text = st.text(st.characters(codec="utf-8"))
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=30,
)
rich = st.recursive(
    plain | st.floats(allow_nan=False) | st.integers() | st.datetimes() | st.decimals(allow_nan=False) | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | text | st.just("$aiosched"), inner, max_size=3)
    ),
    max_leaves=15,
)


@given(plain)
def test_what_json_holds_is_written_as_before(value: Any) -> None:
    assert plain_text(value) == write_xcom(value) == msgspec.json.encode(value)


@pytest.mark.parametrize("filler", [0, 30, 60, 500], ids=lambda size: f"beside {size} characters")
@pytest.mark.parametrize("kind", ["list", "dict"])
def test_values_are_nested_up_to_a_limit_whatever_their_size(kind: str, filler: int) -> None:
    """Small values are looked at in another way than large ones."""

    def nested(depth: int) -> Any:
        value: Any = "x" * filler
        for _ in range(depth):
            value = [value] if kind == "list" else {"": value}
        return value

    assert plain_text(nested(64)) == msgspec.json.encode(nested(64))
    assert plain_text(nested(65)) is None


@pytest.mark.parametrize("rows", [1, 4, 9, 12, 40])
def test_what_json_changes_is_found_in_values_of_any_size(rows: int) -> None:
    def value(odd: Any) -> Any:
        table = [{"id": n, "tags": ["a", "b"], "at": {"x": 1.5, "y": None}} for n in range(rows)]
        return {"rows": [*table, {"last": [odd]}]}

    assert plain_text(value(True)) == msgspec.json.encode(value(True))
    for odd in ((1,), {1}, 1 + 0j, float("nan"), float("inf"), {1: "a"}, {"$aiosched": 1}, Colour.RED, Decimal(1), b"x",
                UTC, OrderedDict(a=1), Counter("a"), {"__object_storage_path__": "x"}):  # fmt: skip
        assert plain_text(value(odd)) is None, odd


@given(rich)
def test_mixed_values_come_back(value: Any) -> None:
    back = read_xcom(write_xcom(value))

    assert back == value
    assert repr(back) == repr(value)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"a": [1, {"b": iter(())}]}, "['a'][1]['b'] is a tuple_iterator"),
        ({object: 1}, "has the key <class 'object'>, which is a type"),
        (Point(object()), "['x'] is an object"),
        ({"when": datetime(2024, 1, 1, tzinfo=Odd())}, "['when'] has a time zone"),
        (Batch("a"), "is a test_typed_json.Batch, which has more than its fields: give the class serialize()"),
        (Refused(3), "which has more than its fields"),
        (Headers("a"), "which has more than its fields"),
        (with_attributes(Marked([1]), mark=2), "with attributes of its own"),
        (Groups(list, {"a": [1]}), "with attributes of its own"),
        (Forgetful(1), "does not come back equal when it is read (Forgetful)"),
        (int, "is a type"),
    ],
)  # fmt: skip
def test_what_cannot_come_back_is_refused_with_its_place(value: Any, what: str) -> None:
    with pytest.raises(NotJson) as caught:
        write_xcom(value)

    assert what in f"{caught.value.place} {caught.value.what}".strip()


def test_a_structure_that_contains_itself_is_refused() -> None:
    ring: list[Any] = []
    ring += [ring, ring]

    with pytest.raises(NotJson, match="contains itself"):
        write_xcom(ring)


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "builtins:object", "nowhere:Thing", "os:nothing"])
def test_only_classes_of_known_kinds_are_made(name: str) -> None:
    with pytest.raises(AioschedError, match="cannot be read"):
        read_xcom(msgspec.json.encode({"$aiosched": "object", "class": name, "value": {"a": 1}}))


def test_without_a_finder_no_class_is_made() -> None:
    with pytest.raises(ValueError, match="'object' cannot be read here"):
        decode(write_xcom(Point(1)))
    with pytest.raises(AioschedError, match="'from a newer version' cannot be read"):
        read_xcom('{"$aiosched": "from a newer version", "value": 1}')


def test_the_module_of_a_dag_file_is_found_in_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(json)("aiosched_dag_0123456789ab_moved")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    assert find_module("aiosched_dag_ba9876543210_moved") is module
    with pytest.raises(ImportError, match="the DAG file nowhere, which is not imported here"):
        find_module("aiosched_dag_ba9876543210_nowhere")
    monkeypatch.setitem(sys.modules, "aiosched_dag_00000000aaaa_moved", type(json)("other"))
    with pytest.raises(ImportError, match="the DAG file moved, of which several are imported here"):
        find_module("aiosched_dag_ba9876543210_moved")
    assert find_module(module.__name__) is module


@pytest.mark.parametrize(
    ("value", "length", "items"),
    [
        ([1, 2], 2, [b"1", b"2"]),
        ({"a": 1}, 1, {"a": b"1"}),
        ((1, Decimal(2)), 2, [b"1", b'{"$aiosched":"decimal","value":"2"}']),
        ({1: 2}, 1, None),
        (Place(1, datetime(2024, 1, 1, tzinfo=UTC)), 2, None),
        (Rows([1, 2, 3]), 3, None),
        (5, None, None),
        (Decimal(5), None, None),
    ],
)
def test_the_items_of_a_collection_are_counted_where_nothing_is_read(value: Any, length: int, items: Any) -> None:
    text = write_xcom(value).decode()

    assert json_length(text) == length
    found = items_in(text)
    assert items == (
        [bytes(item) for item in found]
        if isinstance(found, list)
        else found and {key: bytes(item) for key, item in found.items()}
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([1, "a"], [1, "a"]),
        (Decimal("1.50"), "decimal 1.50"),
        ((1, datetime(2024, 7, 1, tzinfo=AMSTERDAM)),
         {"tuple": [1, "datetime 2024-07-01T00:00:00+02:00 [Europe/Amsterdam]"]}),
        ({1: {"a": 2}}, {"1": {"a": 2}}),
        (Colour.RED, "Colour red"),
        ({"p": Point(1)}, {"p": {"Point": {"x": 1, "twice": 1}}}),
    ],
)  # fmt: skip
def test_people_read_what_a_value_is(value: Any, shown: Any) -> None:
    assert readable(json.loads(write_xcom(value))) == shown


class Later:
    """Classes as they are when a value is read again, by the names of those above."""

    @dataclasses.dataclass
    class Point:
        x: Any
        z: int

    @dataclasses.dataclass(frozen=True, slots=True)
    class Fixed:
        when: datetime

    @attrs.define
    class Box:
        _hidden: int
        items: set[int]
        size: int

    class Place(NamedTuple):
        x: int
        at: datetime
        name: str

    class Model(pydantic.BaseModel):
        price: Decimal
        owner: str

    class Record(msgspec.Struct):
        b: tuple[int, ...] = ()

    class Colour(enum.Enum):
        GREEN = "green"

    Account = 5


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Point(1), "it has a field 'z' without a default, which the value does not have"),
        (Fixed(datetime(2024, 1, 1, tzinfo=UTC)), "AttributeError"),
        (Box(1, {2}), "it has a field 'size' without a default"),
        (Place(1, datetime(2024, 1, 1, tzinfo=UTC)), "it has a field 'name' without a default"),
        (Model(at=datetime(2024, 1, 1, tzinfo=UTC)), "it has a field 'owner' without a default"),
        (Record(1), "keyword argument 'a'"),
        (Colour.RED, "'red' is not a valid"),
        (Account(7), "it is no class of a kind that is allowed"),
        ({"gone": [Handle("h")]}, "has no attribute 'Handle'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_class_that_changed_or_is_gone_is_named(value: Any, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    register_codec(Handle, lambda value: value.name, lambda data, _version: Handle(data))
    text = write_xcom(value)
    del registered[Handle]
    name = next(iter(set(vars(Later)) & {type(value).__name__}), "Handle")
    if name == "Handle":
        monkeypatch.delattr(sys.modules[__name__], name)
    else:
        monkeypatch.setattr(sys.modules[__name__], name, vars(Later)[name])

    with pytest.raises(AioschedError) as caught:
        read_xcom(text)

    message = str(caught.value)
    assert f"a value of the class {__name__}:{name} cannot be read: " in message
    assert what in message
    assert message.endswith("if it changed, clear the task that pushed it.")
    assert name in json.dumps(readable(json.loads(text)))  # pages show it all the same


class Grown:
    """Classes with fields that are new, and have defaults."""

    @dataclasses.dataclass
    class Point:
        x: Any
        more: list[int] = dataclasses.field(default_factory=lambda: [1])
        z: int = 2
        late: int = dataclasses.field(init=False)

    @attrs.define
    class Box:
        _hidden: int
        items: set[int]
        more: list[int] = attrs.field(factory=lambda: [1])
        z: int = 2

    class Place(NamedTuple):
        z: int = 2
        at: Any = None
        x: int = 0
        more: tuple[int, ...] = (1,)

    class Model(pydantic.BaseModel):
        when: datetime = pydantic.Field(alias="at")
        z: int = 2
        more: list[int] = pydantic.Field(default_factory=lambda: [1])


@pytest.mark.parametrize(
    "value",
    [Point(1), Box(1, {2}), Place(1, datetime(2024, 1, 1, tzinfo=UTC)), Model(at=datetime(2024, 1, 1, tzinfo=UTC))],
    ids=lambda value: type(value).__name__,
)
def test_new_fields_of_a_class_get_their_defaults(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text, kind = write_xcom(value), vars(Grown)[type(value).__name__]
    monkeypatch.setattr(sys.modules[__name__], type(value).__name__, kind)

    back = read_xcom(text)

    assert type(back) is kind
    assert (back.z, list(back.more)) == (2, [1])
    assert [getattr(back, name) for name in ("x", "items", "when") if hasattr(value, name)] == [
        getattr(value, name) for name in ("x", "items", "when") if hasattr(value, name)
    ]


@pytest.mark.parametrize(
    "name",
    ["builtins:eval", "builtins:exec", "builtins:int", "os:system.__call__", "importlib:import_module",
     "json:JSONDecoder", "ctypes:CDLL", "pickle:Unpickler", "types:FunctionType", "typing:Any",
     "", "builtins", ":x", "a b:c", "os\0:system"],
)  # fmt: skip
@pytest.mark.parametrize("more", [{}, {"version": "x"}, {"value": {"__class__": "x"}}, {"value": [["a"]]}])
def test_a_hostile_mark_makes_nothing(name: str, more: dict[str, Any]) -> None:
    with pytest.raises(AioschedError, match="cannot be read"):
        read_xcom(msgspec.json.encode({"$aiosched": "object", "class": name, "value": {"a": 1}} | more))


@pytest.mark.parametrize(
    "text",
    [
        '{"$aiosched": ["object"]}',
        '{"$aiosched": {"a": 1}}',
        '{"$aiosched": null}',
        '{"$aiosched": "object"}',
        '{"$aiosched": "object", "class": ["os", "system"], "value": 1}',
        '{"$aiosched": "tuple"}',
        '{"$aiosched": "tuple", "value": 5}',
        '{"$aiosched": "dict", "value": [[[], 1]]}',
        '{"$aiosched": "path", "path": "Path.home", "value": "x"}',
        '{"$aiosched": "address", "address": "ip_network", "value": "x"}',
        '{"$aiosched": "defaultdict", "factory": "eval", "value": []}',
        '{"$aiosched": "zone", "value": "../../etc/passwd"}',
        '{"$aiosched": "numpy.ndarray", "value": "gASVAAAA"}',
    ],
)
def test_a_broken_mark_is_an_error_that_says_so(text: str) -> None:
    with pytest.raises(AioschedError, match="An XCom cannot be read: "):
        read_xcom(text)
    readable(json.loads(text))  # pages show it


@pytest.mark.parametrize("name", ["__class__", "__dict__", "__init__"])
def test_a_hostile_state_sets_no_name_of_python(name: str) -> None:
    text = json.loads(write_xcom(Point(1)))
    text["value"][name] = {"x": 1}

    with pytest.raises(AioschedError, match="has no field"):
        read_xcom(json.dumps(text))
