"""Automatic retention: the setting `scheduler.retention_days`."""

from __future__ import annotations

from pathlib import Path

from aiosched.clock import FakeClock
from aiosched.executors.log_files import log_path
from tests.scheduler.harness import dag, running, task

DAY = 24 * 3600


async def test_finished_runs_are_removed_once_they_are_old_enough(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), retention_days=7.0) as it:
        await it.trigger("d", "over")
        await it.finish("a")
        await it.trigger("d", "runs")

        await it.advance(6 * DAY)
        assert await it.runs("d") == {"over": "success", "runs": "running"}
        await it.advance(2 * DAY)
        await it.until(lambda: not it.session.retention.awake.is_set())
        while "over" in await it.runs("d"):
            await it.settled()

        assert await it.runs("d") == {"runs": "running"}
        await it.assert_consistent()
        await it.finish_all()


async def test_the_logs_of_removed_runs_and_unused_versions_go_as_well(
    dsn: str, clock: FakeClock, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    async with running(dsn, clock, dag("d"), retention_days=7.0, home=tmp_path) as it:
        for run_id in ("over", "runs"):
            await it.trigger("d", run_id)
            file = log_path(logs, await it.attempt("a", run_id))
            file.parent.mkdir(parents=True)
            file.write_text("said\n")
        await it.finish("a", run_id="over")
        await it.register(dag("d", task("a", retries=1)))  # runs hold the version before
        await it.execute("UPDATE dag_version SET created_at = $1", clock.now())

        await it.advance(8 * DAY)
        while "over" in await it.runs("d"):
            await it.settled()

        assert [path.parent.parent.name for path in logs.rglob("*.log")] == ["run_id=runs"]
        await it.finish_all()
        await it.advance(8 * DAY)
        while len(await it.fetch("SELECT FROM dag_version")) > 1:
            await it.settled()
        assert list(logs.rglob("*.log")) == []


async def test_without_the_setting_everything_is_kept(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "over")
        await it.finish("a")

        await it.advance(10_000 * DAY)

        assert await it.runs("d") == {"over": "success"}
