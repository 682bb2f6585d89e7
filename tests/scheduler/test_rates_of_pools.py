"""Live schedulers and pools with a rate: the wake-up, several on one pool, lost commits, what is edited by hand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec
from aiosched.core.values.ids import PARTITIONS
from aiosched.db.people.pools import set_pool
from aiosched.db.server.engine import Database
from tests.faults.injection import faults
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, Running, dag, dag_in, running, task
from tests.starts_of_pools import most_in, note_starts, noted_starts


class TickingClock(FakeClock):
    """Schedules stand still, timeouts do not."""

    def monotonic(self) -> float:
        return time.monotonic()


def callers(dag_id: str, number: int) -> DagSpec:
    return dag(dag_id, *(task(f"t{n}", pool="api", priority_weight=number - n) for n in range(number)))


async def make_pool(db: Database, rate: str | None, slots: int = 100) -> None:
    await set_pool(db, "api", slots, rate=rate or "", requested_by="me")


async def let_time_pass(it: Running, seconds: int) -> None:
    """For the database, too: the starts in its rows are that much earlier."""
    rows = await it.fetch("SELECT starts::text FROM pool WHERE name = 'api'")
    log = [[at - seconds * 1_000_000, number] for at, number in json.loads(rows[0][0])]
    await it.execute("UPDATE pool SET starts = $1::text::jsonb WHERE name = 'api'", json.dumps(log))
    await it.advance(seconds)


async def test_it_wakes_when_the_next_start_is_allowed_and_makes_no_pass_before(
    dsn: str, clock: FakeClock, db: Database
) -> None:
    await make_pool(db, "2/h")
    async with running(dsn, clock, callers("d", 5), safety_poll=1e6) as it:
        await it.trigger("d", "r")
        assert len(it.executor.running) == 2
        await it.finish_all()
        await let_time_pass(it, 1000)
        passes = it.scheduler.metrics.critical_section.count

        await let_time_pass(it, 2500)
        assert it.scheduler.metrics.critical_section.count == passes
        assert len(it.executor.running) == 0
        await let_time_pass(it, 101)
        assert len(it.executor.running) == 2
        await it.finish_all()
        await let_time_pass(it, 3601)
        await it.finish_all()

        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_what_waits_for_a_rate_does_not_slow_other_tasks_down(dsn: str, clock: FakeClock, db: Database) -> None:
    """Once it is known when the next start is, its pool is not locked, and a batch is one statement again."""
    await make_pool(db, "1/h")
    async with running(dsn, clock, callers("d", 3), dag("other", task("a"), task("b", after="a"))) as it:
        await it.trigger("d", "r")
        await it.trigger("other", "r")
        async with db.acquire() as conn, conn.transaction():
            await conn.execute("SELECT FROM pool WHERE name = 'api' FOR UPDATE")

            await it.finish("a", "b", dag_id="other")

        assert await it.runs("other") == {"r": "success"}


async def test_why_names_the_next_start_and_the_turn_of_each_task(dsn: str, clock: FakeClock, db: Database) -> None:
    await make_pool(db, "2/h", slots=-1)
    async with running(dsn, clock, callers("d", 4)) as it:
        await it.trigger("d", "r")
        (log,) = await it.fetch("SELECT starts::text FROM pool WHERE name = 'api'")
        began = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=json.loads(log[0])[0][0])

        third, fourth = [await it.scheduler.why("d", "r", name) for name in ("t2", "t3")]

        assert third.earliest_start == fourth.earliest_start == began + timedelta(hours=1)
        (gate,) = third.in_the_way()
        assert gate.name == "pool api"
        assert gate.detail.startswith("2 of 2 starts in the last hour, its rate; the next start is at ")
        assert "1 task before it, so that it starts at " in fourth.in_the_way()[0].detail
        assert (third.rank, fourth.rank) == (1, 2)
        assert (await it.instance("t2", "r"))["reason"] == "pool 'api': no start left, its rate is 2/h"


@pytest.mark.parametrize("rate", ["5/h", None])
async def test_an_edited_rate_is_heard_of_at_once(dsn: str, clock: FakeClock, db: Database, rate: str | None) -> None:
    await make_pool(db, "1/h")
    async with running(dsn, clock, callers("d", 5)) as it:
        await it.trigger("d", "r")
        assert len(it.executor.running) == 1

        await make_pool(db, rate)

        await it.until(lambda: len(it.executor.running) == 5, "the others to start")


async def test_a_log_that_cannot_be_read_lets_nothing_start_for_a_period(
    dsn: str, clock: FakeClock, db: Database
) -> None:
    await make_pool(db, "2/h")
    await db_execute(db, """UPDATE pool SET starts = '{"a": [1, null]}' WHERE name = 'api'""")
    async with running(dsn, clock, callers("d", 1), dag("other", task("a"))) as it:
        await it.trigger("d", "r")
        await it.trigger("other", "r")
        assert [attempt.task_id for attempt in it.executor.running.values()] == ["a"]

        await let_time_pass(it, 3601)

        assert {attempt.task_id for attempt in it.executor.running.values()} == {"a", "t0"}


async def test_after_the_clock_was_set_back_everything_waits_for_one_period_at_most(
    dsn: str, clock: FakeClock, db: Database
) -> None:
    """The starts are in the database's future then."""
    await make_pool(db, "2/h")
    async with running(dsn, clock, callers("d", 3), safety_poll=1e6) as it:
        await it.trigger("d", "r")
        await let_time_pass(it, -30 * 86_400)
        await set_pool(db, "api", 99, requested_by="me")  # have it looked at
        await it.until(lambda: not it.session.cache.work.room_changed and it.session.cache.work.used_up, "a pass")
        await it.settled()
        assert len(it.executor.running) == 2

        await let_time_pass(it, 3601)

        assert len(it.executor.running) == 3


async def db_execute(db: Database, statement: str) -> None:
    await db.execute(statement)


@contextlib.asynccontextmanager
async def two_schedulers(dsn: str, *specs: DagSpec) -> AsyncIterator[tuple[Running, Running]]:
    clock = TickingClock(NEW_YEAR)
    async with running(dsn, clock, *specs) as one, running(dsn, clock, settle=False) as other:
        await one.until(lambda: len(one.session.cache.partitions) == PARTITIONS // 2, "shares")
        await other.until(lambda: len(other.session.cache.partitions) == PARTITIONS // 2, "shares")
        yield one, other


async def finish_everything(*schedulers: Running, number: int) -> None:
    """Let attempts succeed as soon as they start, until that many task instances have."""
    async with asyncio.timeout(PATIENCE):
        while (await schedulers[0].fetch("SELECT count(*) FROM task_instance WHERE state = 'success'"))[0][0] < number:
            for it in schedulers:
                for attempt in list(it.executor.running.values()):
                    it.executor.succeed(attempt)
            await asyncio.sleep(0.01)


async def test_two_schedulers_together_start_no_more_than_the_rate_allows(dsn: str, db: Database) -> None:
    await make_pool(db, "6/s")
    await note_starts(db)
    specs = [callers(dag_in(partition), 1) for partition in range(0, PARTITIONS, 4)]
    async with two_schedulers(dsn, *specs) as (one, other):
        for it in (one, other):
            for dag_id in it.session.cache.dags:
                await it.scheduler.trigger(dag_id, run_id="r")
        await finish_everything(one, other, number=len(specs))

        starts = await noted_starts(db, "api")
        assert len(starts) == len(specs)
        assert most_in(starts, 1) <= 6
        await one.assert_consistent()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_claim_whose_commit_has_an_unknown_end_counts_exactly_once(
    dsn: str, clock: FakeClock, db: Database, when: str
) -> None:
    """The commit of a pass that starts something breaks, before or after it is stored."""
    await make_pool(db, "3/h")
    with faults() as injected:
        async with running(dsn, clock, callers("d", 4)) as it:
            broken: list[int] = []

            def fail(number: int, statement: str) -> str | None:
                if "SET starts" in statement:
                    broken.append(number)
                return when if statement == "COMMIT" and len(broken) == 1 and not injected.fired else None

            injected.fail = fail  # type: ignore[assignment]
            await it.scheduler.trigger("d", run_id="r")
            await it.until(lambda: len(it.executor.running) == 3, "three to start")
            await it.settled()

            assert injected.fired == ["COMMIT"]
            (log,) = await it.fetch("SELECT starts::text FROM pool WHERE name = 'api'")
            assert sum(number for _, number in json.loads(log[0])) == 3
            assert len(it.executor.running) == 3
            await it.assert_consistent()
