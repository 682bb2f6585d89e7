"""What JSON values may be: depth, numbers, text."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.values.json_bounds import MOST_DEPTH, find_problem, is_bounded


def nested(levels: int, inner: Any = 1) -> Any:
    for number in range(levels):
        inner = [inner] if number % 2 else {"a": inner}
    return inner


@pytest.mark.parametrize(
    "value",
    [None, True, 0, 1.5, "ä \U0001f600", [], {}, 2**64 - 1, -(2**63), nested(MOST_DEPTH), {"[[[[": "}}}}"}],
    ids=lambda value: repr(value)[:30],
)
def test_usual_values_have_no_problem(value: Any) -> None:
    assert find_problem(value, "conf") is None
    assert is_bounded(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"a": [1, 2**64]}, "conf['a'][1] is an integer of more than 64 bits: give it as text"),
        ({"a": -(2**63) - 1}, "conf['a'] is an integer of more than 64 bits"),
        ({"a": 10**400}, "conf['a'] is an integer of more than 64 bits"),
        (nested(MOST_DEPTH + 1), "is nested more than 64 levels deep: give it as text"),
        ({"a": float("nan")}, "conf['a'] is nan, which JSON cannot hold"),
        ({"a\0": 1}, "the key 'a\\x00' of conf has a NUL character"),
        (["a\0"], "conf[0] has a NUL character, which cannot be stored"),
        ({"b": "\ud800"}, "conf['b'] has half of a surrogate pair"),
        ({"b": {1, 2}}, "conf['b'] is a set, which JSON cannot hold"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_problem_is_named_with_its_place(value: Any, problem: str) -> None:
    assert problem in str(find_problem(value, "conf"))


def test_the_first_problem_is_named() -> None:
    assert str(find_problem({"a": [0, 2**70], "b": 2**80}, "conf")).startswith("conf['a'][1] ")


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**30, nested(MOST_DEPTH + 1), nested(400, 2**70), [[2**90]]])
def test_a_text_out_of_bounds_is_found(value: Any) -> None:
    assert not is_bounded(json.dumps(value).encode())


@pytest.mark.parametrize(
    "text", [b"1e400", b"1234567890123456789012.5", b"12345678901234567890e5", b'"99999999999999999999"']
)
def test_long_numbers_that_are_no_integers_are_not_meant(text: bytes) -> None:
    assert is_bounded(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**66), 2**66) | st.text('[]{}\\"ab', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[]{}\\"', max_size=3), inner, max_size=3),
    max_leaves=20,
)


@given(values, st.integers(0, 70))
def test_text_and_value_are_judged_alike(value: Any, levels: int) -> None:
    deep = nested(levels, value)

    assert is_bounded(json.dumps(deep).encode()) == (find_problem(deep, "x") is None)
