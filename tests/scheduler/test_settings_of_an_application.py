"""`Scheduler()` in an application: arguments, then the environment, then the file, then defaults."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from aiosched import dag, task
from aiosched.config import Settings
from aiosched.errors import ConfigError, DatabaseUnreachable
from aiosched.scheduler.run_handle import RunHandle
from aiosched.scheduler.service import Scheduler
from tests.executors.attempt_builders import write_dag
from tests.patience import PATIENCE

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
FILE = f"[database]\ndsn = '{NOWHERE}'\n[executor]\nkind = 'local'\nslots = 3\n[scheduler]\nname = 'of the file'\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_the_database_of_the_environment_is_used_or_said_to_be_away(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOSCHED_DSN", NOWHERE)

    with pytest.raises(DatabaseUnreachable, match=r"127\.0\.0\.1:1"):
        await Scheduler(parse=False).start()

    assert await asyncio.to_thread(os.listdir, folder) == []


def test_the_environment_wins_over_the_file_and_arguments_over_both(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "aiosched.toml").write_text(FILE)
    monkeypatch.setenv("AIOSCHED__EXECUTOR__SLOTS", "5")
    monkeypatch.setenv("AIOSCHED_HOME", str(folder / "home"))

    of_both, argued = Scheduler(), Scheduler(dsn="postgresql://other/x", name="argued", executor="inline")

    assert (of_both.settings.database.dsn, of_both.settings.scheduler.name) == (NOWHERE, "of the file")
    assert (of_both.executor.name, of_both.executor.slots) == ("local", 5)
    assert of_both.settings.core.home == folder / "home"
    assert (argued.settings.database.dsn, argued.settings.scheduler.name) == ("postgresql://other/x", "argued")
    assert argued.executor.name == "inline"


def test_a_folder_as_an_argument_takes_the_place_of_the_bundles_of_the_file(folder: Path) -> None:
    (folder / "aiosched.toml").write_text("[[dags.bundles]]\nname = 'main'\nkind = 'folder'\npath = 'flows'\n")

    assert [bundle.name for bundle in Scheduler().settings.dags.bundles] == ["main"]
    assert Scheduler(dags_folder=folder).settings.dags.bundles == []


def test_settings_that_are_given_are_all_there_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "aiosched.toml").write_text(FILE)
    monkeypatch.setenv("AIOSCHED__EXECUTOR__SLOTS", "5")

    scheduler = Scheduler(settings=Settings())

    assert scheduler.settings == Settings()
    assert scheduler.executor.name == "inline"


@pytest.mark.parametrize("kind", ["variable", "file", "pyproject"])
def test_what_is_wrong_in_them_is_said_before_anything_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    match kind:
        case "variable":
            monkeypatch.setenv("AIOSCHED__CORE__PARALELISM", "5")
        case "file":
            (folder / "aiosched.toml").write_text("[core]\nparalelism = 5\n")
        case _:
            (folder / "pyproject.toml").write_text("[tool.aiosched.core]\nparalelism = 5\n")

    with pytest.raises(ConfigError, match=r"(?i)parallelism"):
        Scheduler()


async def test_what_the_database_is_is_logged(
    dsn: str, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "dags").mkdir()
    write_dag(folder / "dags", "pass")
    monkeypatch.setenv("AIOSCHED_DSN", dsn)
    with caplog.at_level(logging.INFO, "aiosched.scheduler.service"):
        async with Scheduler():
            pass

    assert [line for line in caplog.messages if line.startswith("the database is PostgreSQL ")]


@pytest.mark.parametrize(
    ("variable", "argument", "grace"),
    [(None, None, 5.0), ("7", None, 7.0), ("7", 0.0, 0.0), (None, 90, 90)],
    ids=["default", "environment", "argument-over-environment", "argument"],
)
async def test_leaving_waits_for_running_tasks_as_long_as_was_said(
    dsn: str, monkeypatch: pytest.MonkeyPatch, variable: str | None, argument: float | None, grace: float
) -> None:
    if variable is not None:
        monkeypatch.setenv("AIOSCHED__SCHEDULER__GRACE", variable)
    asked: list[float] = []
    drain = Scheduler.drain

    async def recorded(self: Scheduler, seconds: float) -> bool:
        asked.append(seconds)
        return await drain(self, seconds)

    monkeypatch.setattr(Scheduler, "drain", recorded)

    async with Scheduler(dsn=dsn, parse=False, grace=argument):
        pass

    assert asked[0] == grace


@pytest.mark.parametrize(("grace", "times"), [(PATIENCE, 1), (0.0, 2)], ids=["long", "none"])
async def test_what_runs_on_after_the_grace_is_ended_and_runs_again(dsn: str, grace: float, times: int) -> None:
    started: list[str] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    @dag(schedule=None)
    def waits() -> None:
        @task
        async def wait() -> str:
            started.append("wait")
            begun.set()
            await go_on.wait()
            return "waited"

        wait()

    async with Scheduler(dsn=dsn, dags=[waits()], grace=grace) as scheduler:
        run = await scheduler.trigger("waits")
        await begun.wait()
        asyncio.get_running_loop().call_later(0.05 if grace else PATIENCE, go_on.set)
    go_on.set()
    async with Scheduler(dsn=dsn, dags=[waits()]) as scheduler:
        assert await RunHandle(scheduler, run.dag_id, run.run_id, run.key).result() == "waited"

    assert len(started) == times
