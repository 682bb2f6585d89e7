"""Mapping from the author's words to the states and values of a run.

Source: the semantics reference, sections 26.1 to 26.4, 26.6, 27 and 36. What is refused when a DAG is built:
tests/authoring/test_mapping_refusals.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiosched import DAG, task, task_group
from aiosched.authoring.base.settings import AuthoringDefaults, use_defaults
from aiosched.errors import FailTask, SkipTask
from aiosched.executors.dag_test import TestRun, run_dag_test


@task
def same(x: Any) -> Any:
    return x


@task
def pair_of(a: int, b: int) -> None: ...


def returns(value: Any, **options: Any) -> Any:
    """A task that returns `value`, or raises it."""

    @task(**{"task_id": "producer"} | options)
    def producer() -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return producer()


def only_odd(x: int) -> int:
    if x % 2 == 0:
        raise SkipTask
    return x


async def ran(build: Callable[[], object]) -> TestRun:
    with DAG("d", schedule=None) as dag:
        build()
    return await run_dag_test(dag)


def shown(run: TestRun, task_id: str = "same") -> list[tuple[int, str]]:
    return [(one.map_index, one.state.value) for one in run.tasks if one.task_id == task_id]


def all_success(length: int) -> list[tuple[int, str]]:
    return [(index, "success") for index in range(length)]


def two_lists(function: Callable[[Any, Any], Any]) -> None:
    same.expand(x=function(returns([1, 2, 3]), returns(["a"], task_id="other")))


@pytest.mark.parametrize(
    ("build", "values"),
    [
        pytest.param(lambda: same.expand(x=[1, 2]), [1, 2], id="literal list"),
        pytest.param(lambda: same.expand(x={"a": 1, "b": 2}), [("a", 1), ("b", 2)], id="literal dict"),
        pytest.param(lambda: same.expand(x=returns([3, 4])), [3, 4], id="unmapped upstream"),
        pytest.param(lambda: same.expand(x=returns({"a": 1})), [("a", 1)], id="a returned dict"),
        pytest.param(lambda: same.expand(x=returns([1, 2, 3]).map(str)), ["1", "2", "3"], id="map"),
        pytest.param(lambda: same.expand(x=returns([1, 2, 3]).map(only_odd)), [1, 3], id="map that skips"),
        pytest.param(lambda: two_lists(lambda a, b: a.zip(b)), [(1, "a")], id="zip"),
        pytest.param(lambda: two_lists(lambda a, b: a.zip()), [(1,), (2,), (3,)], id="zip alone"),
        pytest.param(lambda: two_lists(lambda a, b: a.concat()), [1, 2, 3], id="concat alone"),
        pytest.param(
            lambda: two_lists(lambda a, b: a.zip(b, fillvalue=0)), [(1, "a"), (2, 0), (3, 0)], id="zip with fill value"
        ),
        pytest.param(lambda: two_lists(lambda a, b: a.concat(b)), [1, 2, 3, "a"], id="concat"),
    ],
)
async def test_what_a_task_is_mapped_over(build: Callable[[], object], values: list[Any]) -> None:
    run = await ran(build)

    assert run.xcoms["same"]["return_value"] == values


async def test_of_several_arguments_the_last_one_varies_fastest() -> None:
    @task
    def pair(a: int, b: str) -> list[Any]:
        return [a, b]

    run = await ran(lambda: pair.expand(a=[1, 2], b=["x", "y"]))

    assert run.xcoms["pair"]["return_value"] == [[1, "x"], [1, "y"], [2, "x"], [2, "y"]]


def over_instances(results: list[Any], **options: Any) -> Callable[[], object]:
    """`same`, with `options`, mapped over what a mapped task gives: values, nothing (None), or an error."""

    @task
    def m(i: int) -> Any:
        if isinstance(results[i], Exception):
            raise results[i]
        return results[i]

    return lambda: same.override(task_id="same", **options).expand(x=m.expand(i=list(range(len(results)))))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        pytest.param(over_instances([1, None, 3]), all_success(2), id="None shortens"),
        pytest.param(
            over_instances([1, SkipTask(), 3], trigger_rule="none_failed"), all_success(2), id="a skip shortens"
        ),
        pytest.param(
            over_instances([1, FailTask(), 3], trigger_rule="all_done"), all_success(2), id="a failure shortens"
        ),
        pytest.param(over_instances([1, FailTask(), 3]), [(-1, "upstream_failed")], id="all_success needs every index"),
        pytest.param(lambda: same.expand(x=returns([])), [(-1, "skipped")], id="nothing"),
        pytest.param(lambda: same.expand(x=[]), [(-1, "skipped")], id="no literal"),
        *[
            pytest.param(
                lambda value=value, rule=rule: same.override(trigger_rule=rule).expand(x=returns(value)),
                [(-1, state)],
                id=f"{what} producer, {rule}",
            )
            for rule in ("all_success", "all_done", "one_success", "none_failed")
            for what, value, state in (
                ("failed", FailTask("x"), "upstream_failed"),
                ("skipped", SkipTask("x"), "skipped"),
                ("missing", None, "upstream_failed"),
                ("wrong", "text", "upstream_failed"),
            )
        ],
    ],
)
async def test_how_the_tasks_mapped_over_decide(build: Callable[[], object], expected: list[tuple[int, str]]) -> None:
    assert shown(await ran(build)) == expected


@pytest.mark.parametrize(
    ("build", "lengths"),
    [
        pytest.param(lambda: same.expand(x=returns(list(range(8)))), 8, id="as many as are allowed"),
        pytest.param(lambda: same.expand(x=returns(list(range(9)))), None, id="one more"),
        pytest.param(lambda: same.expand(x=list(range(9))), 9, id="literals are not limited"),
        pytest.param(
            lambda: pair_of.expand(a=returns(list(range(3))), b=returns(list(range(3)), task_id="other")),
            3 * 3,
            id="products are not limited",
        ),
    ],
)
async def test_the_task_that_pushes_too_long_a_value_fails(build: Callable[[], object], lengths: int | None) -> None:
    """Section 26.3, with room for 8. What was to be mapped over it has no length then."""
    use_defaults(AuthoringDefaults(max_map_length=8))

    run = await ran(build)

    mapped = [one.state for one in run.tasks if one.task_id in ("same", "pair_of")]
    assert mapped == (["upstream_failed"] if lengths is None else ["success"] * lengths)
    if lengths is None:
        assert run.task("producer").state == "failed"


async def test_in_a_mapped_group_a_failure_concerns_its_own_index_alone() -> None:
    @task
    def one(x: int) -> int:
        if x == 2:
            raise FailTask("two")
        return x

    @task
    def two(x: int) -> int:
        return x * 10

    @task_group
    def group(x: Any) -> Any:
        return two(one(x))

    def build() -> None:
        out = group.expand(x=returns([1, 2, 3]))
        same.override(task_id="needs_all")(out)
        out >> same.override(task_id="needs_one", trigger_rule="one_success")(0)
        same.override(task_id="over", trigger_rule="all_done").expand(x=out)

    run = await ran(build)

    assert shown(run, "group.two") == [(0, "success"), (1, "upstream_failed"), (2, "success")]
    assert shown(run, "needs_all") == [(-1, "upstream_failed")]
    assert shown(run, "needs_one") == [(-1, "success")]
    assert run.xcoms["over"]["return_value"] == [10, 30]


async def test_what_pulls_and_arguments_give_of_mapped_and_missing_values() -> None:
    """The pull row of 27, and `default` of 36."""

    @task
    def pulls(ti: Any) -> list[Any]:
        return [
            ti.xcom_pull(task_ids="one"),
            ti.xcom_pull(task_ids="many"),
            ti.xcom_pull(task_ids="many", map_indexes=1),
            ti.xcom_pull(task_ids="many", map_indexes=[1]),
            ti.xcom_pull(task_ids=["one", "many"]),
            ti.xcom_pull(task_ids="nobody"),
            ti.xcom_pull(task_ids="nobody", default=5),
            ti.xcom_pull(task_ids=["one", "nobody"]),
            ti.xcom_pull(task_ids=["one", "nobody"], default=0),
        ]

    def build() -> None:
        one, many = same.override(task_id="one").expand(x=[7]), same.override(task_id="many").expand(x=[8, 9])
        [one, many] >> pulls()  # type: ignore[call-arg]  # the context gives it
        same.override(task_id="argument")(one)

    run = await ran(build)

    pulled = run.xcoms["pulls"]["return_value"]
    assert pulled == [7, [8, 9], 9, [9], [7, 8, 9], None, 5, [7, None], [7, 0]]
    assert run.xcoms["argument"]["return_value"] == [7]  # as an argument it is a list, however many there are
