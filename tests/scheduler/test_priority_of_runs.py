"""The priority of a request: its run starts before others, and its tasks go first where slots are scarce."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from aiosched import enqueue
from aiosched.clock import FakeClock
from aiosched.db.server.engine import Database
from aiosched.errors import Refused
from aiosched.testing import World
from tests.scheduler.harness import NEW_YEAR, Running, chain, dag, register, running, task

HOUR = timedelta(hours=1)


@pytest.fixture
async def it(dsn: str, clock: FakeClock) -> AsyncIterator[Running]:
    one_at_a_time = dag("d", max_active_runs=1)
    scarce = dag("scarce", task("a", pool="small"), max_active_runs=100)
    other = dag("other", task("a", pool="small", priority_weight=4), max_active_runs=100)
    async with running(dsn, clock, one_at_a_time, scarce, other) as scheduler:
        await scheduler.fetch("INSERT INTO pool (name, slots) VALUES ('small', 1)")
        yield scheduler


async def trigger(it: Running, dag_id: str = "d", **options: Any) -> str:
    return (await it.scheduler.trigger(dag_id, **options)).run_id


async def started(it: Running, dag_id: str, number: int) -> list[str]:
    """The runs in the order of their starts, each ended before the next."""
    found: list[str] = []
    for _ in range(number):
        await it.settled()
        found += [run for run, state in (await it.runs(dag_id)).items() if state == "running" and run not in found]
        await it.finish("a")
    return found


async def test_runs_that_wait_start_by_priority_then_by_instant(it: Running) -> None:
    await trigger(it, run_id="first")
    for name, priority in (("low", -1), ("plain", 0), ("high", 5), ("later", 5)):
        await trigger(it, run_id=name, priority=priority)

    assert await started(it, "d", 5) == ["first", "high", "later", "plain", "low"]


async def test_one_that_may_not_start_yet_holds_up_none(it: Running) -> None:
    await trigger(it, run_id="first")
    await trigger(it, run_id="tomorrow", priority=9, run_after=NEW_YEAR + 24 * HOUR)
    await trigger(it, run_id="soon", priority=8, run_after=NEW_YEAR + HOUR)
    await trigger(it, run_id="plain")
    await it.advance(3600)

    assert await started(it, "d", 3) == ["first", "soon", "plain"]
    await it.advance(24 * 3600)
    assert await started(it, "d", 1) == ["tomorrow"]


async def test_the_order_holds_over_a_restart(dsn: str, db: Database, clock: FakeClock) -> None:
    one_at_a_time = dag("d", max_active_runs=1)
    await register(db, one_at_a_time)
    async with running(dsn, clock) as it:
        for name, priority in (("first", 0), ("plain", 0), ("high", 5)):
            await trigger(it, run_id=name, priority=priority)
    async with running(dsn, clock) as it:
        assert (await started(it, "d", 3))[-2:] == ["high", "plain"]


async def test_tasks_go_first_in_a_pool_by_the_priorities_of_run_and_task_together(it: Running) -> None:
    for name, priority in (("first", 0), ("plain", 0), ("high", 5)):
        await trigger(it, "scarce", run_id=name, priority=priority)
    await trigger(it, "other", run_id="weighty")
    held = "SELECT r.run_id FROM task_instance ti JOIN dag_run r ON r.id = ti.run_id WHERE ti.state = ANY($1::text[])"

    found = []
    for _ in range(4):
        await it.settled()
        (row,) = await it.fetch(held, ["queued", "running"])
        found.append(row[0])
        if len(found) == 1:
            assert (await it.scheduler.why("scarce", "plain", "a")).rank == 3
            assert (await it.scheduler.why("scarce", "high", "a")).rank == 1
        await it.finish("a")

    assert found == ["first", "high", "weighty", "plain"]


async def test_a_debounced_request_brings_its_priority(it: Running, dsn: str) -> None:
    await trigger(it, run_id="first")
    await trigger(it, run_id="plain")
    moved = await trigger(it, unique="k", debounce=1)
    assert await trigger(it, unique="k", debounce=1, priority=3) == moved
    await it.advance(2)

    assert await started(it, "d", 3) == ["first", moved, "plain"]


async def test_in_a_transaction_too_and_what_is_no_priority_is_refused(it: Running, dsn: str) -> None:
    conn = await asyncpg.connect(dsn)
    try:
        number = await enqueue(conn, "d", priority=7)
        await it.scheduler.run_of(number)
        with pytest.raises(Refused, match="priority"):
            await enqueue(conn, "d", priority="high")  # type: ignore[call-overload]
        big = await enqueue(conn, "d", priority=2**31)
        with pytest.raises(Refused, match="priority"):
            await it.scheduler.run_of(big)
    finally:
        await conn.close()
    assert await it.fetch("SELECT priority FROM dag_run") == [(7,)]


async def test_a_world_starts_by_priority() -> None:
    async with World(now=NEW_YEAR) as world:
        world.add(chain("d", 1, max_active_runs=1))
        for name, priority in (("first", 0), ("plain", 0), ("high", 5)):
            world.trigger("d", run_id=name, priority=priority)
        await world.run_until_idle()

        ended = sorted(("first", "plain", "high"), key=lambda name: world.run("d", name).start_date or NEW_YEAR)
    assert ended == ["first", "high", "plain"]
