"""XComs and params, each row of the table. Source: the semantics reference, section 27.

What a pull gives is in tests/authoring/test_task_instance.py and test_mapped_tasks.py, its `default` in
test_additions.py; where variables and connections are looked for in tests/authoring/test_variables.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, EmptyOperator, Param, PythonOperator, task
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.values.messages import Attempt
from aiosched.errors import DagError, ParamError
from aiosched.executors.dag_test import run_dag_test
from aiosched.testing import Ending, World, defers, fails, reschedules, succeeds

NOW = datetime(2026, 1, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def pushes_twice(ti: Any) -> None:
    ti.xcom_push("k", 1)
    ti.xcom_push("k", 2)


@pytest.mark.parametrize(
    ("function", "options", "pushed"),
    [
        pytest.param(lambda: 7, {}, {"return_value": 7}, id="the default key"),
        pytest.param(lambda: None, {}, {}, id="None is not pushed"),
        pytest.param(lambda: 7, {"do_xcom_push": False}, {}, id="do_xcom_push=False"),
        pytest.param(
            lambda: {"a": 1, "b": 2},
            {"multiple_outputs": True},
            {"return_value": {"a": 1, "b": 2}, "a": 1, "b": 2},
            id="multiple outputs push the whole and every key",
        ),
        pytest.param(pushes_twice, {}, {"k": 2}, id="a second push replaces"),
    ],
)
async def test_what_a_task_pushes(
    function: Callable[..., Any], options: dict[str, Any], pushed: dict[str, Any]
) -> None:
    with DAG("d", schedule=None) as dag:
        task(task_id="t", **options)(function)()

    run = await run_dag_test(dag)

    assert run.xcoms.get("t", {}) == pushed


def value_of(world: World, run: str) -> Any:
    return json.loads(world.xcom("d", run, "a") or "null")


PUSHED = {"return_value": 1}


@pytest.mark.parametrize(
    ("first", "kept"),
    [
        pytest.param(defers(MINUTE, pushes=PUSHED), 1, id="a deferral: kept"),
        pytest.param(reschedules(MINUTE, pushes=PUSHED), 1, id="a reschedule, the same try: kept"),
        pytest.param(fails(pushes=PUSHED), None, id="a retry: deleted"),
    ],
)
async def test_values_are_deleted_when_a_try_starts_and_not_when_it_goes_on(first: Ending, kept: Any) -> None:
    seen: list[Any] = []
    async with World(now=NOW) as world:

        def ending(attempt: Attempt) -> Ending:
            seen.append(value_of(world, "r"))
            return first if len(seen) == 1 else succeeds()

        world.add(DagSpec(dag_id="d", tasks=(TaskSpec(task_id="a", operator="X", retries=1, retry_delay=1.0),)))
        world.script("d", "a", ending)
        world.trigger("d", run_id="r")
        await world.run_until_idle()

        assert seen == [None, kept]


async def test_values_survive_the_end_of_the_run_and_a_cleared_task_starts_without_its_own() -> None:
    seen: list[Any] = []
    async with World(now=NOW) as world:

        def ending(attempt: Attempt) -> Ending:
            seen.append(value_of(world, "r"))
            return succeeds(5)

        world.add(DagSpec(dag_id="d", tasks=(TaskSpec(task_id="a", operator="X"),)))
        world.script("d", "a", ending)
        world.trigger("d", run_id="r")
        await world.run_until_idle()
        after = value_of(world, "r")
        world.clear("d", ["r"])
        await world.run_until_idle()

        assert (after, seen) == (5, [None, None])


@pytest.mark.parametrize(
    ("of_task", "conf", "value"),
    [
        pytest.param({}, {}, "of the DAG", id="the DAG's default"),
        pytest.param({"p": "of the task"}, {}, "of the task", id="the task's goes over it"),
        pytest.param({"p": "of the task"}, {"p": "of the run"}, "of the run", id="and the run's conf over both"),
        pytest.param({}, {"p": "of the run"}, "of the run", id="conf alone"),
    ],
)
async def test_params_of_the_run_go_over_those_of_the_task_and_these_over_those_of_the_dag(
    of_task: dict[str, Any], conf: dict[str, Any], value: str
) -> None:
    def read(params: Any) -> Any:
        return params["p"]

    with DAG("d", schedule=None, params={"p": "of the DAG"}) as dag:
        PythonOperator(task_id="t", python_callable=read, params=of_task)

    run = await run_dag_test(dag, conf=conf)

    assert run.xcoms["t"]["return_value"] == value


def test_a_dag_with_a_schedule_must_have_valid_defaults() -> None:
    with DAG("d", schedule="@daily", catchup=False, start_date=NOW, params={"p": Param(type="integer")}) as dag:
        EmptyOperator(task_id="t")

    with pytest.raises(DagError, match="'p'"):
        dag.to_spec()


async def test_a_run_whose_params_break_their_schema_is_refused() -> None:
    with DAG("d", schedule=None, params={"p": Param(1, type="integer")}) as dag:
        EmptyOperator(task_id="t")
    async with World(now=NOW) as world:
        world.add(dag)

        with pytest.raises(ParamError, match="'p'"):
            world.trigger("d", conf={"p": "x"})

        assert world.runs("d") == []
