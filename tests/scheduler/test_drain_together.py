"""Schedulers that stop together: none gives its partitions to another one that is about to stop, too."""

from __future__ import annotations

import asyncio

from aiosched.clock import FakeClock
from aiosched.core.values.ids import partition_of
from tests.patience import PATIENCE
from tests.scheduler.harness import chain, running
from tests.scheduler.test_handover import owned, shared_out


async def test_schedulers_that_drain_together_keep_their_partitions_and_store_how_their_tasks_end(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, chain("d", 1)) as first, running(dsn, clock, settle=False) as second:
        await shared_out(first, second)
        owner = first if partition_of("d") in owned(first) else second
        await owner.trigger("d", "r")
        attempt = await owner.attempt("t0")
        shares = owned(first), owned(second)

        for it in (first, second):
            await it.scheduler.announce_drain()
            it.scheduler.look_at_fleet()  # nobody may leave yet
        draining = [asyncio.create_task(it.scheduler.drain(grace=PATIENCE)) for it in (first, second)]
        owner.executor.succeed(attempt)

        assert await asyncio.gather(*draining) == [True, True]
        assert (owned(first), owned(second)) == shares
        assert await owner.fetch("SELECT state FROM task_instance") == [("success",)]


async def test_one_that_has_announced_its_end_claims_nothing_after_its_session_began_anew(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, chain("d", 1)) as it:
        await it.scheduler.announce_drain()
        recoveries = it.scheduler.metrics.recoveries
        await it.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'aiosched notifications'"
        )
        await it.until(lambda: it.scheduler.metrics.recoveries > recoveries, "a new session")

        await it.trigger("d", "r")
        await it.settled()

        assert it.executor.submitted == []
