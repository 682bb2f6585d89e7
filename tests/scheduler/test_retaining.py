"""Automatic retention: the setting `scheduler.retention_days`."""

from __future__ import annotations

from aiosched.clock import FakeClock
from tests.scheduler.harness import dag, running

DAY = 24 * 3600


async def test_finished_runs_are_removed_once_they_are_old_enough(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), retention_days=7.0) as it:
        await it.trigger("d", "over")
        await it.finish("a")
        await it.trigger("d", "runs")

        await it.advance(6 * DAY)
        assert await it.runs("d") == {"over": "success", "runs": "running"}
        await it.advance(2 * DAY)
        await it.until(lambda: not it.session.retention.news.is_set())
        while "over" in await it.runs("d"):
            await it.settled()

        assert await it.runs("d") == {"runs": "running"}
        await it.assert_consistent()
        await it.finish_all()


async def test_without_the_setting_everything_is_kept(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "over")
        await it.finish("a")

        await it.advance(10_000 * DAY)

        assert await it.runs("d") == {"over": "success"}
