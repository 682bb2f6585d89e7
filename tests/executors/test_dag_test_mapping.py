"""Whole runs of mapped DAGs, of scopes and of timetables of one's own, in one process: `dag.test()`.

Source: the semantics reference, sections 8 and 26.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from aiosched import DAG, EmptyOperator, setup, task, teardown
from aiosched.authoring.decorators.dags import task_group
from aiosched.errors import SkipTask
from aiosched.executors.dag_test import TestRun, run_dag_test


@task
def make(value: Any) -> Any:
    return value


@task
def same(x: Any) -> Any:
    if x == "fail":
        raise ValueError(x)
    if x == "skip":
        raise SkipTask(x)
    return None if x == "none" else x


@task(trigger_rule="all_done")
def gather(values: Any) -> Any:
    return values


def states(run: TestRun, task_id: str) -> list[str]:
    return [str(one.state) for one in sorted(run.tasks, key=lambda one: one.map_index) if one.task_id == task_id]


def value(run: TestRun, task_id: str) -> Any:
    return run.xcoms.get(task_id, {}).get("return_value")


async def played(build: Callable[[], Any], **options: Any) -> TestRun:
    with DAG("d") as dag:
        build()
    return await run_dag_test(dag, **options)


async def test_a_task_is_mapped_over_what_another_returned() -> None:
    run = await played(lambda: gather(same.expand(x=make([1, 2, 3]))))

    assert states(run, "same") == ["success"] * 3
    assert value(run, "gather") == [1, 2, 3]


async def test_nothing_to_map_over_skips_the_task_and_its_all_done_consumer_gets_an_empty_list() -> None:
    run = await played(lambda: gather(same.expand(x=make([]))))

    assert states(run, "same") == ["skipped"]
    assert value(run, "gather") == []


async def test_failed_skipped_and_empty_instances_are_left_out_of_the_list_that_is_mapped_over_next() -> None:
    run = await played(
        lambda: gather(
            same.override(task_id="next", trigger_rule="all_done").expand(
                x=same.expand(x=["a", "fail", "none", "skip", "b"])
            )
        )
    )

    assert states(run, "same") == ["success", "failed", "success", "skipped", "success"]
    assert states(run, "next") == ["success"] * 2
    assert value(run, "gather") == ["a", "b"]


@pytest.mark.parametrize("wrong", [None, 7, "text"])
async def test_a_producer_that_returns_nothing_to_map_over_fails_and_its_consumer_with_it(wrong: Any) -> None:
    run = await played(lambda: same.expand(x=make(wrong)))

    assert states(run, "make") == ["failed"]
    assert "mapped over what task 'make' returns" in (run.task("make").reason or "")
    assert states(run, "same") == ["upstream_failed"]


async def test_zip_concat_map_and_products_agree_with_the_scheduler_on_their_length() -> None:
    def build() -> None:
        a, b = make.override(task_id="a")([1, 2]), make.override(task_id="b")(["x", "y", "z"])
        same.override(task_id="zipped").expand(x=a.zip(b))
        same.override(task_id="filled").expand(x=a.zip(b, fillvalue=0).map(list))
        same.override(task_id="joined").expand(x=a.concat(b, a.map(str)))
        task(task_id="product")(lambda p, q, r: [p, q, r]).expand(p=a, q=["u", "v"], r=b)

    run = await played(build)

    assert value(run, "zipped") == [(1, "x"), (2, "y")]
    assert value(run, "filled") == [[1, "x"], [2, "y"], [0, "z"]]
    assert value(run, "joined") == [1, 2, "x", "y", "z", "1", "2"]
    assert value(run, "product") == [[p, q, r] for p in (1, 2) for q in "uv" for r in "xyz"]


async def test_in_a_mapped_group_each_instance_goes_its_own_way() -> None:
    @task_group
    def each(x: Any) -> Any:
        return same.override(task_id="second")(same.override(task_id="first")(x))

    run = await played(lambda: gather(each.expand(x=make(["a", "fail", "b"]))))

    assert states(run, "each.first") == ["success", "failed", "success"]
    assert states(run, "each.second") == ["success", "upstream_failed", "success"]
    assert value(run, "gather") == ["a", "b"]


async def test_nested_mapped_groups_run_every_combination() -> None:
    def build() -> None:
        numbers = make([1, 2, 3])

        @task_group
        def outer(letter: Any) -> None:
            before = same.override(task_id="before")(letter)

            @task_group
            def inner(number: Any) -> Any:
                return make.override(task_id="pair")([before, number])

            make.override(task_id="after")(inner.expand(number=numbers))

        outer.expand(letter=["a", "b"])

    run = await played(build)

    assert value(run, "outer.inner.pair") == [[letter, number] for letter in "ab" for number in (1, 2, 3)]
    assert value(run, "outer.after") == [[["a", 1], ["a", 2], ["a", 3]], [["b", 1], ["b", 2], ["b", 3]]]


async def test_a_branch_in_a_mapped_group_decides_for_its_own_index() -> None:
    @task_group
    def each(x: Any) -> None:
        @task.branch
        def choose(x: Any) -> str:
            return f"each.{x}"

        choose(x) >> [EmptyOperator(task_id="left"), EmptyOperator(task_id="right")]

    run = await played(lambda: each.expand(x=["left", "right"]))

    assert (states(run, "each.left"), states(run, "each.right")) == (["success", "skipped"], ["skipped", "success"])


async def test_mocked_tasks_may_be_mapped_and_mapped_over() -> None:
    run = await played(lambda: gather(same.expand(x=make(None))), mocks={"make": [1, 2], "same": "mocked"})

    assert value(run, "gather") == ["mocked", "mocked"]


async def test_a_teardown_follows_its_scope_when_a_task_in_it_failed() -> None:
    @setup
    def up() -> str:
        return "u"

    @teardown
    def down(cluster: str) -> None: ...

    def build() -> None:
        with down(up()):
            same.expand(x=["a", "fail"]) >> EmptyOperator(task_id="after")

    run = await played(build)

    assert (str(run.state), states(run, "down"), states(run, "after")) == ("failed", ["success"], ["upstream_failed"])


@pytest.mark.slow
async def test_ten_thousand_instances_are_done() -> None:
    with DAG("d") as dag:
        gather(same.expand(x=list(range(10_000))))
    run = await run_dag_test(dag)

    assert Counter(one.state for one in run.tasks) == {"success": 10_001}
    assert value(run, "gather") == list(range(10_000))
