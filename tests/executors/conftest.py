"""Fixtures for executors: folders, reports, and a check that no process is left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from aiosched.executors.local.executor import LocalExecutor
from aiosched.executors.local.forkserver_client import ForkserverClient
from aiosched.executors.local.options import LocalOptions
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal
from tests.executors.kept_forkservers import KeptForkservers
from tests.executors.warm_files import Files


@pytest.fixture
def dags_folder(tmp_path: Path) -> Path:
    return tmp_path / "dags"


@pytest.fixture
def logs_folder(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def services() -> FakeServices:
    return FakeServices()


@pytest.fixture
async def reports() -> Reports:
    return Reports()


@pytest.fixture(scope="module")
def no_process_left() -> Iterator[None]:
    """What was there before may start others meanwhile: brokers of the session do."""
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    yield
    new = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    assert not [process for process in new if before.isdisjoint(_ancestors(process))]


def _ancestors(process: psutil.Process) -> set[int]:
    try:
        return {parent.pid for parent in process.parents()}
    except psutil.NoSuchProcess:
        return set()


@pytest.fixture(scope="module")
def forkservers(no_process_left: None) -> Iterator[Callable[..., ForkserverClient]]:
    """Makes the forkservers of the module's executors: one for all of them. Where its end is tested: one for each."""
    kept = KeptForkservers()
    yield kept
    kept.end()


@pytest.fixture
async def start_local(
    forkservers: Callable[..., ForkserverClient],
    dags_folder: Path,
    logs_folder: Path,
    services: FakeServices,
    reports: Reports,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[StartLocal]:
    monkeypatch.setattr("aiosched.executors.local.forkservers.ForkserverClient", forkservers)
    started: list[LocalExecutor] = []

    async def start(**options: Any) -> LocalExecutor:
        defaults = {"slots": 2, "kill_after": 0.3, "cleanup_time": 0.2}
        executor = LocalExecutor(
            LocalOptions(dags_folder=dags_folder, logs_folder=logs_folder, **{**defaults, **options})
        )
        await executor.start(reports, services)
        started.append(executor)
        return executor

    yield start
    for executor in started:
        await executor.stop(0)


@pytest.fixture
def files(dags_folder: Path, tmp_path: Path) -> Files:
    return Files(dags_folder, tmp_path / "imports")
