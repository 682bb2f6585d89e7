"""Runs of partitions on a real database: mapped once, due once, consumed once, whatever happens between.

Source: the semantics reference, section 37.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.assets.conditions import AllRequired, AssetRequired
from aiosched.core.graph.spec import AssetRef, DagSpec
from aiosched.core.timetables import CronPartitionTimetable, PartitionedAssetTimetable, PartitionedAtRuntime
from aiosched.core.timetables.key_mappers import (
    AllowedKeyMapper,
    FanOutMapper,
    FixedKeyMapper,
    IdentityMapper,
    RollupMapper,
    StartOfDayMapper,
    StartOfWeekMapper,
)
from aiosched.core.timetables.key_windows import SegmentWindow, WeekWindow
from aiosched.core.values.ids import PARTITIONS
from aiosched.core.values.messages import AssetTouch, Outcome
from aiosched.db.assets.asset_partitions import drop_keys_without_use
from aiosched.scheduler.runs import partitioned_runs
from tests.scheduler.harness import Running, dag, running, task

A, B = AssetRequired("a"), AssetRequired("b")


def producer(*names: str, schedule: Any = None) -> DagSpec:
    made = [task(name, outlets=(AssetRef(name=name),)) for name in names]
    return dag("producer", *made, schedule=schedule or PartitionedAtRuntime(), allowed_run_types=("manual",))


def consumer(assets: Any, dag_id: str = "consumer", *, mapper: Any = None, **options: Any) -> DagSpec:
    schedule = PartitionedAssetTimetable(assets=assets, default_partition_mapper=mapper or IdentityMapper())
    return dag(dag_id, task("read"), schedule=schedule, **options)


async def emit(it: Running, asset: str, key: str | None) -> None:
    it.clock.advance(1)
    await it.scheduler.emit(asset, partition_key=key)
    await it.settled()


async def runs(it: Running, dag_id: str = "consumer") -> list[tuple[str, list[str]]]:
    """The keys of the DAG's runs and of the events that each has consumed."""
    rows = await it.fetch(
        """SELECT r.partition_key, array_agg(a.name || ':' || e.partition_key ORDER BY e.id) AS events
             FROM dag_run AS r JOIN asset_consumption AS c ON c.run_id = r.id JOIN asset_event AS e ON e.id = c.event_id
             JOIN asset AS a ON a.id = e.asset_id WHERE r.dag_id = $1 GROUP BY r.id ORDER BY r.id""",
        dag_id,
    )
    return [(row["partition_key"], row["events"]) for row in rows]


async def pending(it: Running) -> list[tuple[str, bool]]:
    rows = await it.fetch("SELECT partition_key, due_at IS NOT NULL AS due FROM asset_partition ORDER BY id")
    return [(row["partition_key"], row["due"]) for row in rows]


async def test_a_run_of_a_key_waits_for_the_same_key_of_every_asset(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, producer("a", "b"), consumer(AllRequired((A, B)))) as it:
        await emit(it, "a", "us")
        await emit(it, "b", "eu")
        await emit(it, "a", "us")
        assert (await runs(it), await pending(it)) == ([], [("us", False), ("eu", False)])

        await emit(it, "b", "us")
        assert await runs(it) == [("us", ["a:us", "a:us", "b:us"])]
        assert await pending(it) == [("eu", False)]
        await emit(it, "b", "us")
        assert len(await runs(it)) == 1


async def test_the_runs_of_a_task_carry_their_keys_and_dates_into_events(dsn: str, clock: FakeClock) -> None:
    clocked = producer("a", schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d"))
    async with running(dsn, clock, clocked, consumer(A)) as it:
        await it.trigger("producer", partition_key="2026-01-05")
        attempt = await it.attempt("a")
        assert (attempt.run.partition_key, attempt.run.partition_date) == (
            "2026-01-05",
            datetime(2026, 1, 5, tzinfo=UTC),
        )
        touch = AssetTouch(
            name="a", uri="a", partition_key=attempt.run.partition_key, partition_date=attempt.run.partition_date
        )
        it.executor.report(attempt, Outcome.SUCCESS, assets=(touch,))
        await it.settled()

        (run,) = await it.fetch("SELECT * FROM dag_run WHERE dag_id = 'consumer'")
        assert (run["partition_key"], run["partition_date"]) == ("2026-01-05", datetime(2026, 1, 5, tzinfo=UTC))
        read = await it.attempt("read")
        assert read.run.partition_key == "2026-01-05"


async def test_a_roll_up_and_a_fan_out(dsn: str, clock: FakeClock) -> None:
    regions = RollupMapper(upstream_mapper=FixedKeyMapper("all"), window=SegmentWindow(["us", "eu"]))
    days = FanOutMapper(upstream_mapper=StartOfWeekMapper(), window=WeekWindow())
    specs = (consumer(A, "rolled", mapper=regions), consumer(B, "daily", mapper=days, max_active_runs=3))
    async with running(dsn, clock, producer("a", "b"), *specs) as it:
        await emit(it, "a", "us")
        await emit(it, "a", "mars")
        assert await runs(it, "rolled") == []
        await emit(it, "a", "eu")
        assert await runs(it, "rolled") == [("all", ["a:us", "a:mars", "a:eu"])]

        await emit(it, "b", "2026-01-07T00:00:00")
        found = [key for key, _ in await runs(it, "daily")]
        assert found == ["2026-01-05", "2026-01-06", "2026-01-07"]
        while any(a.run.dag_id == "daily" for a in it.executor.running.values()):
            for attempt in [a for a in it.executor.running.values() if a.run.dag_id == "daily"]:
                it.executor.report(attempt, Outcome.SUCCESS)
            await it.settled()
        found = [key for key, _ in await runs(it, "daily")]
        assert found == [f"2026-01-{day:02}" for day in range(5, 12)]


async def test_why_says_what_pending_keys_wait_for(dsn: str, clock: FakeClock) -> None:
    regions = RollupMapper(upstream_mapper=FixedKeyMapper("all"), window=SegmentWindow(["us", "eu"]))
    async with running(dsn, clock, producer("a"), consumer(A, mapper=regions)) as it:

        async def told() -> str:
            return next(gate.detail for gate in (await it.scheduler.why("consumer")).gates if gate.name == "partitions")

        assert await told() == "no event with a partition key of a has arrived"
        await emit(it, "a", "us")
        assert await told() == "all waits for a: 1 of 2 keys of a (missing: eu)"
        await it.register(consumer(A, mapper=AllowedKeyMapper(["eu"])))
        await it.settled()
        assert (await told()).endswith(
            "1 event led to no run, the newest because AllowedKeyMapper cannot map the key 'us' of asset a: it is not "
            "one of the allowed keys eu"
        )


async def test_the_owner_makes_the_runs_of_events_that_another_scheduler_stores(dsn: str, clock: FakeClock) -> None:
    consumers = [consumer(A, f"c{number}") for number in range(6)]
    async with running(dsn, clock, producer("a"), *consumers) as one, running(dsn, clock) as two:

        def have_shared() -> bool:
            return all(len(it.session.cache.partitions) == PARTITIONS // 2 for it in (one, two))

        await one.until(have_shared, "half of the partitions each")
        await one.scheduler.emit("a", partition_key="us")

        def all_run() -> bool:
            dags = {a.run.dag_id for it in (one, two) for a in it.executor.running.values()}
            return dags == {spec.dag_id for spec in consumers}

        await one.until(all_run, "a run of every consumer")
        found = await one.fetch("SELECT dag_id, count(*) AS number FROM dag_run GROUP BY dag_id ORDER BY dag_id")
        assert [tuple(row) for row in found] == [(spec.dag_id, 1) for spec in consumers]


async def test_a_refused_key_is_noted_and_mapped_again_by_another_mapper(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, producer("a"), consumer(A, mapper=AllowedKeyMapper(["us"]))) as it:
        await emit(it, "a", "mars")
        await emit(it, "a", "us")
        (left,) = await it.fetch("SELECT refused FROM asset_key_event")
        assert "'mars'" in left["refused"]
        assert "AllowedKeyMapper" in left["refused"]
        assert [key for key, _ in await runs(it)] == ["us"]

        await it.register(consumer(A, mapper=AllowedKeyMapper(["us", "mars"])))
        await it.settled()
        assert [key for key, _ in await runs(it)] == ["us", "mars"]
        assert await it.fetch("SELECT * FROM asset_key_event") == []


async def test_a_changed_mapper_maps_what_waits_again_but_not_what_had_its_run(dsn: str, clock: FakeClock) -> None:
    days = FanOutMapper(upstream_mapper=StartOfWeekMapper(), window=WeekWindow())
    async with running(dsn, clock, producer("a"), consumer(A, mapper=days, max_active_runs=2)) as it:
        await emit(it, "a", "2026-01-07T00:00:00")
        assert [key for key, _ in await runs(it)] == ["2026-01-05", "2026-01-06"]

        await it.register(consumer(A, mapper=StartOfDayMapper(), max_active_runs=10))
        await it.settled()
        assert [key for key, _ in await runs(it)] == ["2026-01-05", "2026-01-06", "2026-01-07"]
        assert await pending(it) == []


async def test_a_key_concerns_only_dags_with_partitions_and_the_other_way_round(dsn: str, clock: FakeClock) -> None:
    whole = dag("whole", task("read"), schedule=A)
    async with running(dsn, clock, producer("a"), consumer(A), whole) as it:
        await emit(it, "a", "us")
        assert await it.fetch("SELECT * FROM dag_run WHERE dag_id = 'whole'") == []
        await emit(it, "a", None)
        assert [key for key, _ in await runs(it)] == ["us"]
        (row,) = await it.fetch(
            """SELECT count(*) AS number FROM asset_consumption AS c JOIN dag_run AS r ON r.id = c.run_id
                WHERE r.dag_id = 'whole'"""
        )
        assert row["number"] == 1


async def test_a_paused_dag_keeps_what_waits_and_gets_nothing_new(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, producer("a", "b"), consumer(AllRequired((A, B)))) as it:
        await emit(it, "a", "us")
        await it.ask("pause", "consumer")
        await emit(it, "b", "us")
        await it.ask("unpause", "consumer")
        assert (await runs(it), await pending(it)) == ([], [("us", False)])
        await emit(it, "b", "us")
        assert [key for key, _ in await runs(it)] == ["us"]


async def test_a_schedule_without_partitions_and_a_deleted_dag_leave_nothing(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, producer("a", "b"), consumer(AllRequired((A, B)))) as it:
        await emit(it, "a", "us")
        await it.register(dag("consumer", task("read"), schedule=A))
        await it.settled()
        assert await pending(it) == []
        await it.register(consumer(AllRequired((A, B))))
        await emit(it, "a", "eu")
        assert await pending(it) == [("eu", False)]
        await it.ask("delete_dag", "consumer")
        assert await pending(it) == []
        assert await it.fetch("SELECT * FROM asset_partition_event") == []


async def test_many_events_are_mapped_in_several_passes(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioned_runs, "EVENTS_AT_ONCE", 2)
    async with running(dsn, clock, producer("a"), consumer(A)) as it:
        await it.execute(
            """INSERT INTO asset_event (asset_id, timestamp, partition_key)
               SELECT a.id, now(), 'k' || n FROM asset AS a, generate_series(1, 7) AS n"""
        )
        await it.execute(
            """INSERT INTO asset_key_event (dag_id, event_id, partition)
               SELECT d.dag_id, e.id, d.partition FROM asset_event AS e, dag AS d WHERE d.dag_id = 'consumer'"""
        )
        await it.leave_and_come_back()
        await it.until(lambda: len(it.executor.running) == 7, "all runs")
        assert sorted(key for key, _ in await runs(it)) == [f"k{number}" for number in range(1, 8)]


async def test_what_is_queued_by_the_rules_of_another_schedule_is_dropped(dsn: str, clock: FakeClock) -> None:
    """As when an event is stored in the instant in which the schedule changes."""
    whole = dag("whole", task("read"), schedule=A)
    async with running(dsn, clock, producer("a"), consumer(A), whole) as it:
        await it.execute("INSERT INTO asset_event (asset_id, timestamp) SELECT id, now() FROM asset")
        await it.execute(
            """INSERT INTO asset_queue (dag_id, asset_id, partition, first_at, newest_at)
               SELECT d.dag_id, a.id, d.partition, now(), now() FROM asset AS a, dag AS d WHERE d.dag_id = 'consumer'"""
        )
        await it.execute(
            """INSERT INTO asset_key_event (dag_id, event_id, partition)
               SELECT d.dag_id, e.id, d.partition FROM asset_event AS e, dag AS d WHERE d.dag_id = 'whole'"""
        )
        await it.leave_and_come_back()
        await it.settled()
        async with it.db.acquire() as conn:
            await drop_keys_without_use(conn)
        assert await it.fetch("SELECT * FROM asset_queue") == []
        assert await it.fetch("SELECT * FROM asset_key_event") == []
        assert await it.fetch("SELECT * FROM dag_run") == []


async def test_a_scheduler_that_takes_over_goes_on_where_the_other_one_stopped(dsn: str, clock: FakeClock) -> None:
    specs = producer("a", "b"), consumer(AllRequired((A, B)))
    async with running(dsn, clock, *specs) as it:
        await emit(it, "a", "us")
    async with running(dsn, clock) as it:
        await emit(it, "b", "us")
        assert await runs(it) == [("us", ["a:us", "b:us"])]


async def test_an_event_that_was_stored_by_another_process_is_mapped_when_the_owner_looks(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, producer("a"), consumer(A)) as it:
        await it.execute(
            "INSERT INTO asset_event (asset_id, timestamp, partition_key) SELECT id, now(), 'us' FROM asset"
        )
        await it.execute(
            """INSERT INTO asset_key_event (dag_id, event_id, partition)
               SELECT d.dag_id, e.id, d.partition FROM asset_event AS e, dag AS d WHERE d.dag_id = 'consumer'"""
        )
        await it.leave_and_come_back()
        await it.until(lambda: runs_exist(it), "the run")
        assert [key for key, _ in await runs(it)] == ["us"]


def runs_exist(it: Running) -> bool:
    return any(attempt.run.dag_id == "consumer" for attempt in it.executor.running.values())


@pytest.mark.parametrize("why", [{}, {"is_paused": True}, {"is_stale": True}, {"has_import_errors": True}], ids=str)
def test_a_dag_that_gets_no_runs_has_no_room_for_those_of_partitions(why: dict[str, bool]) -> None:
    row = SimpleNamespace(**{"is_paused": False, "is_stale": False, "has_import_errors": False} | why)
    runs = SimpleNamespace(under_way=lambda: [1], queued=[2], starting=[])
    held: Any = SimpleNamespace(row=row, runs=runs, version=SimpleNamespace(spec=dag("d", max_active_runs=3)))

    assert partitioned_runs.room_of(held) == (0 if why else 1)
