"""Rows that somebody edits by hand: what can be counted is counted again, and no more is lost than was edited."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.ids import PARTITIONS
from tests.patience import PATIENCE
from tests.scheduler.harness import Running, chain, dag, dag_in, running, task

_A_MINUTE = 61.0


async def _used(it: Running, pool: str = "default_pool") -> int:
    rows = await it.fetch("SELECT used FROM pool WHERE name = $1", pool)
    used: int = rows[0]["used"]
    return used


async def _used_up(it: Running) -> None:
    """Wait until no slot counts as used."""
    used = 1
    async with asyncio.timeout(PATIENCE):
        while used:
            await asyncio.sleep(0.005)
            used = await _used(it)


async def _owns_everything(it: Running) -> None:
    """Wait until this scheduler owns all partitions, in memory and in the rows."""
    owned = 0
    async with asyncio.timeout(PATIENCE):
        while owned < PARTITIONS or len(it.session.cache.partitions) < PARTITIONS:
            await asyncio.sleep(0.005)
            rows = await it.fetch("SELECT count(*) FROM partition_lease WHERE incarnation = $1", it.incarnation)
            owned = rows[0][0]
    await it.settled()


# -- the use of pools -------------------------------------------------------------------------


async def test_a_pool_that_says_too_little_is_counted_again_when_its_tasks_end(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r1")
        await it.trigger("d", "r2")
        await it.execute("UPDATE pool SET used = 0")

        await it.finish("t0", "t1", run_id="r1")

        assert await _used(it) == 1
        await it.finish_all()
        assert await it.runs("d") == {"r1": "success", "r2": "success"}
        assert it.scheduler.metrics.recounted == 1
        await it.assert_consistent()


async def test_a_pool_that_says_too_much_blocks_nobody_for_more_than_a_minute(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.execute("UPDATE pool SET used = 9999")
        await it.leave_and_come_back()
        await it.trigger("d", "r")
        assert it.executor.running == {}

        with caplog.at_level(logging.WARNING):
            await it.advance(_A_MINUTE)
            await it.attempt("t0")
            await it.advance(_A_MINUTE)

        assert [r.message for r in caplog.records if "default_pool" in r.message] == [
            "pool default_pool said that 9999 slots are in use, its tasks use 0: corrected"
        ]
        assert it.scheduler.metrics.recounted == 1
        await it.finish_all()
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_a_pool_that_says_too_little_is_counted_again_by_the_sweep(dsn: str, clock: FakeClock) -> None:
    big = dag("d", task("a", pool_slots=3), task("b", pool_slots=2))
    async with running(dsn, clock, big) as it:
        await it.trigger("d", "r")
        await it.execute("UPDATE pool SET used = 1")

        await it.advance(_A_MINUTE)

        assert await _used(it) == 5
        assert it.scheduler.metrics.recoveries == 0
        await it.assert_consistent()


async def test_a_count_under_way_beside_commits_finds_nothing_wrong(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 30)) as it:
        for number in range(5):
            await it.trigger("d", f"r{number}")

        while it.session.cache.boards:
            for attempt in list(it.executor.running.values()):
                it.executor.succeed(attempt)
            it.clock.advance(_A_MINUTE)
            it.scheduler.wake_loops()
            await asyncio.sleep(0.001)
        await it.settled()

        assert it.scheduler.metrics.recounted == 0
        assert set((await it.runs("d")).values()) == {"success"}


async def test_deferred_tasks_that_keep_their_slots_are_counted(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a", pool="p"))) as it:
        await it.execute("INSERT INTO pool (name, slots, include_deferred) VALUES ('p', 3, true)")
        await it.trigger("d", "r")
        it.executor.defer(await it.attempt("a"))
        await it.settled()
        assert await _used(it, "p") == 1

        await it.execute("UPDATE pool SET used = 3 WHERE name = 'p'")
        await it.advance(_A_MINUTE)

        assert await _used(it, "p") == 1


async def test_a_pool_that_is_deleted_by_hand_while_tasks_use_it_loses_only_its_size(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, dag("d", task("a", pool="p"), task("b", after="a"))) as it:
        await it.execute("INSERT INTO pool (name, slots) VALUES ('p', 3)")
        await it.trigger("d", "r")
        await it.attempt("a")
        await it.execute("DELETE FROM pool WHERE name = 'p'")

        with caplog.at_level(logging.WARNING):
            await it.finish("a", "b")

        assert "aiosched pools set p" in caplog.text
        assert await it.runs("d") == {"r": "success"}
        assert await _used(it, "p") == 0


# -- instances and runs -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("column", ["used = 0", "used = 9999"])
async def test_a_wrong_pool_row_ends_no_scheduler_of_a_fleet(dsn: str, clock: FakeClock, column: str) -> None:
    async with (
        running(dsn, clock, chain("d", 3), chain("e", 3), settle=False) as one,
        running(dsn, clock, settle=False) as two,
    ):
        fleet = (one, two)
        await one.until(lambda: all(len(it.session.cache.partitions) == PARTITIONS // 2 for it in fleet), "sharing")
        await one.scheduler.trigger("d", run_id="r")
        await one.scheduler.trigger("e", run_id="r")
        await one.until(lambda: len({**one.executor.running, **two.executor.running}) == 2, "both to run")
        await one.execute(f"UPDATE pool SET {column}")

        async def is_over() -> bool:
            for it in fleet:
                for attempt in list(it.executor.running.values()):
                    it.executor.succeed(attempt)
            clock.advance(1.0)
            for it in fleet:
                it.still_alive()
                it.scheduler.wake_loops()
            await asyncio.sleep(0.005)
            return {**await one.runs("d"), **await one.runs("e")} == {"r": "success"}

        async with asyncio.timeout(PATIENCE):
            while not await is_over():
                pass
            while await _used(one):
                clock.advance(1.0)  # a sweep rests for a hundred times as long as the last one took on this clock
                for it in fleet:
                    it.scheduler.wake_loops()
                await asyncio.sleep(0.005)


async def test_a_task_instance_whose_state_is_set_by_hand_is_all_that_is_lost(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r1")
        await it.trigger("d", "r2")

        await it.execute(
            """UPDATE task_instance SET state = 'success' WHERE task_index = 0
                  AND run_id = (SELECT id FROM dag_run WHERE run_id = 'r1')"""
        )
        await it.advance(_A_MINUTE)
        await it.finish_all()
        await it.advance(_A_MINUTE)
        await it.finish_all()

        assert await it.runs("d") == {"r1": "success", "r2": "success"}
        assert await _used(it) == 0
        await it.assert_consistent()


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("index", [0, 1, 2])
async def test_a_task_instance_that_is_deleted_by_hand_is_all_that_is_lost(
    dsn: str, clock: FakeClock, index: int
) -> None:
    async with running(dsn, clock, chain("d", 3)) as it:
        await it.trigger("d", "r1")
        await it.trigger("d", "r2")
        await it.finish("t0", run_id="r1")

        await it.execute(
            """DELETE FROM task_instance WHERE task_index = $1
                  AND run_id = (SELECT id FROM dag_run WHERE run_id = 'r1')""",
            index,
        )
        for _ in range(4):
            await it.advance(_A_MINUTE)
            await it.finish_all()

        assert await it.runs("d") == {"r1": "success", "r2": "success"}
        assert {**await it.states("r1"), f"t{index}": "success"} == dict.fromkeys(["t0", "t1", "t2"], "success")
        await it.assert_consistent()


async def test_a_run_that_is_deleted_by_hand_while_it_runs_takes_nothing_along(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2), upkeep=True) as it:
        await it.trigger("d", "r1")
        await it.trigger("d", "r2")
        await it.finish("t0", run_id="r2")

        await it.execute("DELETE FROM dag_run WHERE run_id = 'r1'")
        await it.advance(_A_MINUTE)
        await it.finish_all()
        await it.advance(_A_MINUTE)

        assert await it.runs("d") == {"r2": "success"}
        assert it.session.cache.boards == {}
        it.still_alive()
        assert await _used(it) == 0
        await it.trigger("d", "r3")
        await it.finish_all()
        assert await it.runs("d") == {"r2": "success", "r3": "success"}


async def test_what_belonged_to_a_run_that_is_gone_is_deleted_in_time(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2), upkeep=True) as it:
        await it.trigger("d", "r1")
        await it.trigger("d", "r2")
        await it.execute(
            """INSERT INTO xcom (run_id, task_index, map_index, key, value)
               SELECT id, 0, -1, 'k', '1'::json FROM dag_run UNION ALL
               SELECT n, 0, -1, 'k', '1' FROM generate_series(-3000, -1) AS n"""
        )
        await it.execute(
            """INSERT INTO callback_outbox (partition, kind, dag_id, run_id, given_up_at)
               VALUES (1, 'dag_success', 'gone', -1, now())"""
        )

        for _ in range(8):
            await it.advance(_A_MINUTE)

        assert [row["run_id"] > 0 for row in await it.fetch("SELECT run_id FROM xcom")] == [True, True]
        assert await it.fetch("SELECT 1 FROM callback_outbox") == []
        assert len(await it.fetch("SELECT 1 FROM task_instance")) == 4


# -- partitions -------------------------------------------------------------------------------


async def test_a_lease_row_that_is_deleted_by_hand_is_made_again(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain(dag_in(7), 2)) as it:
        await it.trigger(dag_in(7), "r")
        await it.execute("DELETE FROM partition_lease WHERE partition IN (0, 7)")

        await it.until(lambda: it.scheduler.metrics.recoveries == 1, "the missing row to be noticed")
        await _owns_everything(it)

        assert it.scheduler.metrics.recounted == 2
        await it.finish_all()
        assert await it.runs(dag_in(7)) == {"r": "success"}


@pytest.mark.slow
async def test_a_partition_that_is_taken_away_by_hand_is_no_longer_held(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain(dag_in(7), 2)) as it:
        await it.trigger(dag_in(7), "r")
        await it.execute("UPDATE partition_lease SET incarnation = NULL WHERE partition = 7")

        await it.until(lambda: it.scheduler.metrics.recoveries == 1, "the loss to be noticed")
        await _owns_everything(it)
        await it.finish_all()

        assert await it.runs(dag_in(7)) == {"r": "success"}
