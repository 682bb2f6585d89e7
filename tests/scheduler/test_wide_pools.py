"""Schedulers that share a pool with much room do not wait for each other; in a narrow one they lock it."""

from __future__ import annotations

import asyncio

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.ids import PARTITIONS
from aiosched.db.server.engine import Database
from tests.db.waiting import until_a_lock_is_awaited
from tests.scheduler.harness import Running, chain, dag_in, running


async def _two_with_a_chain(first: Running, second: Running) -> tuple[Running, str]:
    """The owner of a chain of two tasks whose first task runs, and its DAG."""
    await first.until(lambda: len(first.session.cache.partitions) == len(second.session.cache.partitions), "shares")
    dag_id = min(first.session.cache.dags)
    await first.trigger(dag_id, "r")
    return first, dag_id


@pytest.mark.parametrize("slots", [-1, 128])
async def test_a_chain_goes_on_while_somebody_holds_its_wide_pool_locked(
    dsn: str, clock: FakeClock, db: Database, slots: int
) -> None:
    """Its commit gives one slot back and takes one: the row of the pool does not change."""
    specs = [chain(dag_in(partition), 2) for partition in range(PARTITIONS)]
    async with running(dsn, clock, *specs) as one, running(dsn, clock, settle=False) as other:
        await one.execute(f"UPDATE pool SET slots = {slots}")
        it, dag_id = await _two_with_a_chain(one, other)
        attempt = await it.attempt("t0", dag_id=dag_id)
        async with db.acquire() as conn, conn.transaction():
            await conn.execute("SELECT FROM pool FOR UPDATE")

            it.executor.succeed(attempt)

            await it.attempt("t1", dag_id=dag_id)
        await it.finish("t1", dag_id=dag_id)
        assert await it.runs(dag_id) == {"r": "success"}
        await it.assert_consistent()


async def test_a_narrow_pool_is_locked_before_slots_are_claimed(dsn: str, clock: FakeClock, db: Database) -> None:
    specs = [chain(dag_in(partition), 2) for partition in range(PARTITIONS)]
    async with running(dsn, clock, *specs) as one, running(dsn, clock, settle=False) as other:
        await one.execute("UPDATE pool SET slots = 8")
        it, dag_id = await _two_with_a_chain(one, other)
        attempt = await it.attempt("t0", dag_id=dag_id)
        async with db.acquire() as conn, db.acquire() as looking, conn.transaction():
            await conn.execute("SELECT FROM pool FOR UPDATE")

            it.executor.succeed(attempt)

            await until_a_lock_is_awaited(looking)
            assert it.executor.find("t1", None, dag_id) is None
        await it.finish("t1", dag_id=dag_id)
        assert await it.runs(dag_id) == {"r": "success"}


async def test_two_that_claim_at_once_in_a_wide_pool_are_both_counted(dsn: str, clock: FakeClock) -> None:
    specs = [chain(dag_in(partition), 1) for partition in range(PARTITIONS)]
    async with running(dsn, clock, *specs) as one, running(dsn, clock, settle=False) as other:
        await _two_with_a_chain(one, other)

        await asyncio.gather(
            *(it.scheduler.trigger(dag_id, run_id="s") for it in (one, other) for dag_id in it.session.cache.dags)
        )
        await one.settled()
        await other.settled()

        held = len(one.executor.running) + len(other.executor.running)
        assert held == PARTITIONS + 1
        assert await one.fetch("SELECT used FROM pool WHERE name = 'default_pool'") == [(held,)]
        assert one.scheduler.metrics.recoveries == other.scheduler.metrics.recoveries == 0
