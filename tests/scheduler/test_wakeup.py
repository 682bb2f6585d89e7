"""How loops rest and wake."""

from __future__ import annotations

import asyncio

from aiosched.clock import FakeClock
from aiosched.scheduler.state.wakeup import Wakeup, run_loop
from tests.scheduler.harness import dag, running


async def test_the_end_of_a_rest_wakes_a_loop_and_is_no_news() -> None:
    wakeup = Wakeup()

    await wakeup.rest(0)

    assert wakeup.awake.is_set()
    assert not wakeup.is_set


async def test_news_that_arrives_during_a_pass_causes_another_one() -> None:
    wakeup, passes = Wakeup(), 0

    async def step() -> None:
        nonlocal passes
        passes += 1
        if passes == 1:
            wakeup.wake()
        else:
            wakeup.stop()

    async with asyncio.timeout(10):
        await run_loop(step, wakeup)

    assert passes == 2


async def test_a_scheduler_whose_clock_stands_just_before_a_timer_has_nothing_to_do(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        it.executor.defer(await it.attempt("a"), timeout=60.0)
        await it.settled()
        await it.advance(60)  # the timeout counts from the next microsecond on

        for _ in range(50):  # at the instant when its loop wakes and looks at the clock
            await it.session.wakeups.evaluation.awake.wait()
            assert it.busy_with() == ""
            await asyncio.sleep(0)
