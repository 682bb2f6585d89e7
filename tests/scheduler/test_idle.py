"""`Scheduler.wait_idle`: nothing is left to do in the whole fleet, by what is held here and by the rows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.assets.conditions import AllRequired, AssetRequired
from aiosched.core.graph.spec import AssetRef, DagSpec
from aiosched.core.values.messages import Deferral, Outcome
from aiosched.db.assets.assets import NewAssetEvent, record_events
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.db.statements.ownership import register as join
from aiosched.scheduler.observability.idle import IdleLog, _left_in_rows
from tests.patience import PATIENCE
from tests.scheduler.harness import (
    NEW_YEAR,
    Running,
    ScriptedExecutor,
    dag,
    dag_in,
    register,
    running,
    succeeding,
    task,
)

HOUR = timedelta(hours=1)
WAITS = Deferral(classpath="triggers.Wait", kwargs="{}", next_method="go_on", next_kwargs="{}")


async def left(it: Running) -> str | None:
    """What one look finds left to do."""
    return await it.scheduler.what_is_left()


async def idle(it: Running) -> None:
    async with asyncio.timeout(PATIENCE):
        await it.scheduler.wait_idle()


async def busy(it: Running, words: str) -> None:
    """Return when a look finds `words`; while others are on their way, it may find other things."""
    try:
        async with asyncio.timeout(PATIENCE):
            while words not in (found := await left(it) or "nothing"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{found}, not {words}") from None


@contextlib.asynccontextmanager
async def pair(dsn: str, clock: FakeClock) -> AsyncIterator[tuple[Running, Running, Callable[..., DagSpec]]]:
    """Two schedulers with half of the partitions each, and how to make a DAG that belongs to the second."""
    theirs = ScriptedExecutor(clock)
    async with running(dsn, clock) as mine, running(dsn, clock, executor=theirs, settle=False) as other:

        def owned(it: Running) -> set[int]:
            return set(it.session.cache.partitions)

        await mine.until(lambda: len(owned(mine)) == 32 == len(owned(other)), "fair shares")
        await other.settled()
        place = min(owned(other))
        yield mine, other, lambda **options: dag(dag_in(place), **options)


async def test_a_run_that_a_peer_works_on_is_waited_for(dsn: str, clock: FakeClock) -> None:
    async with pair(dsn, clock) as (mine, other, make):
        await idle(mine)
        spec = make()
        await register(mine.db, spec)
        await other.until(lambda: spec.dag_id in other.session.cache.dags, "the DAG")
        await other.trigger(spec.dag_id, "r")

        waiting = asyncio.ensure_future(mine.scheduler.wait_idle())
        await busy(mine, f"run r of {spec.dag_id} is running")
        assert not waiting.done()

        await other.finish("a")
        async with asyncio.timeout(PATIENCE):
            await waiting
        assert await mine.runs(spec.dag_id) == {"r": "success"}


async def test_what_a_peer_has_not_come_to_is_waited_for(dsn: str, clock: FakeClock) -> None:
    async with pair(dsn, clock) as (mine, other, make):
        spec = make(schedule=HOUR, start_date=NEW_YEAR - 2 * HOUR, catchup=False)
        async with other.session.locks.ownership:  # it makes no runs meanwhile, and applies no requests
            await register(mine.db, spec)
            await busy(mine, f"a run of {spec.dag_id} is due")
            async with mine.db.acquire() as conn:
                await inbox.send_request(conn, verb="pause", dag_id=spec.dag_id, args={}, requested_by="test")
            await busy(mine, "(pause) waits for its answer")

        await idle(mine)
        rows = await mine.fetch("SELECT is_paused FROM dag")
        assert [row["is_paused"] for row in rows] == [True]


async def test_asset_events_that_a_peer_has_to_look_at_are_waited_for(dsn: str, clock: FakeClock) -> None:
    async with pair(dsn, clock) as (mine, other, make):
        both = AllRequired((AssetRequired("a"), AssetRequired("b")))
        spec = make(schedule=both)
        await register(mine.db, spec, dag("producer", *(task(name, outlets=(AssetRef(name=name),)) for name in "ab")))
        await other.until(lambda: spec.dag_id in other.session.cache.dags, "the DAG")
        await _emit(mine, "a")
        await idle(mine)  # one event is not enough for a run

        async with other.session.locks.ownership:
            await _emit(mine, "b")
            await busy(mine, f"asset events are to make a run of {spec.dag_id}")

        await busy(mine, f"of {spec.dag_id} is running")
        await other.finish("a")
        await idle(mine)


async def _emit(it: Running, name: str) -> None:
    async with it.db.transaction() as conn:
        recorded = await record_events(conn, [NewAssetEvent(name, "", "{}", None, it.clock.now())])
        await inbox.notify(conn, "assets", recorded.partitions)


async def test_partitions_of_a_dead_scheduler_are_waited_for(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b", after="a"))) as it:
        await it.trigger("d", "r")
        await it.attempt("a")
    async with await Database.open(dsn, application_name="test") as db:
        peer = await db.connect()  # the lock of a scheduler that owns everything; its tasks are unfinished
        dead = await join(peer, name="dead", hostname="h", pid=1, version="", executor="local", slots=1, lease=60.0)
        await db.execute("UPDATE partition_lease SET incarnation = $1", dead)

        executor = ScriptedExecutor(clock, script=succeeding)
        async with running(dsn, clock, executor=executor, settle=False) as heir:
            await busy(heir, "run r of d is running")
            peer.terminate()
            await idle(heir)

            assert await heir.runs("d") == {"r": "success"}
            assert await heir.fetch("SELECT 1 FROM scheduler WHERE incarnation = $1", dead) == []


async def test_a_partition_that_nobody_owns_is_named(dsn: str, clock: FakeClock) -> None:
    async with await Database.open(dsn, application_name="test") as db:
        peer = await db.connect()
        gone = await join(peer, name="gone", hostname="h", pid=1, version="", executor="local", slots=1, lease=60.0)
        await db.execute("UPDATE partition_lease SET incarnation = $1 WHERE partition < 3", gone)

        async with running(dsn, clock, settle=False) as it:
            await it.until(lambda: it.session.cache.partitions, "its share")
            async with it.session.locks.ownership:  # it takes nothing over meanwhile
                peer.terminate()
                await _found(it, "32 partitions have no living owner yet")
            await idle(it)


async def _found(it: Running, words: str) -> None:
    async with asyncio.timeout(PATIENCE), it.db.acquire() as conn:
        while await _left_in_rows(it.session, conn, None, it.clock.now()) != words:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("begun", [False, True])
async def test_the_run_of_a_paused_dag_is_left_alone_but_for_attempts_of_it(
    dsn: str, clock: FakeClock, begun: bool
) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b", after="a"))) as it:
        await it.trigger("d", "r")
        attempt = await it.attempt("a")
        await it.scheduler.pause("d")
        if begun:
            assert await left(it) == "attempts run, or their results are being stored"

        it.executor.succeed(attempt)
        await it.settled()

        await idle(it)
        assert await it.states("r") == {"a": "success", "b": None}


@pytest.mark.parametrize(
    ("options", "state"), [({"retries": 1, "retry_delay": 60.0}, "up_for_retry"), ({}, "deferred")]
)
async def test_a_task_that_waits_is_waited_for(dsn: str, clock: FakeClock, options: dict[str, Any], state: str) -> None:
    async with running(dsn, clock, dag("d", task("a", **options))) as it:
        await it.trigger("d", "r")
        attempt = await it.attempt("a")
        if state == "deferred":
            it.executor.report(attempt, Outcome.DEFERRED, deferral=WAITS)
        else:
            it.executor.fail(attempt)
        await it.settled()

        assert await it.states("r") == {"a": state}
        assert "unfinished" in (await left(it) or "")


async def test_a_run_that_is_due_later_is_not_waited_for(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", schedule=HOUR, start_date=NEW_YEAR)) as it:
        await idle(it)

        clock.advance(3601)

        assert await left(it) == "a run is due"


def test_what_is_waited_for_long_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    idle_log = IdleLog()
    with caplog.at_level("INFO"):
        for second in range(15):
            idle_log.note("this", float(second))
        for second in range(15, 40):
            idle_log.note("that", float(second))

    assert [record.message for record in caplog.records] == ["not idle: this", "not idle: that"]
