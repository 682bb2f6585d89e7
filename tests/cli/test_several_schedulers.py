"""`serve --schedulers N`: several schedulers, one parser; one that dies is started again; they stop together."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from aiosched.cli.serve.peers import Peers, PeerScheduler, SchedulerGroup, number_of_schedulers, settings_of_each
from aiosched.config import Settings
from aiosched.config.sections import ExecutorSettings, SchedulerSettings
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.serving import serve, stop, wait_for
from tests.patience import PATIENCE

DAGS = """
import asyncio
from datetime import UTC, datetime
from pathlib import Path
from aiosched import DAG, task

for number in range(12):
    with DAG(f"dag_{number}", schedule="@once", start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        @task
        async def work():
            return 1
        work()

for number in range(12):
    with DAG(f"slow_{number}"):
        @task
        async def wait():
            while not Path("go").exists():
                await asyncio.sleep(0.05)
        wait()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "all.py").write_text(DAGS)
    return tmp_path


def children(process: subprocess.Popen[str]) -> list[int]:
    """The process ids of the other schedulers."""
    found = []
    for child in psutil.Process(process.pid).children():
        with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            if "aiosched.cli.serve.peer_process" in child.cmdline():
                found.append(child.pid)
    return found


def owners(cli: Cli) -> dict[str, int]:
    """The partitions of each living scheduler."""
    rows: list[dict[str, Any]] = cli.json("schedulers", "list")
    return {row["name"]: row["partitions"] for row in rows if row["alive"]}


def have_all_run_slow_tasks(cli: Cli, process: subprocess.Popen[str], *, schedulers: int) -> None:
    """Wait until so many schedulers share the partitions and all DAGs are stored; start the slow ones."""
    while len(shares := owners(cli)) < schedulers or 0 in shares.values() or len(cli.json("dags", "list")) < 24:
        assert process.poll() is None
    for number in range(12):
        cli("dags", "trigger", f"slow_{number}", "--run-id", "r")
    while len(cli.json("tasks", "instances", "--state", "running")) < 12:
        assert process.poll() is None


def read_until(process: subprocess.Popen[str], wanted: str) -> list[dict[str, Any]]:
    """The objects on stdout up to the one that contains a text."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if wanted in line:
            return seen
    raise AssertionError(f"serve ended before {wanted}")


def test_auto_is_one_scheduler_for_every_two_cores_and_slots_are_shared() -> None:
    assert [number_of_schedulers("auto", cores) for cores in (1, 2, 3, 8, 64)] == [1, 1, 1, 4, 8]
    assert number_of_schedulers("3", 1) == 3
    settings = Settings(executor=ExecutorSettings(slots=10))
    assert [settings_of_each(settings, number).executor.slots for number in (1, 3, 20)] == [10, 4, 1]


@pytest.mark.slow  # three schedulers
def test_all_take_part_and_one_parser_reads_the_files(folder: Path, dsn: str, on_db: Cli) -> None:
    """The banner may come before the parser knows whose the file is, and so before it has read it."""
    with serve(folder, dsn, "--schedulers", "3", "--name", "n", "--until-idle") as process:
        facts = {told["event"]: told for told in read_until(process, '"ready"')}
        said, log = process.communicate(timeout=120)

    assert process.returncode == 0, log
    assert len(on_db.json("dags", "list")) == 24
    assert "in each of 3 schedulers" in facts["executor"]["text"]
    ended = [told for told in map(json.loads, said.splitlines()) if told["event"] == "run_finished"]
    assert sorted((told["dag_id"], told["state"]) for told in ended) == sorted(
        (f"dag_{number}", "success") for number in range(12)
    )


def test_one_that_dies_is_started_again_and_all_drain_together(folder: Path, dsn: str, on_db: Cli) -> None:
    cli = Cli(dsn, folder / "home")
    with serve(folder, dsn, "--schedulers", "2", "--name", "n", "--grace", "60") as process:
        wait_for(process, "ready")
        (first,) = children(process)
        os.kill(first, signal.SIGKILL)
        while not (again := children(process)) or again == [first] or len(owners(cli)) < 2 or 0 in owners(cli).values():
            assert process.poll() is None
        for number in range(12):
            cli("dags", "trigger", f"slow_{number}", "--run-id", "r")
        while len(cli.json("tasks", "instances", "--state", "running")) < 12:
            assert process.poll() is None

        process.send_signal(signal.SIGTERM)
        while not all(row["draining"] for row in cli.json("schedulers", "list") if row["alive"]):
            assert process.poll() is None
        (folder / "go").touch()
        _, log = process.communicate(timeout=60)

    assert process.returncode == 0
    assert "scheduler n-2 ended (exit code -9); starting it again in 1 s" in log
    assert not psutil.pid_exists(again[0])
    assert {run["state"] for run in cli.json("runs", "list", "--type", "manual")} <= {"success", "running"}
    assert {one["state"] for one in cli.json("tasks", "instances", "--task", "wait")} == {"success"}


class Ours:
    """The scheduler of this process, with nothing to wait for."""

    async def announce_drain(self) -> None: ...

    async def drain(self, grace: float) -> bool:
        return True


@pytest.mark.parametrize("announces", [False, True], ids=["at once", "later"])
async def test_one_that_does_not_answer_holds_nobody_up_beyond_the_grace(
    announces: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(scheduler=SchedulerSettings(lease=0.2))
    peer = PeerScheduler(settings, "postgresql://x", "vm-2", cast("Any", None))
    monkeypatch.setattr(peer, "_tell", lambda message: True)  # it gets our messages, and stands still
    if announces:
        peer._has_announced.set()

    async with asyncio.timeout(PATIENCE):
        assert await SchedulerGroup(cast("Any", Ours()), [peer]).drain(0.3) == [True, False]

    seconds = peer._answer_seconds + (0.3 if announces else 0.0)
    assert [record.getMessage() for record in caplog.records] == [
        f"scheduler vm-2 has not answered for {seconds:.0f} s: it is killed, and its tasks run again"
    ]


@pytest.mark.slow  # four schedulers and a lease
def test_one_that_stands_still_is_killed_and_a_scheduler_elsewhere_takes_over_everything(
    folder: Path, dsn: str, on_db: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOSCHED__SCHEDULER__LEASE", "3")
    cli = Cli(dsn, folder / "home")
    with (
        serve(folder, dsn, "--schedulers", "3", "--name", "n", "--grace", "60") as process,
        serve(folder, dsn, "--name", "other", "--grace", "0") as other,
    ):
        wait_for(process, "ready")
        wait_for(other, "ready")
        have_all_run_slow_tasks(cli, process, schedulers=4)

        os.kill(children(process)[0], signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        while owners(cli).get("other") != 64:  # while our tasks still run, unless we lost a lease of 3 s with them
            assert other.poll() is None
        (folder / "go").touch()
        _, log = process.communicate(timeout=60)
        while cli.json("runs", "list", "--type", "manual", "--state", "running"):
            assert other.poll() is None

    assert process.returncode == 0
    assert "has not answered for 3 s: it is killed, and its tasks run again" in log
    assert {run["state"] for run in cli.json("runs", "list", "--type", "manual")} == {"success"}


@pytest.mark.slow
def test_the_others_keep_their_partitions_when_nobody_elsewhere_takes_them(
    folder: Path, dsn: str, on_db: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOSCHED__SCHEDULER__LEASE", "30")  # it is killed long before that ends
    cli = Cli(dsn, folder / "home")

    async def dags_of_ours(db: Database) -> set[str]:
        rows = await db.fetch(
            "SELECT dag_id FROM dag JOIN partition_lease USING (partition) JOIN scheduler USING (incarnation)"
            " WHERE name = 'n' AND dag_id LIKE 'slow%'"
        )
        return {row["dag_id"] for row in rows}

    with serve(folder, dsn, "--schedulers", "2", "--name", "n", "--grace", "60") as process:
        wait_for(process, "ready")
        have_all_run_slow_tasks(cli, process, schedulers=2)
        os.kill(children(process)[0], signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        while list(owners(cli)) != ["n"]:
            assert process.poll() is None
        ours = cli.work(dags_of_ours)  # not before: busy partitions may still have been on their way to the other one
        assert ours
        (folder / "go").touch()
        _, log = process.communicate(timeout=60)

    assert process.returncode == 0, log
    ended = {run["dag_id"] for run in cli.json("runs", "list", "--type", "manual", "--state", "success")}
    assert ended == ours, "they stored how their tasks ended"


@pytest.mark.slow
def test_none_outlives_the_process_that_started_it(folder: Path, dsn: str) -> None:
    with serve(folder, dsn, "--schedulers", "2") as process:
        wait_for(process, "ready")
        (peer,) = children(process)
        process.kill()

        psutil.Process(peer).wait(timeout=60)

    with serve(folder, dsn, "--schedulers", "2") as process:
        wait_for(process, "ready")
        stop(process)
        assert process.returncode == 0


async def test_one_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = asyncio.Event()

    async def refuse(*_: object, **__: object) -> None:
        if caplog.records:
            tried.set()
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("asyncio.create_subprocess_exec", refuse)
    monkeypatch.setattr("aiosched.cli.serve.peers.AGAIN", (0.0, 0.0))
    peers = Peers(Settings(), "postgresql://nowhere/x", 1, show=lambda _: None, on_partitions=lambda: None)
    peers.start()
    try:
        async with asyncio.timeout(PATIENCE):
            await tried.wait()
    finally:
        await peers.stop()

    assert "Cannot allocate memory); starting it again" in caplog.text
