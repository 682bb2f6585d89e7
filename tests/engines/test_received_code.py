"""Workers that have none of the code: they get the version of a run's bundle from the worker API."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from aiosched.bundles.places import CodePlaces
from aiosched.config import BundleSettings, Settings
from aiosched.scheduler import Scheduler
from tests.engines.agents import AgentEngine
from tests.engines.test_engine_attempts import rows, until
from tests.patience import PATIENCE
from tests.repositories import Repository, code, said


@pytest.fixture
async def far(repository: Repository, tmp_path: Path, transport: httpx2.ASGITransport) -> AsyncIterator[AgentEngine]:
    """Two workers of another machine, with folders of its own and no settings of bundles."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    engine = AgentEngine(elsewhere, transport, workers=2)
    engine._options = replace(engine._options, places=CodePlaces({"": str(elsewhere)}, {}, str(tmp_path / "received")))
    yield engine
    await engine.close()


@pytest.fixture
def repository(settings: Settings, tmp_path: Path) -> Repository:
    found = Repository(tmp_path / "repository")
    settings.dags.bundles = [BundleSettings(name="team", kind="git", url=found.url, ref="main", interval=1)]
    return found


@pytest.mark.parametrize("kind", ["def", pytest.param("async def", marks=pytest.mark.slow)])
async def test_a_run_keeps_its_code_on_workers_that_have_no_repository(
    settings: Settings, far: AgentEngine, repository: Repository, tmp_path: Path, kind: str
) -> None:
    """The commit changes in mid-run: the run ends with the old code, helper modules included, the next has the new."""
    old = repository.commit(code(tmp_path, "old", kind=kind))
    async with Scheduler(executor=far, settings=settings) as scheduler:
        await version(scheduler, old)
        first = await scheduler.trigger("shop", run_id="first")
        await until(lambda: said(tmp_path), "the first task")
        new = repository.commit(code(tmp_path, "new", kind=kind))
        await version(scheduler, new)
        (tmp_path / "go").touch()
        assert await first.wait(timeout=PATIENCE) == "success"
        second = await scheduler.trigger("shop", run_id="second")
        assert await second.wait(timeout=PATIENCE) == "success"

    assert said(tmp_path) == [
        "first old old", "second old oldold", "first new new", "second new newnew"
    ]  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "received" / "team").iterdir()) == sorted([old, new])


async def version(scheduler: Scheduler, commit: str) -> None:
    """Wait until the DAG has this version."""
    found: list[str] = []

    async def look() -> None:
        query = "SELECT v.bundle_version FROM dag JOIN dag_version AS v ON v.id = dag.version_id"
        found[:] = [row[0] for row in await rows(scheduler, query)]

    async with asyncio.timeout(PATIENCE):
        while found != [commit]:
            await look()
            await asyncio.sleep(0.02)


async def test_code_that_no_server_has_fails_the_task_with_the_reason(
    settings: Settings, far: AgentEngine, repository: Repository, tmp_path: Path
) -> None:
    settings.executor.missing_dag_retries = 0
    repository.commit(code(tmp_path, "old"))
    async with Scheduler(executor=far, settings=settings) as scheduler:
        await version(scheduler, repository.git("rev-parse", "HEAD"))
        repository.folder.rename(tmp_path / "gone")
        shutil.rmtree(settings.core.home / "bundles")
        run = await scheduler.trigger("shop", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "failed"
        (reason,) = [row[0] for row in await rows(scheduler, "SELECT reason FROM task_instance WHERE state = 'failed'")]
    assert "repository" in reason, reason
