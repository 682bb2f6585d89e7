"""What happens to a fleet in service: rolled over, one name twice, a newer schema, a lease connection that breaks."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.ids import PARTITIONS
from aiosched.db.queries.schedulers import list_schedulers
from aiosched.db.statements.ownership import READ_FLEET
from aiosched.errors import SchemaOutOfDate
from aiosched.scheduler import Scheduler
from tests.patience import PATIENCE
from tests.scheduler.harness import (
    Running,
    ScriptedExecutor,
    chain,
    dag_in,
    running,
    settings_for_tests,
    succeeding,
)


def owned(it: Running) -> int:
    return len(it.session.cache.partitions)


async def test_a_rolling_restart_loses_no_attempt_and_leaves_nobody_without_an_owner(
    dsn: str, clock: FakeClock
) -> None:
    """Old ones drain while new ones come: each task runs once, the long ones to their end where they began."""
    specs = [chain(dag_in(partition), 3) for partition in range(0, PARTITIONS, 2)]
    async with running(dsn, clock, *specs) as one, running(dsn, clock, settle=False) as two:
        await one.until(lambda: owned(one) == owned(two) == 32, "fair shares")
        for spec in specs:
            await one.scheduler.trigger(spec.dag_id, run_id="r")
        await one.settled()
        await two.settled()
        old = [one, two]
        async with (
            running(dsn, clock, executor=ScriptedExecutor(clock, script=succeeding), settle=False) as three,
            running(dsn, clock, executor=ScriptedExecutor(clock, script=succeeding), settle=False) as four,
        ):
            for leaving in old:
                stopping = asyncio.create_task(leaving.scheduler.stop(grace=PATIENCE))
                await three.until(lambda it=leaving: owned(it) == 0, "its partitions to move")  # type: ignore[misc]
                held = list(leaving.executor.running.values())  # it begins nothing any more
                assert held
                for attempt in held:
                    leaving.executor.succeed(attempt)
                await stopping
            await three.until(lambda: owned(three) == owned(four) == 32, "fair shares of the new ones")
            await three.until(lambda: not three.session.cache.boards and not four.session.cache.boards)
            await three.settled()
            await four.settled()

            assert await three.fetch("SELECT state, count(*) FROM dag_run GROUP BY 1") == [("success", 32)]
            assert await three.fetch("SELECT 1 FROM task_try") == []
            times = Counter(attempt.key for it in (one, two, three, four) for attempt in it.executor.submitted)
            assert set(times.values()) == {1}
            assert len(times) == 3 * 32
            await three.assert_consistent()
            await four.assert_consistent()


async def test_two_with_one_name_are_two_schedulers_and_each_is_seen(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, name="a") as first, running(dsn, clock, name="a", settle=False) as second:
        await first.until(lambda: owned(first) == owned(second) == 32, "fair shares")

        rows = await list_schedulers(first.db)

        assert [(row.name, row.alive, row.partitions) for row in rows] == [("a", True, 32)] * 2
        assert len({row.incarnation for row in rows}) == 2


async def test_a_newer_schema_is_refused_and_those_that_run_already_go_on(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 1)) as it:
        await it.execute("UPDATE alembic_version SET version_num = '9999'")
        await it.execute("COMMENT ON TABLE alembic_version IS 'aiosched: works with schema 9998 and later'")

        with pytest.raises(SchemaOutOfDate, match="newer"):
            await Scheduler(dsn=dsn, settings=settings_for_tests(), parse=False).start()

        await it.trigger("d", "r")
        await it.finish("t0")
        assert await it.runs("d") == {"r": "success"}


async def test_a_lease_connection_that_breaks_does_not_cost_a_living_scheduler_its_partitions(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, chain("d", 1)) as first, running(dsn, clock, settle=False) as second:
        await first.until(lambda: owned(first) == owned(second) == 32, "fair shares")
        before = first.incarnation, second.incarnation

        for _ in range(3):
            ended = {row["pid"] for row in await first.fetch(f"SELECT pid, pg_terminate_backend(pid) FROM {LEASES}")}
            assert len(ended) == 2
            await _both_locks_are_held_again(first, ended)

        assert (first.incarnation, second.incarnation) == before
        assert first.session.env.metrics.takeovers == second.session.env.metrics.takeovers == 0
        assert owned(first) == owned(second) == 32


LEASES = "pg_stat_activity WHERE application_name = 'aiosched lease' AND datname = current_database()"


async def _both_locks_are_held_again(it: Running, ended: set[int]) -> None:
    """By new sessions: those that were `ended` may live on for a moment."""
    async with asyncio.timeout(PATIENCE):
        while True:
            there = {row["pid"] for row in await it.fetch(f"SELECT pid FROM {LEASES}")}
            rows = await it.fetch(READ_FLEET)
            living = [row for row in rows if row["incarnation"] is not None]
            assert len(living) == 2, "one was taken over"
            if len(there) == 2 and not there & ended and not any(row["process_gone"] for row in living):
                return
            await asyncio.sleep(0.01)
