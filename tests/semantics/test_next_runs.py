"""The next run of a DAG, and how runs come into being. Source: the semantics reference, sections 13.1 to 13.4."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import Asset
from aiosched.core.graph.spec import DagSpec, ParamSpec, TaskSpec
from aiosched.core.timetables.assets import AssetOrTimeSchedule
from aiosched.core.timetables.parse import parse_schedule
from aiosched.errors import NotFound, Refused
from aiosched.testing import World, never_ends

START = datetime(2026, 1, 10, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


def daily(schedule: object = "@daily", dag_id: str = "d", **options: Any) -> DagSpec:
    """A daily DAG since START, with catchup unless said otherwise."""
    return DagSpec(
        dag_id=dag_id,
        timetable=parse_schedule(schedule),
        tasks=(TaskSpec(task_id="a", operator="X"),),
        **{"start_date": START, "catchup": True, **options},
    )


def dates(world: World, dag_id: str = "d", run_type: str = "scheduled") -> list[int]:
    """The logical dates of the runs of a type, in days since START."""
    found = [run.logical_date for run in world.runs(dag_id) if run.run_type == run_type]
    return [(date - START).days for date in found if date is not None]


# -- 13.1 when the next run is computed -------------------------------------------------------------


def nothing(world: World) -> None: ...


def manual(world: World) -> None:
    world.trigger("d", logical_date=START + 20 * DAY)


def asset(world: World) -> None:
    world.emit("news")


def backfill(world: World) -> None:
    world.backfill("d", START - 5 * DAY, START - 4 * DAY)


@pytest.mark.parametrize("event", [nothing, manual, asset, backfill])
async def test_only_runs_of_the_schedule_move_it(event: Callable[[World], None]) -> None:
    """1. From the latest run that the schedule has made."""
    async with World(now=START) as world:
        world.add(daily(AssetOrTimeSchedule("@daily", Asset("news"))))
        await world.run_until(START + 2 * DAY)

        event(world)
        await world.run_for(MINUTE)
        world.add(daily(AssetOrTimeSchedule("@daily", Asset("news"))))  # parsed again
        await world.run_until(START + 4 * DAY)

        assert dates(world) == [0, 1, 2, 3]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_backfill_of_a_later_date_does_not_move_the_schedule(restarted: bool) -> None:
    """The earlier dates are made, and the one that the backfill has made is passed over (3.)."""
    async with World(now=START + 5 * DAY + MINUTE) as world:
        world.add(daily(), paused=True)
        world.backfill("d", START + 3 * DAY, START + 3 * DAY)

        if restarted:
            await world.restart()
        world.unpause("d")
        await world.run_for(MINUTE)

        assert (dates(world), dates(world, run_type="backfill")) == ([0, 1, 2, 4], [3])


async def test_without_catchup_the_next_run_of_a_paused_dag_moves_forward_with_each_parse() -> None:
    async with World(now=START) as world:
        world.add(daily(catchup=False), paused=True)
        await world.run_until(START + 7.5 * DAY)

        world.add(daily(catchup=False))
        world.unpause("d")
        await world.run_for(MINUTE)

        assert dates(world) == [6]


async def test_after_a_creation_the_next_run_follows_from_it() -> None:
    """2. So a backlog comes run by run, without a parse in between."""
    async with World(now=START + 3 * DAY) as world:
        world.add(daily())

        await world.run_for(MINUTE)

        assert dates(world) == [0, 1, 2]


async def test_where_the_run_exists_already_the_next_one_follows_from_that() -> None:
    """3., and 13.3 step 2: whatever its type."""
    async with World(now=START) as world:
        world.add(daily())
        world.trigger("d", logical_date=START)

        await world.run_until(START + 2 * DAY)

        assert (dates(world), dates(world, run_type="manual")) == ([1], [0])


@pytest.mark.parametrize("busy", ["manual", "asset_triggered"])
async def test_the_limit_is_looked_at_again_when_a_run_that_counts_is_finished(busy: str) -> None:
    async with World(now=START) as world:
        world.add(daily(AssetOrTimeSchedule("@daily", Asset("news")), max_active_runs=1))
        world.script("d", "a", takes=1.5 * DAY)
        world.trigger("d") if busy == "manual" else world.emit("news")

        await world.run_until(START + DAY)
        while_busy = dates(world)
        await world.run_until(START + 1.5 * DAY + MINUTE)

        assert (while_busy, dates(world)) == ([], [0])


# -- 13.2 which DAGs are due ------------------------------------------------------------------------
# The conditions and the order: tests/core/test_run_creation.py.


async def test_the_dag_that_is_due_longest_gets_its_run_first() -> None:
    async with World(now=START) as world:
        world.add(daily(dag_id="late", start_date=START - DAY), daily(dag_id="later", start_date=START - 2 * DAY))

        created = await world.create_runs()

        assert next(dag_id for dag_id, _ in created) == "later"


# -- 13.3 creating scheduled runs -------------------------------------------------------------------


async def test_a_backlog_stops_at_max_active_runs() -> None:
    """1. The limit is reached: skip."""
    async with World(now=START + 9 * DAY) as world:
        world.add(daily(max_active_runs=3))
        world.script("d", "a", lambda attempt: never_ends())

        await world.run_for(MINUTE)

        assert dates(world) == [0, 1, 2]


async def test_a_dag_that_has_no_schedule_gets_no_runs() -> None:
    async with World(now=START) as world:
        world.add(daily(None))

        await world.run_for(30 * DAY)

        assert world.runs("d") == []


async def test_a_scheduled_run_has_the_fields_of_its_schedule() -> None:
    """3."""
    async with World(now=START) as world:
        world.add(daily(params={"x": ParamSpec(value=3)}))

        await world.run_until(START + DAY)

        (run,) = world.runs("d")
        assert (run.run_type, run.run_after, run.logical_date) == ("scheduled", START + DAY, START)
        assert (run.interval_start, run.interval_end, run.conf) == (START, START + DAY, {})
        assert (run.queued_at, run.start_date) == (START + DAY, START + DAY)


async def test_however_many_dags_are_due_each_gets_its_run() -> None:
    async with World(now=START) as world:
        names = [f"d{number}" for number in range(30)]
        world.add(*(daily(dag_id=name) for name in names))

        await world.run_until(START + DAY)

        assert [dates(world, name) for name in names] == [[0]] * 30


# -- 13.4 manual runs -------------------------------------------------------------------------------


async def test_a_manual_run_is_created_at_any_time_whatever_the_limit() -> None:
    async with World(now=START) as world:
        world.add(daily(max_active_runs=1))
        world.script("d", "a", lambda attempt: never_ends())

        runs = [world.trigger("d") for _ in range(3)]
        await world.run_for(MINUTE)

        assert sorted(world.run("d", run).state for run in runs) == ["queued", "queued", "running"]


async def test_the_manual_run_of_a_paused_dag_waits() -> None:
    async with World(now=START) as world:
        world.add(daily(None), paused=True)
        run = world.trigger("d")
        await world.run_for(HOUR)
        before = world.run("d", run).state

        world.unpause("d")
        await world.run_until_idle()

        assert (before, world.run("d", run).state) == ("queued", "success")


@pytest.mark.parametrize("same", [{"run_id": "mine"}, {"logical_date": START}])
async def test_a_second_run_of_the_same_id_or_date_is_a_conflict(same: dict[str, Any]) -> None:
    async with World(now=START) as world:
        world.add(daily(None))
        world.trigger("d", run_id="mine", logical_date=START)

        with pytest.raises(Refused):
            world.trigger("d", **same)


async def test_a_run_of_a_dag_that_is_not_there_is_refused() -> None:
    """Stale DAGs and import errors: tests/core/test_run_creation.py and tests/scheduler/test_creating_runs.py."""
    async with World(now=START) as world:
        with pytest.raises(NotFound):
            world.trigger("d")


async def test_a_logical_date_is_cut_to_whole_seconds() -> None:
    async with World(now=START) as world:
        world.add(daily(None))

        run = world.trigger("d", logical_date=START + timedelta(microseconds=999_999))

        assert world.run("d", run).logical_date == START


async def test_manual_runs_count_against_the_next_scheduled_ones() -> None:
    async with World(now=START) as world:
        world.add(daily(max_active_runs=2))
        world.script("d", "a", lambda attempt: never_ends())
        world.trigger("d")

        await world.run_until(START + 5 * DAY)

        assert dates(world) == [0]
