"""Automatic retention: the settings `scheduler.retention_days` and `logs.retention_days`."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.config import Settings
from aiosched.core.values.messages import Outcome
from aiosched.db.upkeep.retention import NotRemoved, Removed, clean
from aiosched.errors import RemoteStorageError
from aiosched.remote.log_files import log_path
from aiosched.remote.logs import AttemptLogs
from aiosched.scheduler.failures.remembered import Unremovable
from aiosched.scheduler.loops import retention
from tests.scheduler.harness import dag, running, task

DAY = 24 * 3600


async def test_finished_runs_are_removed_once_they_are_old_enough(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), retention_days=7.0, retention=True) as it:
        await it.trigger("d", "over")
        await it.finish("a")
        await it.trigger("d", "runs")

        await it.advance(6 * DAY)
        assert await it.runs("d") == {"over": "success", "runs": "running"}
        await it.advance(2 * DAY)
        await it.until(lambda: not it.session.wakeups.retention.awake.is_set())
        while "over" in await it.runs("d"):
            await it.settled()

        assert await it.runs("d") == {"runs": "running"}
        await it.assert_consistent()
        await it.finish_all()


async def test_the_logs_of_removed_runs_and_unused_versions_go_as_well(
    dsn: str, clock: FakeClock, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    async with running(dsn, clock, dag("d"), retention_days=7.0, home=tmp_path, retention=True) as it:
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


@pytest.mark.parametrize(
    ("runs", "took", "pause"),
    [(0, 1.0, 3600.0), (3, 1.0, 60.0), (1_000, 0.4, 1.2), (1_000, 30.0, 5.0)],
)
async def test_removing_keeps_up_and_takes_its_share_of_the_time(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, runs: int, took: float, pause: float
) -> None:
    async def removing(*_: Any, **__: Any) -> Removed:
        clock.advance(took)
        return Removed(runs=runs)

    async with running(dsn, clock, dag("d"), retention_days=7.0, retention=True) as it:
        monkeypatch.setattr(retention, "clean", removing)

        assert await retention.retain(it.session) == pytest.approx(pause)


async def test_without_the_setting_everything_is_kept(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), retention=True) as it:
        await it.trigger("d", "over")
        await it.finish("a")

        await it.advance(10_000 * DAY)

        assert await it.runs("d") == {"over": "success"}


@pytest.mark.parametrize(("keep", "kept"), [(0, ["r1", "r2", "r3"]), (2, ["r2", "r3"])], ids=["all", "two"])
async def test_rendered_fields_are_kept_of_the_newest_runs(
    dsn: str, clock: FakeClock, keep: int, kept: list[str]
) -> None:
    async with running(dsn, clock, dag("d"), num_dag_runs_to_retain_rendered_fields=keep, retention=True) as it:
        for run_id in ("r1", "r2", "r3"):
            await it.trigger("d", run_id)
            it.executor.report(await it.attempt("a"), Outcome.SUCCESS, rendered='{"field": 1}')
            await it.settled()

        pauses = [await retention.retain(it.session) for _ in range(2)]

        assert pauses == [retention.PAUSE if keep else retention.REST, retention.REST]
        stored = await it.fetch(
            "SELECT r.run_id FROM rendered_fields JOIN dag_run AS r ON r.id = rendered_fields.run_id ORDER BY 1"
        )
        assert [run_id for (run_id,) in stored] == kept


async def test_logs_of_runs_that_are_over_go_after_thirty_days_and_their_history_stays(
    dsn: str, clock: FakeClock, tmp_path: Path
) -> None:
    logs, month_ago = tmp_path / "logs", time.time() - 31 * DAY
    async with running(dsn, clock, dag("d"), home=tmp_path, retention=True) as it:
        for run_id in ("over", "recent", "runs"):
            await it.trigger("d", run_id)
            file = log_path(logs, await it.attempt("a", run_id))
            file.parent.mkdir(parents=True)
            file.write_text("said\n")
            for path in (file, file.parent, file.parent.parent) if run_id != "recent" else ():
                os.utime(path, (month_ago, month_ago))
            if run_id != "runs":
                await it.finish("a", run_id=run_id)
        gone = logs / "dag_id=gone" / "run_id=r"
        gone.mkdir(parents=True)
        os.utime(gone, (month_ago, month_ago))

        it.scheduler.settings.logs.retention_days = Settings().logs.retention_days
        it.session.wakeups.retention.wake()
        await it.until(lambda: not gone.exists(), "the logs of the run that is gone to be removed")
        await it.until(lambda: not gone.parent.exists(), "the folder of its DAG to be removed")

        assert sorted(path.parent.parent.name for path in logs.rglob("*.log")) == ["run_id=recent", "run_id=runs"]
        assert await it.runs("d") == {"over": "success", "recent": "success", "runs": "running"}


async def test_a_run_that_cannot_be_removed_is_named_once_and_tried_again_after_growing_pauses(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour, done = 3600.0, set[datetime]()

    async def counting(*args: Any, **options: Any) -> Removed:
        removed = await clean(*args, **options)
        done.add(args[1])
        return removed

    def named() -> list[str]:
        return [text for text in caplog.messages if "cannot be removed" in text]

    async def passes(seconds: float) -> None:
        clock.advance(seconds)
        it.scheduler.wake_loops()
        await it.until(lambda: clock.now() - timedelta(days=7) in done, "the pass")
        await it.settled()

    monkeypatch.setattr(retention, "clean", counting)
    async with running(dsn, clock, dag("d"), retention_days=7.0, retention=True) as it:
        for run_id in ("kept", "over"):
            await it.trigger("d", run_id)
        await it.finish_all()
        await it.execute("CREATE TABLE audit (run bigint REFERENCES dag_run (id))")
        await it.execute("INSERT INTO audit SELECT id FROM dag_run WHERE run_id = 'kept'")

        await passes(8 * DAY)

        assert await it.runs("d") == {"kept": "success"}
        assert len(named()) == 1
        assert "run 'kept' of DAG 'd' (ForeignKeyViolationError: " in named()[0]
        (text,) = it.scheduler.figures()["not_removed"]
        assert text.startswith("run 'kept' of DAG 'd' (")

        for _ in range(3):  # tried after one hour and after two more
            await passes(hour + 1)
        assert (len(named()), it.scheduler.metrics.not_removed) == (1, 1)
        await it.execute("DROP TABLE audit")
        await passes(10.0)
        assert await it.runs("d") == {"kept": "success"}  # its pause is not over

        await passes(4 * hour)
        assert await it.runs("d") == {}
        assert it.scheduler.figures()["not_removed"] == []


def test_the_pause_of_what_cannot_be_removed_doubles_up_to_a_week() -> None:
    kept, pauses, now = Unremovable(), list[float](), 0.0
    for number in range(10):
        assert kept.left_out(now) == []
        new = kept.settle([NotRemoved(7, "run 'r'", ValueError("no"))], now)
        assert len(new) == (number == 0)
        step = next(pause for pause in range(3600, 10**6, 3600) if not kept.left_out(now + pause))
        pauses.append(step / 3600)
        now += step

    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 168, 168]
    assert kept.texts() == ["run 'r' (ValueError: no)"]
    assert kept.settle([], now) == []
    assert kept.texts() == []


# -- logs in remote storage


def store_log(store: Path, run_id: str, *, days_old: float) -> Path:
    """A file in a store, as if it had been uploaded so many days ago."""
    file = store / "dag_id=d" / f"run_id={run_id}" / "task_id=a" / "attempt=1.x.log"
    file.parent.mkdir(parents=True)
    file.write_text("said\n")
    written = time.time() - days_old * DAY
    os.utime(file, (written, written))
    return file


async def test_removed_runs_lose_their_logs_in_remote_storage_and_stay_while_it_is_down(
    dsn: str,
    clock: FakeClock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: AttemptLogs, folder: str) -> int:
        raise RemoteStorageError("the store is down")

    store = tmp_path / "store"
    async with running(dsn, clock, dag("d"), retention_days=7.0, home=tmp_path, retention=True) as it:
        for run_id in ("over", "runs"):
            await it.trigger("d", run_id)
            store_log(store, run_id, days_old=0)
        await it.finish("a", run_id="over")
        it.scheduler.settings.logs.remote = f"file://{store}"
        with monkeypatch.context() as down:
            down.setattr(AttemptLogs, "remove", fail)
            await it.advance(8 * DAY)
            await it.until(lambda: "cannot be removed" in caplog.text)
        assert "over" in await it.runs("d")
        assert "the store is down" in caplog.text

        await it.advance(DAY)
        while "over" in await it.runs("d"):
            await it.settled()

        assert [path.name for path in (store / "dag_id=d").iterdir()] == ["run_id=runs"]
        await it.finish_all()


async def test_old_logs_in_remote_storage_are_removed_once_a_day_but_those_of_unfinished_runs(
    dsn: str, clock: FakeClock, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    async with running(dsn, clock, dag("d"), home=tmp_path, retention=True) as it:
        await it.trigger("d", "runs")
        files = {
            run_id: store_log(store, run_id, days_old=days)
            for run_id, days in {"gone": 40, "runs": 40, "recent": 1}.items()
        }
        it.scheduler.settings.logs.remote = f"file://{store}"
        it.scheduler.settings.logs.retention_days = 30.0

        it.session.wakeups.retention.wake()
        await it.until(lambda: not files["gone"].exists(), "the old log to be removed")
        await it.until(lambda: it.session.env.unremovable.logs_looked_at is not None, "the end of the pass")
        assert files["runs"].exists()
        assert files["recent"].exists()

        again = store_log(store, "another", days_old=40)
        await it.advance(3600)
        await it.settled()
        assert again.exists()
        await it.advance(DAY)
        await it.until(lambda: not again.exists(), "the pass of the next day")
        await it.finish_all()


async def test_sources_of_modules_that_no_version_names_go_once_a_day(dsn: str, clock: FakeClock) -> None:
    async def left() -> int:
        return int(await it.db.fetchval("SELECT count(*) FROM module_source"))

    insert = "INSERT INTO module_source (digest, source, needed_at) VALUES ($1, '', now() - interval '2 days')"
    async with running(dsn, clock, dag("d"), retention=True) as it:
        it.session.env.unremovable.modules_looked_at = None
        await it.execute(insert, "one")
        await retention.retain(it.session)
        assert await left() == 0

        await it.execute(insert, "two")
        await retention.retain(it.session)
        assert await left() == 1  # it reads the names of all versions

        await it.advance(DAY)
        await retention.retain(it.session)
        assert await left() == 0
