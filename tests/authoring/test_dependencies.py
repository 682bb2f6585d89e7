"""Arrows between tasks, lists and groups, and the words on them."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched import DAG, EmptyOperator, Label, TaskGroup, chain, cross_downstream, task
from aiosched.errors import DagError
from tests.authoring.authoring_builders import edges


def tasks(names: str) -> list[EmptyOperator]:
    return [EmptyOperator(task_id=name) for name in names]


@pytest.mark.parametrize("draw", ["dag >> a >> b", "dag << b << a", "a >> dag; a >> b", "dag >> a; dag >> a >> b"])
def test_an_arrow_between_a_dag_and_a_task_puts_it_there(draw: str) -> None:
    dag, other = DAG("d"), DAG("other")
    a, b = EmptyOperator(task_id="a"), EmptyOperator(task_id="b", dag=dag)
    exec(draw, {"a": a, "b": b, "dag": dag})

    assert edges(dag) == {"a>b"}
    with pytest.raises(DagError, match="cannot be connected"):
        other >> a


def build(draw: str) -> set[str]:
    """The edges of a DAG with tasks a to f after `draw`, in which these are names and `g` is a group of g.x >> g.y."""
    with DAG("d") as dag:
        names: dict[str, Any] = {name: EmptyOperator(task_id=name) for name in "abcdef"}
        with TaskGroup("g") as group:
            EmptyOperator(task_id="x") >> EmptyOperator(task_id="y")
        eval(draw, {**names, "g": group, "chain": chain, "cross_downstream": cross_downstream, "Label": Label})
    return edges(dag) - {"g.x>g.y"}


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        ("a >> b", "a>b"),
        ("a << b", "b>a"),
        ("a >> b >> c", "a>b b>c"),
        ("a >> [b, c] >> d", "a>b a>c b>d c>d"),
        ("a << [b, c] << d", "b>a c>a d>b d>c"),
        ("[a, b] >> c", "a>c b>c"),
        ("[a, b] << c", "c>a c>b"),
        ("(a, b) >> c", "a>c b>c"),
        ("a.set_downstream([b, c])", "a>b a>c"),
        ("a.set_upstream(b)", "b>a"),
        ("a >> g >> b", "a>g.x g.y>b"),
        ("g << a", "a>g.x"),
        ("[a, b] >> g", "a>g.x b>g.x"),
        ("a >> [b, g] >> c", "a>b a>g.x b>c g.y>c"),
        ("chain(a, b, c)", "a>b b>c"),
        ("chain(a, [b, c], d)", "a>b a>c b>d c>d"),
        ("chain(a, [b, c], [d, e], f)", "a>b a>c b>d c>e d>f e>f"),
        ("chain(a, g, b)", "a>g.x g.y>b"),
        ("cross_downstream([a, b], [c, d])", "a>c a>d b>c b>d"),
        ("cross_downstream([a, g], c)", "a>c g.y>c"),
        ("a >> b, a >> b", "a>b"),
    ],
)
def test_arrows_connect(draw: str, expected: str) -> None:
    assert build(draw) == set(expected.split())


def test_an_output_stands_for_its_task() -> None:
    @task
    def load() -> int:
        return 1

    with DAG("d") as dag:
        first, last = tasks("ab")
        first >> load() >> last

    assert edges(dag) == {"a>load", "load>b"}


@pytest.mark.parametrize(
    ("draw", "labels"),
    [
        ("a >> Label('x') >> b", {"a>b": "x"}),
        ("a << Label('x') << b", {"b>a": "x"}),
        ("a >> Label('x') >> [b, c]", {"a>b": "x", "a>c": "x"}),
        ("[a, b] >> Label('x') >> c", {"a>c": "x", "b>c": "x"}),
        ("chain(a, [Label('x'), Label('y')], [b, c])", {"a>b": "x", "a>c": "y"}),
        ("a >> Label('x') >> g", {"a>g.x": "x"}),
        ("a.set_downstream(b, edge_modifier=Label('x'))", {"a>b": "x"}),
    ],
)
def test_labels_are_words_on_edges(draw: str, labels: dict[str, str]) -> None:
    with DAG("d") as dag:
        names: dict[str, Any] = {name: EmptyOperator(task_id=name) for name in "abc"}
        with TaskGroup("g") as group:
            EmptyOperator(task_id="x")
        eval(draw, {**names, "g": group, "chain": chain, "Label": Label})

    assert dag.to_spec().edge_labels == labels
    assert edges(dag) == set(labels)


def test_lists_of_different_length_cannot_be_chained() -> None:
    with DAG("d"):
        a, b, c = tasks("abc")
    with pytest.raises(DagError, match=r"have 2 and 1 items.*cross_downstream") as caught:
        chain([a, b], [c])

    assert caught.value.file == __file__


def test_a_task_without_a_dag_joins_the_dag_of_the_other() -> None:
    dag = DAG("d")
    inside = EmptyOperator(task_id="inside", dag=dag)
    outside = EmptyOperator(task_id="outside")

    outside >> inside

    assert outside.dag is dag
    assert edges(dag) == {"outside>inside"}


def test_an_arrow_stays_inside_one_dag() -> None:
    one = EmptyOperator(task_id="a", dag=DAG("one"))
    other = EmptyOperator(task_id="b", dag=DAG("other"))

    with pytest.raises(DagError, match="'a' of DAG 'one' and 'b' of DAG 'other'"):
        one >> other
    with pytest.raises(DagError, match="in no DAG yet"):
        EmptyOperator(task_id="c") >> EmptyOperator(task_id="d")


def test_a_function_at_an_arrow_was_probably_meant_to_be_called() -> None:
    @task
    def load() -> None: ...

    with DAG("d"), pytest.raises(DagError, match=r"load cannot be connected.*Call it: load\(\)"):
        EmptyOperator(task_id="a") >> load


def test_neighbours_are_listed_by_id() -> None:
    with DAG("d"):
        a, b, c = tasks("abc")
        a << [c, b]

    assert [task.task_id for task in a.upstream_list] == ["b", "c"]
    assert [task.task_id for task in b.downstream_list] == ["a"]
