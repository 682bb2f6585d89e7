"""What can be an XCom, and what is said about what cannot."""

from __future__ import annotations

import dataclasses
import json
import re
import threading
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pendulum
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.executors.attempt.results import UnusableResult, collect_xcoms, encode_xcom

LIMIT = 1000


@dataclasses.dataclass
class Point:
    x: Any


class Model(pydantic.BaseModel):
    when: datetime


class Broken:
    def __repr__(self) -> str:
        raise ValueError("no")


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not the text"


class Number(int):
    pass


class Ratio(float):
    pass


class Scalar:
    """A number of NumPy, as far as the encoder looks at it."""

    __module__ = "numpy"
    ndim = 0

    def __init__(self, number: float) -> None:
        self.number = number

    def item(self) -> float:
        return self.number


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(plain)
def test_plain_data_comes_back_as_it_went(value: Any) -> None:
    assert json.loads(encode_xcom("k", value, 10**9)) == value


@pytest.mark.parametrize(
    ("value", "back"),
    [
        ((1, 2), [1, 2]),
        ({3}, [3]),
        ({1: "a"}, {"1": "a"}),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (Decimal("1.10"), "1.10"),
        (b"ab", "YWI="),
        (Point([1]), {"x": [1]}),
        (Model(when=datetime(2026, 1, 1, tzinfo=UTC)), {"when": "2026-01-01T00:00:00Z"}),
        (2**64 - 1, 2**64 - 1),
        (Text("a"), "a"),
        (Number(3), 3),
        (Ratio(1.5), 1.5),
        (Scalar(7), 7),
        (pendulum.datetime(2026, 1, 1, tz="Europe/Amsterdam"), "2026-01-01T00:00:00+01:00"),
        ({"at": [pendulum.naive(2026, 1, 1)]}, {"at": ["2026-01-01T00:00:00"]}),
        (pendulum.date(2026, 1, 1), "2026-01-01"),
        (pendulum.time(3, 4), "03:04:00"),
        (pendulum.duration(hours=1), "PT3600S"),
    ],
)  # fmt: skip
def test_richer_values_come_back_as_plain_ones(value: Any, back: Any) -> None:
    assert json.loads(encode_xcom("k", value, LIMIT)) == back


def test_a_value_out_of_bounds_is_refused_with_its_place() -> None:
    deep: Any = 1
    for _ in range(70):
        deep = [deep]

    with pytest.raises(
        UnusableResult, match=re.escape("k['a'][1] is an integer of more than 64 bits: give it as text.")
    ):
        encode_xcom("k", {"a": [1, 2**70]}, LIMIT)
    with pytest.raises(UnusableResult, match="is nested more than 64 levels deep: give it as text"):
        encode_xcom("k", Point(deep), LIMIT)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "k is an object, which JSON cannot hold"),
        ({None: 1}, "the key None of k is a NoneType, and keys of JSON are strings: use str(key)"),
        ({"a": {(1, 2): 1}}, "the key (1, 2) of k['a'] is a tuple, and keys of JSON are strings"),
        ({"a": [1, threading.Lock()]}, "k['a'][1] is a _thread.lock, which JSON cannot hold"),
        (Point({"in": Broken()}), r"k.x['in'] is a"),
        ([float("nan")], "k[0] is nan, which JSON cannot hold"),
        ([Scalar(float("nan"))], "k[0] is a numpy.Scalar, which JSON cannot hold"),
        ({"a": None, "b": float("-inf")}, "k['b'] is -inf, which JSON cannot hold"),
        ((number for number in [1]), "k is a generator"),
        ("\ud800", "k is a str"),
        ("x" * LIMIT, "The XCom 'k' has 1,002 bytes, the limit is 1,000."),
    ],
)
def test_what_json_cannot_hold_is_refused_naming_the_place(value: Any, message: str) -> None:
    with pytest.raises(UnusableResult) as caught:
        encode_xcom("k", value, LIMIT)

    assert str(caught.value).startswith(message)


def test_a_structure_that_contains_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)

    with pytest.raises(UnusableResult, match="RecursionError"):
        encode_xcom("k", ring, LIMIT)


@pytest.mark.parametrize("result", [[1], 1, {1: 2}])
def test_multiple_outputs_needs_a_dict_with_string_keys(result: Any) -> None:
    with pytest.raises(UnusableResult, match="multiple_outputs needs a dict"):
        collect_xcoms(result, (), push_result=True, multiple_outputs=True, limit=LIMIT)


@pytest.mark.parametrize("key", ["", "x" * 513, 1, "a\0b"])
def test_a_key_that_cannot_be_is_refused(key: Any) -> None:
    with pytest.raises(UnusableResult, match="An XCom key is a string"):
        collect_xcoms(None, [(key, 1)], push_result=True, multiple_outputs=False, limit=LIMIT)


def test_many_values_that_are_too_large_together_are_refused() -> None:
    pushed = [(str(number), "x" * 900) for number in range(20)]

    with pytest.raises(UnusableResult, match="bytes together"):
        collect_xcoms(None, pushed, push_result=True, multiple_outputs=False, limit=LIMIT)
