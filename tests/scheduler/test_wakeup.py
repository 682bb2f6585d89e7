"""How loops rest and wake."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.scheduler.concurrency import wakeup as wakeup_module
from aiosched.scheduler.concurrency.wakeup import Timers, Wakeup, run_loop
from tests.patience import PATIENCE
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

    async with asyncio.timeout(PATIENCE):
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


def test_timers_that_nobody_wants_any_more_are_removed_when_there_are_many() -> None:
    timers, noon = Timers[int](), datetime(2026, 1, 1, 12, tzinfo=UTC)
    for number in range(10_000):
        timers.add(noon + timedelta(days=1, seconds=number), number)
        timers.prune(lambda number: number % 1000 == 0)

    assert len(timers) < 1500
    assert [number for number in timers.due(noon + timedelta(days=2)) if number % 1000 == 0] == [
        *range(0, 10_000, 1000)
    ]
    timers.add(noon, 0)  # what was removed can be added again
    assert timers.due(noon) == [0]


async def test_the_timeouts_of_runs_that_have_ended_are_not_kept(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeup_module, "FEW", 8)
    async with running(dsn, clock, dag("d", dagrun_timeout=86_400.0)) as it:
        for number in range(40):
            await it.trigger("d", f"r{number}")
            await it.finish("a", run_id=f"r{number}")
            await it.settled()

        assert len(it.session.cache.timers) <= 10
