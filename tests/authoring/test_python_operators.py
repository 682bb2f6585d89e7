"""Functions as classic operators, branches, short circuits. Source: the semantics reference, sections 7.2 and 7.3."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from aiosched import DAG, BranchPythonOperator, EmptyOperator, PythonOperator, ShortCircuitOperator, TaskGroup, task
from aiosched.core.values.messages import SkipDecision
from aiosched.errors import BranchError
from tests.authoring.authoring_builders import run_task


class Callable:
    """An object with a coroutine function as its call."""

    async def __call__(self, ds: str) -> str:
        return ds


async def waits(x: int) -> int:
    return x


@pytest.mark.parametrize(
    ("function", "args", "is_async", "value"),
    [
        (lambda ds, x: (ds, x), {"op_kwargs": {"x": 1}}, False, ("2026-01-02", 1)),
        (lambda *a: a, {"op_args": [1, 2]}, False, (1, 2)),
        (lambda ds: ds, {"op_args": ["mine"]}, False, "mine"),
        (lambda ds, **kw: (ds, kw["x"], kw["run_id"]), {"op_kwargs": {"ds": 1, "x": 2}}, False, (1, 2, "manual__1")),
        (lambda templates_dict: templates_dict, {"templates_dict": {"a": "{{ ds }}"}}, False, {"a": "2026-01-02"}),
        (max, {"op_args": [1, 2]}, False, 2),
        (waits, {"op_args": [3]}, True, 3),
        (functools.partial(waits, 4), {}, True, 4),
        (Callable(), {}, True, "2026-01-02"),
    ],
)
async def test_a_function_is_called(function: Any, args: dict[str, Any], is_async: bool, value: Any) -> None:
    operator = PythonOperator(task_id="t", python_callable=function, dag=DAG("d"), **args)

    assert operator.is_async is is_async
    assert (await run_task(operator))[0] == value


@pytest.mark.parametrize(
    ("returned", "followed", "pushed"),
    [
        ("a", ["a"], None),
        (["b", "a"], ["a", "b"], ["b", "a"]),
        ({"b", "a", "g"}, ["a", "b", "g.x", "g.z"], ...),
        ("g", ["g.x", "g.z"], None),
        (["g", "a"], ["a", "g.x", "g.z"], None),
        ("g.y", ["g.y"], None),
        (None, [], None),
        ([], [], None),
    ],
)
async def test_a_branch_leaves_whom_it_follows_and_pushes_it_if_nothing_is_skipped(
    returned: Any, followed: list[str], pushed: Any
) -> None:
    """Source: the semantics reference, sections 7.2, 7.4 and 34 (decision 7). A set has no order: `...`."""
    with DAG("d") as dag:
        branch = BranchPythonOperator(task_id="branch", python_callable=lambda: returned)
        branch >> [EmptyOperator(task_id="a"), EmptyOperator(task_id="b")]
        with TaskGroup("g"):
            EmptyOperator(task_id="x") >> EmptyOperator(task_id="y")
            EmptyOperator(task_id="z")
    result, ti = await run_task(branch)

    assert set(result) == returned if pushed is ... else result == pushed
    assert ti.skip_decision == SkipDecision(followed=tuple(followed))
    assert dag.to_spec().tasks[0].can_skip_downstream


@pytest.mark.parametrize("returned", ["nobody", 5, ["a", 5], {"a": 1}])
async def test_a_branch_that_returns_no_id_of_the_dag_fails(returned: Any) -> None:
    with DAG("d"):
        EmptyOperator(task_id="a")
        branch = BranchPythonOperator(task_id="branch", python_callable=lambda: returned)

    with pytest.raises(BranchError, match="The branch 'branch' returned"):
        await run_task(branch)


@pytest.mark.parametrize(
    ("value", "ignore", "skipped"),
    [
        (True, True, None),
        ("yes", False, None),
        (False, True, ("a", "b", "d")),
        ([], True, ("a", "b", "d")),
        (None, False, ("a", "b")),
    ],
)
async def test_a_short_circuit_skips_what_comes_after_it(value: Any, ignore: bool, skipped: Any) -> None:
    with DAG("d"):
        short = ShortCircuitOperator(
            task_id="short", python_callable=lambda: value, ignore_downstream_trigger_rules=ignore
        )
        a, b, d = (EmptyOperator(task_id=name) for name in "abd")
        short >> [a, b] >> d >> EmptyOperator(task_id="teardown").as_teardown()
        short >> EmptyOperator(task_id="direct_teardown").as_teardown()
    result, ti = await run_task(short)

    assert result == (value or None)
    assert ti.skip_decision == (SkipDecision(skipped=skipped) if skipped else None)


async def test_branches_and_short_circuits_may_be_coroutine_functions() -> None:
    @task.branch
    async def branch() -> str:
        return "a"

    @task.short_circuit(ignore_downstream_trigger_rules=False)
    async def short() -> bool:
        return False

    with DAG("d") as dag:
        branch() >> EmptyOperator(task_id="a")
        short() >> EmptyOperator(task_id="b") >> EmptyOperator(task_id="c")

    assert all(dag.task(name).is_async for name in ("branch", "short"))
    assert (await run_task(dag.task("branch")))[1].skip_decision == SkipDecision(followed=("a",))
    assert (await run_task(dag.task("short")))[1].skip_decision == SkipDecision(skipped=("b",))
