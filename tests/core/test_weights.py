"""Effective priority weights: the table of the semantics reference, section 18.2, and a slow count as judge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.spec import TaskSpec
from aiosched.core.graph.weights import MAX_WEIGHT, MIN_WEIGHT
from tests.core.graph_builders import dags, graph, task

RULES = ("downstream", "upstream", "absolute")


@pytest.mark.parametrize(
    ("rule", "weights"), [("downstream", (3, 2, 1)), ("upstream", (1, 2, 3)), ("absolute", (1, 1, 1))]
)
def test_a_chain_of_three(rule: str, weights: tuple[int, ...]) -> None:
    chain = [task("a"), task("b", "a"), task("c", "b")]

    assert graph(*(with_weight(t, rule, 1) for t in chain)).weights == weights


def test_the_end_of_a_diamond_counts_once() -> None:
    assert graph(task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")).weights == (4, 2, 2, 1)


def test_each_task_follows_its_own_rule() -> None:
    compiled = graph(
        task("a", priority_weight=5, weight_rule="absolute"),
        task("b", "a", priority_weight=2),
        task("c", "b", priority_weight=10, weight_rule="upstream"),
    )

    assert compiled.weights == (5, 12, 17)


@pytest.mark.parametrize(("own", "effective"), [(2**31 - 1, MAX_WEIGHT), (-(2**31), MIN_WEIGHT), (-3, -6)])
def test_weights_may_be_negative_and_are_capped_to_32_bits(own: int, effective: int) -> None:
    assert graph(task("a", priority_weight=own), task("b", "a", priority_weight=own)).weights[0] == effective


@given(dags(), st.data())
def test_weights_agree_with_a_count_over_sets(tasks: list[TaskSpec], data: st.DataObject) -> None:
    weighted = [
        with_weight(t, data.draw(st.sampled_from(RULES)), data.draw(st.integers(-100, 100) | st.just(1))) for t in tasks
    ]
    compiled = graph(*weighted)

    for index, spec in enumerate(weighted):
        others = {
            "downstream": compiled.descendants(index),
            "upstream": compiled.ancestors(index),
            "absolute": frozenset(),
        }[spec.weight_rule]
        assert compiled.weights[index] == spec.priority_weight + sum(
            weighted[other].priority_weight for other in others
        )


def with_weight(spec: TaskSpec, rule: str, weight: int) -> TaskSpec:
    return task(spec.task_id, *spec.upstream, weight_rule=rule, priority_weight=weight)
