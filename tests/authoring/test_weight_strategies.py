"""Priority weights that authors compute. Source: the semantics reference, section 18.2."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched import DAG, BashOperator, EmptyOperator, PriorityWeightStrategy
from aiosched.authoring.dag.serialize import to_spec
from aiosched.core.graph.graph import Graph
from aiosched.errors import DagError
from tests.authoring.authoring_builders import LOGICAL_DATE


class Decreasing(PriorityWeightStrategy):
    """3, 2, 1, 1, …"""

    def get_weight(self, ti: Any) -> int:
        return max(3 - ti.try_number + 1, 1)


class Facts(PriorityWeightStrategy):
    """Returns a fact of the try."""

    def __init__(self, name: str = "priority_weight") -> None:
        self.name = name

    def get_weight(self, ti: Any) -> Any:
        return getattr(ti, self.name)


def graph_of(weight_rule: Any, **options: Any) -> Graph:
    with DAG("d") as dag:
        first = EmptyOperator(task_id="first", priority_weight=5)
        first >> EmptyOperator(task_id="t", priority_weight=7, weight_rule=weight_rule, **options)
    return Graph(to_spec(dag, now=LOGICAL_DATE))


def test_a_strategy_gives_each_try_its_weight() -> None:
    graph = graph_of(Decreasing())
    index = graph.index["t"]

    assert graph.tasks[index].weights == (3, 2, 1)
    assert [graph.weight(index, number) for number in (1, 2, 3, 4, 99)] == [3, 2, 1, 1, 1]
    assert graph.weights[index] == 3
    assert graph.weights[graph.index["first"]] == 5 + 7  # others count the task's own weight


@pytest.mark.parametrize("rule", [Facts, Facts(), f"{__name__}.Facts"], ids=["class", "strategy", "path"])
def test_a_strategy_is_given_as_itself_its_class_or_its_path(rule: Any) -> None:
    assert graph_of(rule).tasks[1].weights == (7,)


@pytest.mark.parametrize(("name", "weights"), [("max_tries", (4,)), ("map_index", (-1,)), ("try_number", None)])
def test_what_a_strategy_knows(name: str, weights: tuple[int, ...] | None) -> None:
    assert graph_of(Facts(name), retries=4).tasks[1].weights == (weights or tuple(range(1, 17)))


def test_weights_are_stored_for_all_retries_that_can_be_foreseen() -> None:
    assert len(graph_of(Facts("try_number"), retries=30).tasks[1].weights) == 31
    assert len(graph_of(Facts("try_number"), retries=3000).tasks[1].weights) == 64


def test_mapped_tasks_may_have_a_strategy() -> None:
    with DAG("d") as dag:
        BashOperator.partial(task_id="t", weight_rule=Decreasing()).expand(bash_command=["a"])

    assert to_spec(dag, now=LOGICAL_DATE).tasks[0].weights == (3, 2, 1)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Facts("run_id"), r"Facts of task 't' failed for try 1: AttributeError.*before a run exists"),
        (Facts("pool"), "returned 'default_pool'. Return a whole number"),
        ("nowhere.Strategy", "weight_rule='nowhere.Strategy' cannot be imported"),
        (f"{__name__}.Any", "is wrong: give the name of a rule, or a PriorityWeightStrategy"),
        ("downstrem", "did you mean downstream"),
        (7, "weight_rule=7 is wrong"),
    ],
)
def test_what_cannot_work_is_refused_in_the_file(rule: Any, message: str) -> None:
    with pytest.raises(DagError, match=message):
        graph_of(rule)
