"""A database that hangs or is away is told within seconds, by each answer and to each open page, until it is back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI

from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.db.server.migrate import migrate
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.views import database_watch, live
from tests.conftest import short_folder
from tests.patience import PATIENCE
from tests.suspending import OwnServer, own_server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[OwnServer]:
    """One for all of these tests, migrated."""
    folder = short_folder()
    with own_server(folder / "pg") as server:
        await migrate(server.start())
        yield server
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def pages_are_told_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STATUS_SECONDS", "AGAIN_SECONDS"):
        monkeypatch.setattr(live, name, 0.1)


@contextlib.contextmanager
def hanging(server: OwnServer) -> Iterator[None]:
    """The server hangs meanwhile, and nobody gives it long."""
    server.suspend()
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("PATIENCE", "ASK_SECONDS", "ANSWER_SECONDS"):
                patch.setattr(database_watch, name, 0.1)
            yield
    finally:
        server.resume()


@contextlib.contextmanager
def killed(server: OwnServer) -> Iterator[None]:
    """The server is away meanwhile."""
    server.kill()
    try:
        yield
    finally:
        server.start()


@pytest.fixture
async def app(server: OwnServer) -> AsyncIterator[FastAPI]:
    async with await Database.open(server.start(), application_name="web") as db:
        app = make_app(RequestClient(db, Settings()))
        yield app
        app.state.hub.close()


@pytest.fixture
async def site(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/", timeout=60) as client:
        yield client


async def until_it_answers(app: FastAPI) -> None:
    async with asyncio.timeout(PATIENCE):
        await app.state.watch.until_it_answers()


async def test_requests_under_way_and_later_ones_are_answered_while_the_database_hangs(
    server: OwnServer, app: FastAPI, site: httpx2.AsyncClient
) -> None:
    assert (await site.get("api/v1/pools")).status_code == 200
    patience = database_watch.PATIENCE + database_watch.ATTEMPTS * database_watch.ANSWER_SECONDS
    assert patience < PATIENCE

    with hanging(server):
        async with asyncio.timeout(PATIENCE):
            # more than the pool has connections
            under_way = await asyncio.gather(*(site.get("api/v1/pools") for _ in range(20)))
            change = await site.put("api/v1/pools/fast", json={"slots": 1})
            health, ready = await asyncio.gather(site.get("health"), site.get("readyz"))
    assert {answer.status_code for answer in (*under_way, change, health, ready)} == {503}
    problem = under_way[0].json()
    assert (problem["code"], under_way[0].headers["retry-after"]) == ("database", "2")
    assert "The embedded PostgreSQL" in problem["detail"]
    assert "DSN" not in problem["detail"]
    assert health.json()["components"]["database"]["status"] == "unhealthy"

    await until_it_answers(app)
    assert (await site.get("api/v1/pools")).status_code == 200
    async with asyncio.timeout(PATIENCE):  # an answer is kept for a second
        while (await site.get("health")).json()["components"]["database"]["status"] != "healthy":  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_change_under_way_is_told_that_nobody_knows_its_outcome(
    server: OwnServer, site: httpx2.AsyncClient
) -> None:
    await site.get("api/v1/pools")

    with hanging(server):
        async with asyncio.timeout(PATIENCE):
            answer = await site.put("api/v1/pools/fast", json={"slots": 1})

    assert answer.status_code == 503
    assert "Whether this change was stored is not known" in answer.json()["detail"]


class Pages:
    """The statuses that an open page is told."""

    def __init__(self, app: FastAPI) -> None:
        self.stream = app.state.hub.stream(frozenset(), None)

    async def status(self, *, away: bool) -> dict[str, Any]:
        """The next one that says this of the database."""
        async with asyncio.timeout(PATIENCE):
            async for message in self.stream:
                if message.startswith(b"event: status"):
                    found: dict[str, Any] = json.loads(message.partition(b"data: ")[2])
                    if (found["database"] is not None) is away:
                        return found
        raise AssertionError("the stream has ended")


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("how", ["suspended", "killed"])
async def test_an_open_page_is_told_that_the_database_is_away_and_that_it_is_back(
    server: OwnServer, app: FastAPI, how: str
) -> None:
    page = Pages(app)
    before = await page.status(away=False)
    await app.state.hub.listening.wait()

    with hanging(server) if how == "suspended" else killed(server):
        away = await page.status(away=True)
    back = await page.status(away=False)

    assert before["at"] <= away["database"]["since"] <= away["at"] <= back["at"]
    assert "does not answer" in away["database"]["detail"]
    async with asyncio.timeout(PATIENCE):
        await app.state.hub.listening.wait()


async def test_an_open_page_is_told_that_no_scheduler_runs(app: FastAPI) -> None:
    page = Pages(app)

    while (status := await page.status(away=False))["schedulers"] is None:
        pass

    assert status["schedulers"]["trouble"] == "none"
    assert status["schedulers"]["since"] <= status["at"]
