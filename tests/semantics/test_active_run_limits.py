"""Which runs count for which limit: the table of section 14.3 of the semantics reference."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from aiosched import Asset
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.assets import AssetOrTimeSchedule
from aiosched.core.timetables.parse import parse_schedule
from aiosched.testing import World, never_ends

START = datetime(2026, 1, 10, tzinfo=UTC)
DAY = timedelta(days=1)


def daily(**options: Any) -> DagSpec:
    """A daily DAG, due for the first time at START."""
    return DagSpec(
        dag_id="d",
        timetable=parse_schedule("@daily"),
        start_date=START - DAY,
        tasks=(TaskSpec(task_id="a", operator="X"),),
        **options,
    )


def stuck(spec: DagSpec) -> World:
    """A world whose tasks never end by themselves."""
    world = World(now=START - timedelta(hours=1))
    world.add(spec)
    world.script("*", "*", lambda attempt: never_ends())
    return world


def running(world: World) -> list[str]:
    return [run.run_type for run in world.runs("d") if run.state == "running"]


def backfilled(world: World) -> None:
    world.backfill("d", START - 9 * DAY, START - 8 * DAY, max_active_runs=1)


def triggered(world: World) -> None:
    world.trigger("d")


def triggered_for_later(world: World) -> None:
    world.trigger("d", run_after=START + 30 * DAY)


@pytest.mark.parametrize(
    ("before", "created"),
    [(triggered, False), (triggered_for_later, False), (backfilled, True)],
    ids=["a manual run", "a queued manual run", "a backfill run"],
)
async def test_what_keeps_a_scheduled_run_from_being_created(before: Callable[[World], None], created: bool) -> None:
    async with stuck(daily(max_active_runs=1)) as world:
        before(world)

        await world.run_until(START)

        assert any(run.run_type == "scheduled" for run in world.runs("d")) is created


@pytest.mark.parametrize("before", [triggered, backfilled], ids=["a manual run", "a backfill run"])
async def test_what_keeps_an_asset_run_from_being_created(before: Callable[[World], None]) -> None:
    either = parse_schedule(AssetOrTimeSchedule("@daily", Asset("news")))
    spec = msgspec.structs.replace(daily(max_active_runs=1), timetable=either)
    async with stuck(spec) as world:
        before(world)
        await world.run_for(timedelta(minutes=1))

        world.emit("news")
        await world.run_for(timedelta(minutes=1))

        assert not any(run.run_type == "asset_triggered" for run in world.runs("d"))


async def test_normal_and_backfill_runs_start_under_limits_of_their_own() -> None:
    async with stuck(daily(max_active_runs=1)) as world:
        world.trigger("d")
        world.trigger("d")
        world.backfill("d", START - 9 * DAY, START - 5 * DAY, max_active_runs=2)

        await world.run_until(START)

        assert sorted(running(world)) == ["backfill", "backfill", "manual"]


async def test_a_lowered_limit_stops_nothing_and_blocks_new_starts() -> None:
    async with stuck(daily(max_active_runs=2)) as world:
        runs = [world.trigger("d") for _ in range(3)]
        await world.run_for(timedelta(minutes=1))

        world.add(daily(max_active_runs=1))
        await world.run_for(timedelta(minutes=1))
        lowered = len(running(world))
        await world.events("d", runs[0], {"a": "success"})
        await world.run_for(timedelta(minutes=1))

        assert (lowered, len(running(world))) == (2, 1)


async def test_of_three_cleared_runs_one_starts_where_one_may_run() -> None:
    async with World(now=START) as world:
        world.add(msgspec.structs.replace(daily(max_active_runs=1), timetable=parse_schedule(None)))
        for _ in range(3):
            world.trigger("d")
        await world.run_until_idle()
        world.script("*", "*", lambda attempt: never_ends())

        world.clear("d")
        await world.run_for(timedelta(minutes=1))

        assert sorted(run.state for run in world.runs("d")) == ["queued", "queued", "running"]
