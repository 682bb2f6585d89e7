"""Workers whose way to the worker API is cut, or whose answers get lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from aiosched.config import Settings
from aiosched.executors.engines import agent, api_client
from tests.engines.agents import AgentEngine
from tests.engines.test_engine_attempts import LEFT, TRIES, calls, rows, serving, until
from tests.patience import PATIENCE


class Broken(httpx2.AsyncBaseTransport):
    """Reaches the worker API when it is not broken; `answers_get_lost`: requests arrive, their answers do not."""

    def __init__(self, behind: httpx2.ASGITransport) -> None:
        self.behind, self.is_broken, self.answers_get_lost = behind, False, 0
        self.refused = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.is_broken:
            self.refused += 1
            raise httpx2.ConnectError("no route")
        response = await self.behind.handle_async_request(request)
        if self.answers_get_lost:
            self.answers_get_lost -= 1
            raise httpx2.ReadError("reset")
        return response


@pytest.fixture
async def cable(
    settings: Settings, transport: httpx2.ASGITransport, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Broken, AgentEngine]]:
    monkeypatch.setattr(api_client, "LAST_PAUSE", 0.1)  # seconds until a request is repeated
    broken = Broken(transport)
    engine = AgentEngine(settings.core.dags_folder, broken)
    yield broken, engine
    await engine.close()


async def test_a_result_waits_until_a_server_can_be_reached(
    settings: Settings, cable: tuple[Broken, AgentEngine], waits: Path
) -> None:
    broken, engine = cable
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
        broken.is_broken = True
        (waits / "go").touch()
        await until(lambda: broken.refused >= 4, "some attempts to report")
        assert await rows(scheduler, "SELECT count(*) FROM task_instance WHERE state = 'success'") == [(0,)]
        broken.is_broken = False
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2


async def test_lost_answers_change_nothing(settings: Settings, cable: tuple[Broken, AgentEngine], waits: Path) -> None:
    broken, engine = cable
    broken.answers_get_lost = 6  # of claims, parts of logs, reports
    (waits / "go").touch()
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2
        assert await rows(scheduler, LEFT) == [(0,)]

    assert sorted(calls(waits)) == ["coroutine", "plain"]
    await until(lambda: len(engine.outcomes) == 2, "the answers to the reports")
    assert engine.outcomes == ["success"] * 2, "what was stored counts, though nobody heard of it"


async def test_a_worker_that_reaches_no_server_for_its_lease_ends_its_processes(
    settings: Settings,
    short_lease: None,
    cable: tuple[Broken, AgentEngine],
    waits: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent, "TRUSTED", 0.5)  # of the lease
    broken, engine = cable
    async with serving(settings, engine) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
        pids = [int(line.split()[1]) for line in (waits / "calls").read_text().splitlines()]
        broken.is_broken = True
        await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end of all processes")
        assert await scheduler.db.fetchval("SELECT count(*) FROM engine_attempt WHERE alive_until > now()") == 2, (
            "they have to end before their lease does"
        )
