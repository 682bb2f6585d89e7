"""Memory equals rows: a sweep compares them, and what differs is counted and read again."""

from __future__ import annotations

from aiosched.clock import FakeClock
from tests.scheduler.harness import chain, running


async def test_runs_under_way_do_not_differ_from_their_rows(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 3)) as it:
        for number in range(5):
            await it.trigger("d", f"r{number}")
        await it.attempt("t0", "r0")
        await it.finish("t0", run_id="r1")

        for _ in range(3):
            await it.advance(11)

        assert it.scheduler.metrics.differences == 0
        assert it.scheduler.metrics.recoveries == 0


async def test_a_row_that_somebody_else_changed_is_noticed_and_everything_is_read_again(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        await it.attempt("t0")
        await it.settled()

        await it.execute("UPDATE task_instance SET state = 'skipped' WHERE task_index = 1")
        await it.advance(11)
        await it.until(lambda: it.scheduler.metrics.recoveries == 1, "another reading")

        assert it.scheduler.metrics.differences == 1
        await it.finish("t0")
        await it.until(lambda: not it.session.cache.boards, "the end of the run")
        assert await it.runs("d") == {"r": "success"}
