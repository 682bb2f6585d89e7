"""How many instances a mapping makes. Source: the semantics reference, sections 26.2 and 26.6."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.mapping import check_producers, literal_size, size_of
from aiosched.core.graph.spec import Concatenated, LiteralLength, MapInput, MappingSpec, TaskOutput, Zipped
from aiosched.core.graph.trigger_rules import TriggerVerdict
from aiosched.core.values.states import TaskState
from aiosched.core.values.typed_json import json_length
from tests.core.graph_builders import over

KNOWN = {"two": 2, "three": 3, "none": 0}
TWO, THREE, UNKNOWN = TaskOutput("two"), TaskOutput("three"), TaskOutput("unknown")
S = TaskState


@pytest.mark.parametrize(
    ("mapping", "size"),
    [
        (over(4), 4),
        (over("two"), 2),
        (over("two", "three"), 6),
        (over("two", 0), 0),
        (over("two", "unknown"), None),
        (over("none", "unknown"), None),
        (over(Zipped(inputs=(TWO, THREE))), 2),
        (over(Zipped(inputs=(TWO, THREE), longest=True)), 3),
        (over(Zipped(inputs=(TWO, UNKNOWN))), None),
        (over(Concatenated(inputs=(TWO, THREE, LiteralLength(1)))), 6),
        (over(Zipped(inputs=(Concatenated(inputs=(TWO, TWO)), THREE), longest=True), 2), 8),
    ],
)
def test_the_size_is_the_product_of_the_lengths(mapping: MappingSpec, size: int | None) -> None:
    """Section 26.2."""
    assert size_of(mapping, KNOWN.get) == size


def test_only_literal_values_are_counted_in_advance() -> None:
    assert literal_size([over(2), over(3)]) == 6
    assert literal_size([over(2), over("two")]) is None
    assert literal_size([]) == 1


@given(st.recursive(st.builds(LiteralLength, st.integers(0, 4)), lambda inner: st.one_of(
    st.builds(Zipped, st.lists(inner, min_size=1, max_size=3).map(tuple), st.booleans()),
    st.builds(Concatenated, st.lists(inner, min_size=1, max_size=3).map(tuple)),
)))  # fmt: skip
def test_lengths_are_those_of_the_values(mapped: MapInput) -> None:
    def values(of: MapInput) -> list[int]:
        match of:
            case LiteralLength(length):
                return list(range(length))
            case Zipped(inputs, True):
                return [0 for _ in itertools.zip_longest(*map(values, inputs))]
            case Zipped(inputs):
                return [0 for _ in zip(*map(values, inputs), strict=False)]
            case Concatenated(inputs):
                return [*itertools.chain(*map(values, inputs))]
        raise AssertionError(of)

    assert size_of(over(mapped), KNOWN.get) == len(values(mapped))


@pytest.mark.parametrize(
    ("value", "length"), [("[]", 0), ("[1, [2]]", 2), ('{"a": 1}', 1), ('"text"', None), ("3", None), ("NaN", None)]
)
def test_lists_and_dicts_have_a_length(value: str, length: int | None) -> None:
    assert json_length(value) == length


@pytest.mark.parametrize(
    ("states", "verdict"),
    [
        ([], TriggerVerdict.RUN),
        ([S.SUCCESS, S.SUCCESS], TriggerVerdict.RUN),
        ([S.SUCCESS, S.FAILED], TriggerVerdict.UPSTREAM_FAILED),
        ([S.SKIPPED, S.UPSTREAM_FAILED], TriggerVerdict.UPSTREAM_FAILED),
        ([S.SUCCESS, S.SKIPPED], TriggerVerdict.SKIPPED),
        ([S.REMOVED, S.SKIPPED], TriggerVerdict.SKIPPED),
        ([S.SUCCESS, S.REMOVED], TriggerVerdict.WAIT),
    ],
)
def test_finished_producers_decide_before_the_trigger_rule(states: list[TaskState], verdict: TriggerVerdict) -> None:
    """The table of section 26.6; a producer that is not finished is not among them."""
    assert check_producers(states) is verdict
