"""What can be an XCom, and what is said about what cannot."""

from __future__ import annotations

import dataclasses
import json
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiosched.core.values.typed_json import decode
from aiosched.executors.attempt.results import UnusableResult, collect_xcoms, encode_xcom

LIMIT = 1000


@dataclasses.dataclass
class Point:
    x: Any


class Broken:
    def __repr__(self) -> str:
        raise ValueError("no")


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@example({"$aiosched": None})
@given(plain)
def test_plain_data_comes_back_as_it_went(value: Any) -> None:
    text = encode_xcom("k", value, 10**9)

    assert decode(text) == value
    assert json.loads(text) == value or '"$aiosched"' in text  # a key that is itself a mark is written with one


def test_what_comes_back_is_written_with_a_mark() -> None:
    """All kinds: tests/core/test_typed_json.py."""
    assert json.loads(encode_xcom("k", {"at": datetime(2026, 1, 1, tzinfo=UTC)}, LIMIT)) == {
        "at": {"$aiosched": "datetime", "value": "2026-01-01T00:00:00+00:00"}
    }


def test_a_value_out_of_bounds_is_refused_with_its_place() -> None:
    deep: Any = 1
    for _ in range(70):
        deep = [deep]

    with pytest.raises(UnusableResult, match="is nested more than 64 levels deep: give it as text"):
        encode_xcom("k", Point(deep), LIMIT)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "k is an object, which JSON cannot hold"),
        ({"a": {int: 1}}, "k['a'] has the key <class 'int'>, which is a type"),
        ({"a": [1, threading.Lock()]}, "k['a'][1] is a _thread.lock, which JSON cannot hold"),
        (Point({"in": Broken()}), r"k['x']['in'] is a"),
        ((number for number in [1]), "k is a generator"),
        ("\ud800", "k has a text with lone surrogates"),
        ("x" * LIMIT, "The XCom 'k' has 1,002 bytes, the limit is 1,000."),
    ],
)
def test_what_json_cannot_hold_is_refused_naming_the_place(value: Any, message: str) -> None:
    with pytest.raises(UnusableResult) as caught:
        encode_xcom("k", value, LIMIT)

    assert str(caught.value).startswith(message)


def test_a_coroutine_that_is_returned_was_not_awaited() -> None:
    async def rows() -> None: ...

    forgotten = rows()
    with pytest.raises(
        UnusableResult, match=r"k is a coroutine, .*: it was not awaited\. Write `await` before the call"
    ):
        encode_xcom("k", forgotten, LIMIT)
    forgotten.close()


def test_a_structure_that_contains_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)

    with pytest.raises(UnusableResult, match="k is nested too deeply, or contains itself"):
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
