"""What is tried again and what is not: the tables of sections 22.2 and 18.3 of the semantics reference."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, PythonOperator
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.errors import FailTask, RescheduleTask, SensorTimeout, SkipTask, TaskTimeout
from aiosched.executors.dag_test import run_dag_test
from aiosched.testing import Ending, World, dies, fails, never_ends, reschedules, skips

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def task(task_id: str = "a", **options: Any) -> TaskSpec:
    return TaskSpec(task_id=task_id, operator="X", **options)


@pytest.mark.parametrize(
    ("ending", "state", "tries"),
    [
        (fails("an ordinary exception"), "up_for_retry", 1),
        (fails("fail now", now=True), "failed", 1),
        (skips(), "skipped", 1),
        (reschedules(HOUR), "up_for_reschedule", 1),
        (dies("its process was killed"), "failed", 3),
    ],
    ids=["exception", "fail now", "skip", "reschedule", "killed"],
)
async def test_what_becomes_of_a_try(ending: Ending, state: str, tries: int) -> None:
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task(retries=1, retry_delay=3600.0),)))
        world.script("d", "a", lambda attempt: ending)
        run = world.trigger("d")

        await world.run_for(timedelta(minutes=30))

        row = world.task("d", run, "a")
        assert (row.state, row.try_number) == (state, tries)


@pytest.mark.parametrize(
    ("error", "state", "tries"),
    [
        (ValueError("ordinary"), "failed", 2),
        (TaskTimeout("its time is up"), "failed", 2),
        (SystemExit(0), "failed", 2),
        (SystemExit(3), "failed", 2),
        (FailTask("now"), "failed", 1),
        (SensorTimeout("waited for too long"), "failed", 1),
        (SkipTask("nothing to do"), "skipped", 1),
    ],
    ids=repr,
)
async def test_what_becomes_of_a_function_that_raises(error: BaseException, state: str, tries: int) -> None:
    """With one retry; a task that asks to be called again is below."""

    def function() -> None:
        raise error

    with DAG("d", schedule=None) as dag:
        PythonOperator(task_id="t", python_callable=function, retries=1, retry_delay=timedelta(0))

    run = await run_dag_test(dag)

    assert (run.task("t").state, run.task("t").try_number) == (state, tries)


async def test_a_function_that_asks_for_it_is_called_again_in_the_same_try() -> None:
    calls: list[int] = []

    def function() -> None:
        calls.append(1)
        if len(calls) < 3:
            raise RescheduleTask(START)

    with DAG("d", schedule=None) as dag:
        PythonOperator(task_id="t", python_callable=function)

    run = await run_dag_test(dag, pause=0)

    assert (run.task("t").state, run.task("t").try_number, len(calls)) == ("success", 1, 3)


async def test_a_task_timeout_is_an_ordinary_failure() -> None:
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task(retries=1, retry_delay=3600.0, execution_timeout=60.0),)))
        world.script("d", "a", takes=HOUR)
        run = world.trigger("d")

        await world.run_for(timedelta(minutes=30))

        assert world.task("d", run, "a").state == "up_for_retry"


@pytest.mark.parametrize(
    ("options", "of_task", "together"),
    [
        ({}, {}, 6),
        ({"max_active_tasks": 4}, {}, 4),
        ({"max_active_tasks": 0}, {}, 0),
        ({"max_active_runs": 0}, {}, 0),
        ({"max_active_runs": 1}, {}, 2),
        ({"max_active_tasks_per_run": 1}, {}, 3),
        ({}, {"max_active_tis_per_dag": 1}, 2),
        ({}, {"max_active_tis_per_dagrun": 1}, 6),
        ({}, {"pool": "five"}, 5),
        ({}, {"pool": "five", "pool_slots": 2}, 2),
    ],
    ids=lambda value: ",".join(f"{name}={limit}" for name, limit in value.items()) if isinstance(value, dict) else None,
)
async def test_how_many_tasks_of_three_runs_run_at_one_time(
    options: dict[str, Any], of_task: dict[str, Any], together: int
) -> None:
    """Three runs of two tasks: what each limit of section 18.3 counts."""
    async with World(now=START, parallelism=32) as world:
        world.pool("five", slots=5)
        world.add(DagSpec(dag_id="d", tasks=(task("a", **of_task), task("b", **of_task)), **options))
        world.script("*", "*", lambda attempt: never_ends())
        for _ in range(3):
            world.trigger("d")

        await world.run_for(HOUR)

        assert (
            sum(state == "running" for run in world.runs("d") for state in world.states("d", run.run_id).values())
            == together
        )


async def test_parallelism_is_the_limit_of_one_scheduler() -> None:
    async with World(now=START, parallelism=2) as world:
        world.add(DagSpec(dag_id="d", tasks=tuple(task(f"t{n}") for n in range(5))))
        world.script("*", "*", lambda attempt: never_ends())
        run = world.trigger("d")

        await world.run_for(HOUR)

        assert sum(state == "running" for state in world.states("d", run).values()) == 2
