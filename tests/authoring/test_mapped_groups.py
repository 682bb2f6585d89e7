"""Mapped task groups: what the scheduler is told, and which values each instance sees.

Source: the semantics reference, sections 26.7, 26.8 and 36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aiosched import DAG, BashOperator, TaskGroup, task, task_group
from aiosched.core.graph.spec import GroupSpec, LiteralLength, MappingSpec, TaskOutput
from aiosched.core.values.messages import XComRef
from aiosched.errors import AioschedError
from tests.authoring.authoring_builders import FakeServices, attempt_of, context_of, edges, run_task, without_loop

Stored = Mapping[tuple[str, str], Mapping[int, Any]]


@task
def make() -> list[int]:
    return [1, 2]


@task
def first(value: Any) -> Any:
    return value


@task
def second(value: Any, outside: Any = None) -> Any:
    return (value, outside)


@task
def collect(values: Any) -> Any:
    return values


def group_of(dag: DAG, group_id: str) -> GroupSpec:
    return next(group for group in dag.to_spec().groups if group.group_id == group_id)


async def run(dag: DAG, task_id: str, map_index: int = -1, stored: Stored | None = None) -> Any:
    return (await run_task(dag.task(task_id), attempt_of(task_id, map_index=map_index), xcoms=stored))[0]


def two_steps() -> DAG:
    with DAG("d") as dag:
        outside = make.override(task_id="outside")()

        @task_group
        def each(value: Any, word: str = "w") -> Any:
            return second(first(value), outside=[outside, word])

        collect(each.expand(value=make()))
    return dag


def test_the_scheduler_is_told_what_a_group_is_mapped_over() -> None:
    dag = two_steps()

    assert group_of(dag, "each").mapping == MappingSpec(inputs=(TaskOutput("make"),))
    assert [one.mapping for one in dag.to_spec().tasks] == [None] * 5


def test_the_producer_goes_before_every_task_that_reads_it_and_the_groups_first_ones() -> None:
    with DAG("d") as dag:

        @task_group
        def each(value: Any) -> None:
            collect("nothing") >> second(first.override(task_id="reader")(value))

        each.expand(value=make())

    assert edges(dag) == {
        "make>each.collect", "make>each.reader", "each.reader>each.second", "each.collect>each.second",
    }  # fmt: skip


async def test_each_instance_sees_its_own_argument() -> None:
    dag = two_steps()
    stored: Stored = {("make", "return_value"): {-1: ["a", "b"]}}

    assert [await run(dag, "each.first", index, stored) for index in (0, 1)] == ["a", "b"]


async def test_a_value_of_the_group_is_that_of_the_own_index_and_one_from_outside_is_whole() -> None:
    dag = two_steps()
    stored: Stored = {("each.first", "return_value"): {0: "a", 1: "b"}, ("outside", "return_value"): {-1: [7, 8]}}

    assert await run(dag, "each.second", 1, stored) == ("b", [[7, 8], "w"])


def test_only_the_own_index_is_fetched() -> None:
    dag = two_steps()

    assert dag.task("each.second").xcom_references(3) == (XComRef("each.first", map_index=3), XComRef("outside"))
    assert set(dag.task("each.first").xcom_references(3)) == {XComRef("make")}


async def test_outside_of_the_group_the_values_of_all_instances_are_gathered() -> None:
    dag = two_steps()

    assert await run(dag, "collect", stored={("each.second", "return_value"): {0: "a", 2: "c"}}) == ["a", "c"]
    assert await run(dag, "collect", stored={("each.second", "return_value"): {0: "a"}}) == ["a"]
    assert await run(dag, "collect") == []


async def test_a_task_is_mapped_over_the_output_of_a_group_as_over_a_mapped_task() -> None:
    with DAG("d") as dag:

        @task_group
        def each(value: Any) -> Any:
            return first(value)

        collect.expand(values=each.expand(value=[1, 2, 3]).map(str))
    spec = {one.task_id: one for one in dag.to_spec().tasks}

    assert spec["collect"].mapping == MappingSpec(inputs=(TaskOutput("each.first"),))
    assert await run(dag, "collect", 1, {("each.first", "return_value"): {0: 10, 1: 11, 2: 12}}) == "11"


async def test_a_missing_value_of_the_own_index_is_none() -> None:
    dag = two_steps()

    assert await run(dag, "each.second", 1, {("each.first", "return_value"): {0: "a"}}) == (None, [None, "w"])


async def test_arguments_are_combined_and_partial_ones_are_the_same_everywhere() -> None:
    with DAG("d") as dag:

        @task_group
        def each(a: Any, b: Any, c: Any) -> None:
            collect([a, b, c])

        each.partial(c="c").expand(a=[1, 2], b={"k": "v"})
    group = group_of(dag, "each")

    assert group.mapping == MappingSpec(inputs=(LiteralLength(2), LiteralLength(1)))
    assert group.arguments == {"a": [1, 2], "b": {"k": "v"}}
    assert await run(dag, "each.collect", 1) == [2, ("k", "v"), "c"]


async def test_a_group_takes_dicts_of_arguments_and_falls_back_to_defaults() -> None:
    with DAG("d") as dag:

        @task_group
        def each(a: Any, b: Any = "b") -> None:
            collect([a, b])

        each.expand_kwargs(make())
    stored: Stored = {("make", "return_value"): {-1: [{"a": 1}, {"a": 2, "b": 3}, {"b": 4}]}}

    assert [await run(dag, "each.collect", index, stored) for index in (0, 1)] == [[1, "b"], [2, 3]]
    with pytest.raises(AioschedError, match=r"'each' got no argument 'a' for map index 2: give it in every dict"):
        await run(dag, "each.collect", 2, stored)


async def test_arguments_reach_operators_and_templates_beside_them() -> None:
    with DAG("d") as dag:

        @task_group
        def each(word: Any) -> None:
            BashOperator(task_id="say", bash_command="echo $WORD {{ ti.map_index }}", env={"WORD": word})

        each.expand(word=["a", "b"])

    assert await run(dag, "each.say", 1) == "b 1"


def test_a_group_called_twice_gets_an_id_of_its_own() -> None:
    with DAG("d") as dag:

        @task_group
        def each(value: Any) -> None:
            first(value)

        each.expand(value=[1])
        each.override(tooltip="more").expand(value=[1, 2])

    assert [(group.group_id, group.tooltip) for group in dag.to_spec().groups] == [("each", ""), ("each__1", "more")]


def test_arrows_go_to_and_from_mapped_groups() -> None:
    with DAG("d") as dag:

        @task_group
        def each(value: Any) -> None:
            first(value) >> second("x")

        make() >> each.expand(value=[1]) >> collect("x")

    assert edges(dag) == {"make>each.first", "each.first>each.second", "each.second>collect"}


async def test_plain_groups_inside_and_around_a_mapped_one_change_nothing() -> None:
    with DAG("d") as dag, TaskGroup("outer"):

        @task_group
        def each(value: Any) -> None:
            with TaskGroup("inner"):
                read = first(value)
            second(read)

        each.expand(value=["a", "b"])

    assert await run(dag, "outer.each.inner.first", 1) == "b"
    assert await run(dag, "outer.each.second", 1, {("outer.each.inner.first", "return_value"): {1: "r"}}) == ("r", None)


def nested() -> DAG:
    with DAG("d") as dag:
        rows = make()

        @task_group
        def outer(a: Any) -> None:
            before = first(a)

            @task_group
            def inner(b: Any) -> Any:
                return second(before, outside=[a, b])

            collect(inner.expand(b=rows))

        outer.expand(a=["x", "y"])
    return dag


async def test_independent_mapped_groups_may_be_nested_and_the_inner_index_varies_fastest() -> None:
    dag = nested()
    stored: Stored = {("make", "return_value"): {-1: [1, 2, 3]}, ("outer.first", "return_value"): {0: "fx", 1: "fy"}}

    assert [await run(dag, "outer.inner.second", index, stored) for index in (0, 2, 3, 5)] == [
        ("fx", ["x", 1]),
        ("fx", ["x", 3]),
        ("fy", ["y", 1]),
        ("fy", ["y", 3]),
    ]


async def test_a_task_between_nested_groups_reads_its_share_of_the_inner_one() -> None:
    dag = nested()
    stored: Stored = {
        ("make", "return_value"): {-1: [1, 2, 3]},
        ("outer.inner.second", "return_value"): dict(enumerate("abcdef")),
    }

    assert await run(dag, "outer.collect", 1, stored) == ["d", "e", "f"]


def test_pulling_by_hand_reads_all_instances() -> None:
    dag = two_steps()
    services = FakeServices({("each.first", "return_value"): {0: "a", 1: "b"}})
    attempt = attempt_of("each.second", map_index=1)
    ti = context_of(dag.task("each.second"), attempt, services=services, blocking=without_loop)["ti"]

    assert ti.xcom_pull("each.first") == ["a", "b"]
    assert ti.xcom_pull("each.first", map_indexes=ti.map_index) == "b"
