"""XComs between DAGs and runs in a world, by operators that act there."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched import DAG, PythonOperator, ShortCircuitOperator, task
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, at, minutes


def producing(dag_id: str = "first", **options: Any) -> DAG:
    with DAG(dag_id, **{"schedule": None} | options) as made:
        PythonOperator(task_id="make", python_callable=print)
    return made


def pulling(found: list[Any], schedule: Any = None, **asked: Any) -> DAG:
    """A DAG that notes what it pulls."""

    def pulls(ti: Any) -> bool:
        found.append(ti.xcom_pull(**{"task_ids": "make"} | asked))
        return True

    with DAG("second", schedule=schedule) as made:
        ShortCircuitOperator(task_id="pulls", python_callable=pulls)
    return made


@pytest.mark.parametrize("dated", [True, False])
async def test_the_newest_value_of_another_dag_whether_runs_are_dated_or_not(dated: bool) -> None:
    found: list[Any] = []
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(producing(), pulling(found, dag_id="first", include_prior_dates=True))
        for value in ("one", "two"):
            it.script("first", "make", returns=value)
            it.trigger("first", logical_date=at(0) if dated and value == "one" else None)
            await it.run_until_idle()
        it.trigger("second")
        await it.run_until_idle()
        (run, *_) = it.runs("first")[::-1]
        it.clear("first", [run.run_id])
        it.script("first", "make", returns="again")
        await it.run_until_idle()
        it.trigger("second", logical_date=at(0, 30) if dated else None)
        await it.run_until_idle()

    assert found == ["two", "again"]


async def test_a_named_run_and_what_does_not_exist() -> None:
    found: list[Any] = []
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(producing())
        it.script("first", "make", returns={"n": 1})
        it.trigger("first", run_id="r")
        await it.run_until_idle()
        for asked in (
            {"dag_id": "first", "run_id": "r"},
            {"dag_id": "first", "run_id": "x", "default": "no run"},
            {"dag_id": "frist", "default": "no DAG"},
            {"run_id": "r", "default": "no run here"},
        ):
            it.add(pulling(found, **asked))
            it.trigger("second")
            await it.run_until_idle()

    assert found == [{"n": 1}, "no run", "no DAG", "no run here"]


async def test_dags_of_one_schedule_read_each_other_by_the_id_of_their_runs() -> None:
    found: list[Any] = []
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(producing(schedule="@hourly", start_date=NEW_YEAR))
        it.script("first", "make", play=None, returns="hourly")
        with DAG("second", schedule="@hourly", start_date=NEW_YEAR) as second:

            @task.short_circuit
            def pulls(ti: Any) -> bool:
                found.append(ti.xcom_pull("make", dag_id="first"))
                return True

            @task.sensor(poke_interval=600)
            def wait() -> bool:
                return True

            wait() >> pulls()  # type: ignore[call-arg]  # the context gives it
        it.add(second)
        it.script("second", "wait", takes=minutes(10))
        await it.run_until(at(1, 30))

    assert found == ["hourly"]


async def test_any_key_is_the_return_value_or_the_first_one() -> None:
    found: list[Any] = []
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(producing(), pulling(found, dag_id="first", run_id="r", key=None, default="none"))
        it.trigger("first", run_id="r")
        await it.run_until_idle()
        key = it.runs("first")[0].key
        for pushed in (None, "b", "a", "return_value"):
            if pushed is not None:
                it.rows.xcoms[key, 0, -1, pushed] = f'"{pushed}"'
            it.trigger("second")
            await it.run_until_idle()

    assert found == ["none", "b", "a", "return_value"]
