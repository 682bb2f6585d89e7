"""Several schedulers in one world: each has its part of the DAGs, pools and events are shared by all."""

from __future__ import annotations

import pytest

from aiosched import DAG, Asset, PythonOperator, TriggerDagRunOperator
from aiosched.core.graph.spec import AssetRef
from aiosched.core.values.ids import partition_of
from aiosched.errors import NotFound
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, at, dag, minutes, task


def world(**options: object) -> World:
    return World(**{"now": NEW_YEAR, "takes": minutes(1), "schedulers": 2} | options)  # type: ignore[arg-type]


def names(scheduler: int, count: int) -> list[str]:
    """DAG ids of the first or second of two schedulers."""
    found = (name for number in range(1000) if partition_of(name := f"dag_{number}") % 2 == scheduler - 1)
    return [next(found) for _ in range(count)]


async def test_each_has_its_part_of_the_dags_and_a_parallelism_of_its_own() -> None:
    async with world(parallelism=1) as it:
        first, second = names(1, 2), names(2, 2)
        it.add(*(dag(name) for name in first + second))
        runs = {name: it.trigger(name) for name in first + second}

        await it.run_for(minutes(0.5))

        states = {name: it.states(name, run)["a"] for name, run in runs.items()}
        assert [it.scheduler_of(name) for name in first + second] == [1, 1, 2, 2]
        assert [states[name] for name in first] == [states[name] for name in second] == ["running", "scheduled"]


@pytest.mark.parametrize("holder", [1, 2])
async def test_a_freed_slot_goes_to_the_highest_priority_of_all(holder: int) -> None:
    async with world() as it:
        it.pool("narrow", slots=1)
        busy, small = names(holder, 2)
        (great,) = names(3 - holder, 1)
        for weight, name in ((5, busy), (1, small), (3, great)):
            it.add(dag(name, task("a", pool="narrow", priority_weight=weight)))
        for name in (busy, small, great):
            it.trigger(name)
            await it.run_for(minutes(0.1))

        await it.run_until_idle()

        began = [dag_id for _, what, dag_id, *_ in it.log if what == "queued"]
        assert began == [busy, great, small]
        assert it.now == at(0, 3)


async def test_equals_of_two_schedulers_share_a_pool_and_nobody_starves() -> None:
    async with world() as it:
        it.pool("narrow", slots=2)
        (one,), (other,) = names(1, 1), names(2, 1)
        for name in (one, other):
            it.add(dag(name, *(task(f"t{n}", pool="narrow") for n in range(6))))
            it.trigger(name)

        await it.run_until_idle()

        began = [dag_id for _, what, dag_id, *_ in it.log if what == "queued"]
        assert set(began[:6]) == set(began[6:]) == {one, other}
        assert it.now == at(0, 6)


async def test_who_cannot_use_what_was_left_to_it_keeps_nobody_waiting() -> None:
    async with world(slots=2) as it:
        it.pool("narrow", slots=4)
        (one,), (other,) = names(1, 1), names(2, 1)
        it.add(dag(one, *(task(f"t{n}", pool="narrow", priority_weight=5) for n in range(8))))
        it.add(dag(other, *(task(f"t{n}", pool="narrow") for n in range(4))))
        for name in (one, other):
            it.trigger(name)

        await it.run_until_idle()

        assert it.now < at(0, 5)
        assert {run.state.value for name in (one, other) for run in it.runs(name)} == {"success"}


async def test_the_dags_of_a_scheduler_that_dies_are_taken_over() -> None:
    async with world() as it:
        (one,), (other,) = names(1, 1), names(2, 1)
        it.add(dag(one, schedule="@hourly", start_date=NEW_YEAR), dag(other))
        mine, theirs = it.trigger(one), it.trigger(other)
        await it.run_for(minutes(0.5))

        await it.crash(scheduler=1)
        await it.run_until(at(1, 30))

        assert (it.scheduler_of(one), it.scheduler_of(other)) == (2, 2)
        assert (it.task(one, mine, "a").state, it.task(one, mine, "a").try_number) == ("success", 2)
        assert (it.task(other, theirs, "a").state, it.task(other, theirs, "a").try_number) == ("success", 1)
        assert [run.state.value for run in it.runs(one)] == ["success", "success"]
        await it.crash(scheduler=2)
        assert (it.scheduler_of(one), it.scheduler_of(other)) == (3, 3)
        with pytest.raises(NotFound, match=r"no scheduler 1; there is \[3\]"):
            await it.crash(scheduler=1)


async def test_events_and_triggered_runs_reach_the_dags_of_the_others() -> None:
    (one, maker), (reader, triggered) = names(1, 2), names(2, 2)
    with DAG(triggered, schedule=None) as made:
        PythonOperator(task_id="work", python_callable=dict)
    with DAG(one, schedule=None) as first:
        TriggerDagRunOperator(task_id="start", trigger_dag_id=triggered, wait_for_completion=True)
    async with world() as it:
        it.add(first, made, dag(maker, task("a", outlets=(AssetRef(name="x"),))), dag(reader, schedule=Asset("x")))
        it.trigger(maker)
        run = it.trigger(one)

        await it.run_until_idle()

        assert it.states(one, run) == {"start": "success"}
        assert [len(it.runs(name)) for name in (triggered, reader)] == [1, 1]
