"""Partitioned assets in a world: keys of runs and events, roll-ups, fan-outs and what is not a run.

Source: the semantics reference, section 37.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from aiosched import (
    DAG,
    AllowedKeyMapper,
    Asset,
    CronPartitionTimetable,
    DayWindow,
    EmptyOperator,
    FanOutMapper,
    MinimumCount,
    PartitionedAssetTimetable,
    PartitionedAtRuntime,
    RollupMapper,
    StartOfDayMapper,
    StartOfHourMapper,
    StartOfWeekMapper,
    WeekWindow,
)
from aiosched.errors import Refused
from aiosched.testing import World

NOON = datetime(2026, 3, 11, 12, tzinfo=UTC)
HOURLY, ORDERS, STAFF = Asset("hourly"), Asset("orders"), Asset("staff")


def producer(dag_id: str, *outlets: Asset, schedule: object = None) -> DAG:
    with DAG(dag_id, schedule=schedule or PartitionedAtRuntime(), catchup=False) as dag:
        EmptyOperator(task_id="make", outlets=list(outlets))
    return dag


def consumer(dag_id: str, **schedule: object) -> DAG:
    with DAG(dag_id, schedule=PartitionedAssetTimetable(**schedule), catchup=False) as dag:  # type: ignore[arg-type]
        EmptyOperator(task_id="read")
    return dag


def keys(it: World, dag_id: str) -> list[str | None]:
    return [run.partition_key for run in it.runs(dag_id)]


async def test_a_run_by_the_clock_has_the_key_of_its_tick_and_so_have_its_events() -> None:
    async with World(now=NOON) as it:
        it.add(producer("make", HOURLY, schedule=CronPartitionTimetable("0 * * * *", timezone="UTC", run_offset=-1)))
        it.add(consumer("by_hour", assets=HOURLY, default_partition_mapper=StartOfHourMapper()))
        await it.run_until(NOON.replace(hour=14, minute=30))

        made = [run.partition_key for run in it.runs("make")]
        assert made[-1] == "2026-03-11T13:00:00"
        assert it.runs("make")[-1].partition_date == datetime(2026, 3, 11, 13, tzinfo=UTC)
        assert keys(it, "by_hour")[-1] == "2026-03-11T13"
        assert it.runs("by_hour")[-1].partition_date == datetime(2026, 3, 11, 13, tzinfo=UTC)


async def test_events_of_all_assets_with_one_key_make_its_run() -> None:
    async with World(now=NOON) as it:
        it.add(producer("p", ORDERS, STAFF))
        it.add(consumer("c", assets=ORDERS & STAFF))
        it.emit("orders", partition_key="us")
        it.emit("staff", partition_key="eu")
        await it.run_until_idle()
        assert keys(it, "c") == []

        it.emit("orders", partition_key="eu")
        await it.run_until_idle()
        assert keys(it, "c") == ["eu"]
        assert sorted(event.name for event in it.events_of("c", it.runs("c")[0].run_id)) == ["orders", "staff"]

        it.emit("staff", partition_key="us")
        it.emit("staff", partition_key="eu")
        await it.run_until_idle()
        assert keys(it, "c") == ["eu", "us"]


async def test_a_roll_up_waits_for_its_window() -> None:
    rollup = RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow())
    early = RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow(), wait_policy=MinimumCount(-22))
    async with World(now=NOON) as it:
        it.add(producer("p", HOURLY))
        it.add(consumer("whole", assets=HOURLY, default_partition_mapper=rollup))
        it.add(consumer("early", assets=HOURLY, default_partition_mapper=early))
        for hour in range(23):
            it.emit("hourly", partition_key=f"2026-03-10T{hour:02}:00:00")
            it.emit("hourly", partition_key=f"2026-03-10T{hour:02}:00:00")
        it.emit("hourly", partition_key="2026-03-11T00:00:00")
        await it.run_until_idle()
        assert (keys(it, "whole"), keys(it, "early")[:1]) == ([], ["2026-03-10"])

        it.emit("hourly", partition_key="2026-03-10T23:00:00")
        await it.run_until_idle()
        assert keys(it, "whole") == ["2026-03-10"]
        assert len(it.events_of("whole", it.runs("whole")[0].run_id)) == 47


async def test_a_fan_out_makes_a_run_for_each_member_within_max_active_runs() -> None:
    week = FanOutMapper(upstream_mapper=StartOfWeekMapper(), window=WeekWindow())
    with DAG("daily", schedule=PartitionedAssetTimetable(assets=ORDERS, default_partition_mapper=week)) as daily:
        EmptyOperator(task_id="read")
    daily.max_active_runs = 2
    async with World(now=NOON) as it:
        it.add(producer("p", ORDERS))
        it.add(daily)
        it.emit("orders", partition_key="2026-03-11T00:00:00")
        await it.run_until_idle()

        assert keys(it, "daily") == [f"2026-03-{day:02}" for day in range(9, 16)]


async def test_keys_that_nothing_maps_and_events_without_keys_make_no_run() -> None:
    async with World(now=NOON) as it:
        it.add(producer("p", ORDERS))
        it.add(consumer("some", assets=ORDERS, default_partition_mapper=AllowedKeyMapper(["us"])))
        with DAG("whole", schedule=[ORDERS]) as whole:
            EmptyOperator(task_id="read")
        it.add(whole)
        it.emit("orders", partition_key="mars")
        it.emit("orders", partition_key="us")
        await it.run_until_idle()
        assert (keys(it, "some"), keys(it, "whole")) == (["us"], [])

        it.emit("orders")
        await it.run_until_idle()
        assert (keys(it, "some"), len(it.runs("whole"))) == (["us"], 1)
        assert [event.partition_key for event in it.events_of("whole", it.runs("whole")[0].run_id)] == [None]


async def test_a_task_names_the_partitions_that_it_made() -> None:
    async with World(now=NOON) as it:
        it.add(producer("p", ORDERS))
        it.add(consumer("c", assets=ORDERS))
        it.script("p", "make", partitions=["us", "eu", "us"])
        it.trigger("p")
        await it.run_until_idle()
        assert sorted(map(str, keys(it, "c"))) == ["eu", "us"]

        it.script("p", "make")
        it.trigger("p", partition_key="apac")
        await it.run_until_idle()
        assert keys(it, "c")[-1] == "apac"


async def test_a_changed_mapper_maps_again_what_still_waits() -> None:
    async with World(now=NOON) as it:
        it.add(producer("p", ORDERS, STAFF))
        it.add(consumer("c", assets=ORDERS & STAFF))
        it.emit("orders", partition_key="2026-03-11T10:00:00")
        await it.run_until_idle()

        it.add(consumer("c", assets=ORDERS & STAFF, default_partition_mapper=StartOfDayMapper()))
        it.emit("staff", partition_key="2026-03-11T11:00:00")
        await it.run_until_idle()
        assert keys(it, "c") == ["2026-03-11"]


async def test_a_paused_dag_gets_its_due_runs_when_it_is_unpaused() -> None:
    async with World(now=NOON) as it:
        it.add(producer("p", ORDERS, STAFF))
        it.add(consumer("c", assets=ORDERS | STAFF))
        it.pause("c")
        it.emit("orders", partition_key="lost")
        await it.run_until_idle()
        it.unpause("c")
        it.emit("orders", partition_key="us")
        await it.run_until_idle()

        assert keys(it, "c") == ["us"]


async def test_a_manual_run_takes_a_key_that_its_schedule_can_have() -> None:
    async with World(now=NOON) as it:
        it.add(producer("clock", HOURLY, schedule=CronPartitionTimetable("0 0 * * *", timezone="Europe/Amsterdam")))
        with DAG("plain", schedule=None) as plain:
            EmptyOperator(task_id="a")
        it.add(plain)
        run = it.trigger("clock", partition_key="2026-03-01T00:00:00")
        assert it.run("clock", run).partition_date == datetime(2026, 2, 28, 23, tzinfo=UTC)
        with pytest.raises(Refused, match="does not suit the schedule"):
            it.trigger("clock", partition_key="yesterday")
        with pytest.raises(Refused, match="has no partitions"):
            it.trigger("plain", partition_key="us")
