"""Nothing that a task started lives longer than its attempt, whoever is killed. Real schedulers, real signals."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from aiosched.db.server.engine import Database
from tests.faults.campaign.fleet import Service
from tests.faults.leftover_scene import scene
from tests.patience import PATIENCE


def family(service: Service) -> dict[str, list[psutil.Process]]:
    """The processes of a scheduler with the local executor, by what they are."""
    children = psutil.Process(service.pid).children()
    guards = [each for each in children if each.name() == "aiosched-guard"]
    forkservers = [child for guard in guards for child in guard.children()]
    workers = [child for forkserver in forkservers for child in forkserver.children()]
    return {"guard": guards, "forkserver": forkservers, "worker": workers, "scheduler": [psutil.Process(service.pid)]}


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["local", "inline"])
async def test_what_tasks_started_ends_with_their_scheduler_and_never_overlaps_the_next_try(
    dsn: str, db: Database, tmp_path: Path, executor: str
) -> None:
    async with scene(dsn, tmp_path, executor) as tasks:
        first = await tasks.serve()
        begun = set(tasks.living())

        await first.kill()

        await tasks.until(lambda: not begun & set(tasks.living()), "the end of what was started", PATIENCE)
        await tasks.serve()
        assert tasks.overlaps() == []


@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(("forkserver",), id="forkserver", marks=pytest.mark.slow),
        pytest.param(("guard",), id="guard"),
        pytest.param(("worker",), id="worker", marks=pytest.mark.slow),
        pytest.param(("guard", "forkserver"), id="guard-forkserver", marks=pytest.mark.slow),
        pytest.param(("forkserver", "guard"), id="forkserver-guard", marks=pytest.mark.slow),
    ],
)
async def test_what_tasks_started_ends_with_any_process_above_it_while_the_scheduler_lives(
    dsn: str, db: Database, tmp_path: Path, victims: tuple[str, ...]
) -> None:
    async with scene(dsn, tmp_path, "local") as tasks:
        service = await tasks.serve()
        begun = set(tasks.living())
        processes = family(service)

        for victim in victims:
            for process in processes[victim]:
                process.kill()

        await tasks.until(lambda: not begun & set(tasks.living()), "the end of what was started", PATIENCE)
        if victims != ("worker",):  # what is lost is run again
            await tasks.until(lambda: {t for t, _, _ in set(tasks.living()) - begun} >= tasks.tasks, "the next tries")
        assert tasks.overlaps() == []


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["local", "inline"])
async def test_what_is_left_when_all_of_a_scheduler_is_killed_at_once_ends_before_the_next_try(
    dsn: str, db: Database, tmp_path: Path, executor: str
) -> None:
    async with scene(dsn, tmp_path, executor) as tasks:
        first = await tasks.serve()
        begun = set(tasks.living())
        members = family(first)

        for process in (p for kind in ("scheduler", "guard", "forkserver", "worker") for p in members[kind]):
            os.kill(process.pid, signal.SIGSTOP)
        for kind in ("guard", "forkserver", "worker", "scheduler"):
            for process in members[kind]:
                process.kill()
        assert first.process is not None
        await first.process.wait()

        await tasks.serve()
        assert not begun & set(tasks.living())
        assert tasks.overlaps() == []


@pytest.mark.slow
async def test_commands_of_a_host_that_hangs_end_before_others_run_them_again(
    dsn: str, db: Database, tmp_path: Path
) -> None:
    async with scene(dsn, tmp_path, "inline") as tasks:
        first = await tasks.serve(lease=2.0)
        begun = set(tasks.living())

        first.pause(whole=False)

        await tasks.until(lambda: not begun & set(tasks.living()), "the end of what was started", PATIENCE)
        await tasks.serve(lease=2.0)
        assert tasks.overlaps() == []


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["local", "inline"])
async def test_a_scheduler_that_is_told_to_end_leaves_nothing(
    dsn: str, db: Database, tmp_path: Path, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOSCHED__SCHEDULER__GRACE", "0.5")
    async with scene(dsn, tmp_path, executor) as tasks:
        service = await tasks.serve()

        assert await service.stop(60)

        assert tasks.living() == []
