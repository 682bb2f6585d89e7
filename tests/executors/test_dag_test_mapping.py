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
