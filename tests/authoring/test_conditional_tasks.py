"""`@task.run_if`, `@task.skip_if` and `@task.stub`."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched import DAG, ExceptionRetryPolicy, task
from aiosched.errors import DagError
from aiosched.executors.dag_test import run_dag_test


@pytest.mark.parametrize("mapped", [False, True], ids=["single", "mapped"])
@pytest.mark.parametrize(
    ("decorator", "found", "state", "reason"),
    [
        (task.run_if, True, "success", None),
        (task.run_if, False, "skipped", "its condition says so"),
        (task.run_if, (False, "not today"), "skipped", "not today"),
        (task.skip_if, False, "success", None),
        (task.skip_if, True, "skipped", "its condition says so"),
        (task.skip_if, (True, None), "skipped", "its condition says so"),
    ],
)
async def test_a_condition_decides_whether_a_task_runs(
    decorator: Any, found: Any, state: str, reason: str | None, mapped: bool
) -> None:
    with DAG("d") as dag:

        @decorator(lambda context: found)
        @task
        def load(number: int = 0) -> int:
            return number

        load.expand(number=[1]) if mapped else load()

    run = await run_dag_test(dag)

    one = run.task("load", 0) if mapped else run.task("load")
    assert (one.state, one.reason) == (state, reason)


async def test_a_condition_sees_the_context_after_the_tasks_own_pre_execute() -> None:
    seen: list[str] = []
    with DAG("d") as dag:

        @task.skip_if(lambda context: bool(seen.append(context["task"].task_id)), skip_message="no")
        @task(pre_execute=lambda context: seen.append("before"))
        def load() -> None: ...

        load()

    run = await run_dag_test(dag)

    assert (run.task("load").state, seen) == ("success", ["before", "load"])


def test_a_condition_belongs_above_the_task() -> None:
    with pytest.raises(DagError, match=r"@task\.run_if .* write it above @task"):
        task.run_if(lambda context: True)(print)  # type: ignore[type-var]


# ---- stubs


async def test_a_stub_has_its_place_in_the_dag_and_no_code() -> None:
    with DAG("d") as dag:

        @task.stub(queue="java", retries=2)
        def train(model: str) -> None:
            """Train it."""

        @task
        def report(result: Any) -> None: ...

        report(train("small"))

    stub = dag.task("train")
    run = await run_dag_test(dag)

    assert (stub.queue, stub.retries, dag.task("report").upstream_task_ids) == ("java", 2, {"train"})
    assert (run.task("train").state, run.task("train").try_number) == ("failed", 1)
    assert "is a stub, which a Python worker cannot execute" in str(run.task("train").reason)


def test_a_stub_with_code_or_a_retry_policy_is_refused() -> None:
    def works() -> int:
        return 1

    def empty() -> None: ...

    with DAG("d"):
        with pytest.raises(DagError, match="the body of its function must be empty"):
            task.stub(works)()
        with pytest.raises(DagError, match="nobody would ask its retry_policy"):
            task.stub(retry_policy=ExceptionRetryPolicy([]))(empty)()
