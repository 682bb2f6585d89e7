"""Partitions move by load between running schedulers: what is published, what moves, what the next owner knows."""

from __future__ import annotations

import pytest

from aiosched.clock import FakeClock
from aiosched.core.fleet.shares import AT_ONCE
from aiosched.core.values.ids import PARTITIONS
from aiosched.db.queries.schedulers import list_schedulers
from tests.scheduler.harness import Running, chain, dag_in, running


def owned(it: Running) -> set[int]:
    return set(it.session.cache.partitions)


async def settled_long_ago(it: Running) -> None:
    """Let everybody have joined a minute ago, and all partitions have been where they are for as long."""
    await it.execute("UPDATE scheduler SET started_at = now() - interval '1 minute'")
    await it.execute("UPDATE partition_lease SET since = now() - interval '1 minute'")


async def publish(it: Running, what: str) -> None:
    """Let the scheduler publish its loads now, and wait until its row has some."""
    lease = it.scheduler._lease
    assert lease is not None
    assert lease._heartbeat is not None
    heartbeat, loads = lease._heartbeat, it.session.env.loads
    await it.until(lambda: heartbeat.loads == loads.published(owned(it)), "a beat")
    heartbeat.is_urgent = True
    lease.poll_now()
    await it.until(lambda: not heartbeat.is_urgent, what)
    query, loads_now = "SELECT partition_loads FROM scheduler WHERE incarnation = $1", heartbeat.loads
    while (await it.fetch(query, it.incarnation))[0][0] != pytest.approx(loads_now, abs=0.001):
        continue  # they are stored a moment later


async def test_stored_rows_of_a_partition_are_its_load_and_are_shown(dsn: str, clock: FakeClock) -> None:
    spec = chain(dag_in(7), 3)
    async with running(dsn, clock, spec) as it:
        await it.trigger(spec.dag_id, "r")
        await it.finish("t0", "t1", "t2")

        await it.until(lambda: not it.session.cache.stored_rows, "the rows to be counted")

        await publish(it, "the loads")

        load = it.session.env.loads.published(owned(it))[7]
        assert load is not None
        assert load * 60 > 5.9  # each task was queued, and ended
        (row,) = await list_schedulers(it.db)
        assert row.load == pytest.approx(load, abs=0.001)


async def test_a_scheduler_with_hot_partitions_gives_some_and_their_load_goes_with_them(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock) as first, running(dsn, clock, settle=False) as second:
        await first.until(lambda: len(owned(first)) == len(owned(second)) == PARTITIONS // 2, "fair shares")
        hot = sorted(owned(first))[:8]
        first.session.env.loads.begin(dict.fromkeys(hot, 100.0))
        await publish(second, "its loads")
        await publish(first, "its loads")

        await settled_long_ago(first)

        await first.until(lambda: len(owned(second)) > PARTITIONS // 2, "partitions to move")
        await first.until(lambda: len(owned(first) | owned(second)) == PARTITIONS, "all to be owned")
        moved = owned(second) & set(hot)
        assert 0 < len(moved) <= AT_ONCE
        loads = second.session.env.loads.published(owned(second))
        assert [loads[partition] for partition in sorted(moved)] == [100.0] * len(moved)
        assert all(first.session.env.loads.published(range(PARTITIONS))[partition] == 0.0 for partition in moved)
