"""Version 0.1.0, which does not know of engines, takes over from a scheduler that has one: it runs attempts again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aiosched.config import Settings
from aiosched.db.server.engine import Database
from tests.engines.agents import AgentEngine
from tests.engines.test_engine_attempts import calls, serving, until
from tests.faults.two_versions import Version, unpack, why_not
from tests.faults.two_versions_fleet import seen_by_released
from tests.patience import PATIENCE

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
SUCCESSES = "SELECT count(*) FROM task_instance WHERE state = 'success' AND try_number = 2"
LEFT = "SELECT (SELECT count(*) FROM engine_attempt WHERE worker IS NOT NULL) + (SELECT count(*) FROM task_report)"


class Older:
    """A scheduler of version 0.1.0 with the same DAG files, on the same database."""

    def __init__(self, db: Database, version: Version) -> None:
        self.db, self.version = db, version

    async def until(self, query: str, number: int) -> None:
        async with asyncio.timeout(PATIENCE), self.db.acquire() as conn:
            while await conn.fetchval(query) != number:
                self.version.check()
                await asyncio.sleep(0.05)


@pytest.fixture
async def older(dsn: str, tmp_path: Path) -> AsyncIterator[Older]:
    unpack(tmp_path / "released")
    (tmp_path / "records").mkdir()
    async with await Database.open(dsn, application_name="test") as db:
        version = Version("old", tmp_path / "released", tmp_path, await seen_by_released(db, dsn))
        yield Older(db, version)
        version.kill()


@pytest.mark.slow
async def test_what_has_not_begun_does_not_begin_beside_its_next_try(
    settings: Settings, engine: AgentEngine, waits: Path, older: Older
) -> None:
    engine.loses = lambda job: True
    async with serving(settings, engine) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: len(engine.sent) == 2, "the jobs")
    older.version.start()
    await until(lambda: len(calls(waits)) == 2, "the next tries")

    assert [await engine.agents[0].run(job) for job in engine.sent] == [None, None], "delivered late"

    (waits / "go").touch()
    await older.until(SUCCESSES, 2)
    assert len(calls(waits)) == 2


@pytest.mark.slow
async def test_what_runs_ends_with_the_next_heartbeat_of_its_worker(
    short_lease: None, settings: Settings, engine: AgentEngine, waits: Path, older: Older
) -> None:
    async with serving(settings, engine) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
    older.version.start()
    await until(lambda: len(calls(waits)) == 4, "the next tries")
    await until(lambda: not engine.agents[0].running, "the ends of the first tries")
    (waits / "go").touch()
    await older.until(SUCCESSES, 2)
    await older.until(LEFT, 0)
    assert len(calls(waits)) == 4
