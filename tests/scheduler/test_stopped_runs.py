"""A run that was stopped is repaired from its rows, by the command that `why` suggests for it.

Other stops and repairs: tests/testing/test_world_stopped_runs.py.
"""

from __future__ import annotations

import pytest

from aiosched.clock import FakeClock
from tests.scheduler.harness import Running, dag, running, task

SPEC = dag("d", task("bad"), task("slow"), task("work", after="slow"), task("last", after="work"), fail_fast=True)


async def stopped(it: Running) -> None:
    """`slow` had succeeded when `bad` failed; the run is over, and read from its rows from now on."""
    await it.trigger("d", "r")
    bad, slow = await it.attempt("bad"), await it.attempt("slow")
    it.executor.succeed(slow)
    await it.attempt("work")
    it.executor.fail(bad)
    await it.settled()
    assert await it.runs("d") == {"r": "failed"}
    await it.leave_and_come_back()


async def test_the_command_that_is_suggested_does_all_work_that_was_left(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, SPEC) as it:
        await stopped(it)

        assert "aiosched runs clear d r --only-failed" in (await it.scheduler.why("d", "r")).commands
        await it.ask("clear", "d", run_ids=["r"], only_failed=True)
        await it.finish("bad", "work", "last")
        await it.settled()

        assert await it.runs("d") == {"r": "success"}
        assert set((await it.states("r")).values()) == {"success"}
        assert (await it.instance("slow", "r"))["try_number"] == 1


@pytest.mark.parametrize("from_rows", [False, True])
async def test_a_skip_of_the_dag_is_no_work_that_was_left(dsn: str, clock: FakeClock, from_rows: bool) -> None:
    spec = dag("d", task("choose"), task("left", after="choose"), task("bad"), task("z", after="bad"), fail_fast=True)
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        choose, bad = await it.attempt("choose"), await it.attempt("bad")
        it.executor.skip(choose)
        await it.settled()
        it.executor.fail(bad)
        await it.settled()
        if from_rows:
            await it.leave_and_come_back()

        await it.ask("clear", "d", run_ids=["r"], only_failed=True)
        await it.finish("bad", "z")
        await it.settled()

        assert await it.states("r") == {"choose": "skipped", "left": "skipped", "bad": "success", "z": "success"}
        assert await it.runs("d") == {"r": "success"}
