"""A DAG in quarantine, and two schedulers of which one is slow."""

from __future__ import annotations

from aiosched.clock import FakeClock
from aiosched.core.run.board import Board
from aiosched.core.values.ids import PARTITIONS
from aiosched.db.statements import quarantine
from tests.one_dag import broken
from tests.scheduler.harness import Running, chain, running


async def left_alone(it: Running) -> list[str]:
    return [row["dag_id"] for row in await it.fetch("SELECT dag_id FROM dag_quarantine WHERE tried_at IS NULL")]


async def test_a_scheduler_that_was_slow_does_not_end_the_pause_of_a_later_failure(dsn: str, clock: FakeClock) -> None:
    """Simulated seed 3580: it read the row, was frozen, and another scheduler had tried the DAG meanwhile."""
    async with running(dsn, clock, chain("bad", 2)) as it:
        await it.trigger("bad", "r")
        with broken(Board, "evaluate"):
            it.executor.succeed(await it.attempt("t0", dag_id="bad"))
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
        async with it.db.acquire() as conn:
            rows = await quarantine.load(conn, range(PARTITIONS))
            await conn.execute("UPDATE dag_quarantine SET failures = failures + 1")

            await quarantine.take_up(conn, rows, clock.now())
            assert await left_alone(it) == ["bad"]

            await quarantine.take_up(conn, await quarantine.load(conn, range(PARTITIONS)), clock.now())
            assert await left_alone(it) == []
