"""Probes tell everybody a status; hosts, errors, pools and rates are for users and for whoever collects metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import MetricsSettings, Settings, WebSettings
from aiosched.db.people import accounts
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_password, hash_token, new_token
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.views.recent import Recent
from tests.cli.records import add_scheduler
from tests.web.logins import PASSWORD, log_in

TOKEN = "the-metrics-token"
HOSTNAME = "builder-7.internal.example"


def app_of(db: Database, metrics: MetricsSettings | None = None) -> FastAPI:
    settings = Settings(web=WebSettings(auth="password"), metrics=metrics or MetricsSettings(token=TOKEN))
    return make_app(RequestClient(db, settings))


def client_of(app: FastAPI, *, token: str | None = None) -> httpx2.AsyncClient:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="https://aiosched.example/", headers=headers)


@pytest.fixture
async def running(db: Database) -> AsyncIterator[None]:
    """A scheduler whose name and host nobody is to learn."""
    conn = await db.connect()
    await add_scheduler(db, "one", locked=conn)
    await db.execute("UPDATE scheduler SET hostname = $1", HOSTNAME)
    yield
    await conn.close()


@pytest.mark.parametrize("path", ["health", "readyz", "readyz?scheduler=false"])
@pytest.mark.usefixtures("running")
async def test_everybody_learns_the_status_and_nothing_else(db: Database, path: str) -> None:
    async with client_of(app_of(db)) as stranger:
        answer = await stranger.get(path)

    assert (answer.status_code, answer.json()) == (200, {"status": "healthy", "components": None, "schedulers": None})


@pytest.mark.parametrize("path", ["health", "readyz"])
async def test_the_status_codes_are_the_same_for_everybody(db: Database, path: str) -> None:
    app = app_of(db)
    async with client_of(app) as stranger, client_of(app, token=TOKEN) as prometheus:
        answers = [await stranger.get(path), await prometheus.get(path)]

    assert [answer.status_code for answer in answers] == [503, 503]
    assert [answer.json()["status"] for answer in answers] == ["unhealthy", "unhealthy"]
    assert answers[1].json()["components"]["schedulers"]["fix"] == "aiosched serve"


@pytest.mark.usefixtures("running")
async def test_users_and_programs_with_a_token_see_details(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await accounts.create_user(db, "ann", "viewer", await hash_password(PASSWORD))
    of_ann = new_token()
    await accounts.create_token(db, "ann", "ci", hash_token(of_ann), "viewer", None)
    app = app_of(db)
    async with client_of(app) as browser, client_of(app, token=of_ann) as program, client_of(app, token=TOKEN) as other:
        browser.base_url = httpx2.URL("https://aiosched.example/api/v1/")
        await log_in(browser, "ann")
        browser.base_url = httpx2.URL("https://aiosched.example/")
        for client in (browser, program, other):
            assert (await client.get("health")).json()["schedulers"][0]["hostname"] == HOSTNAME
            metrics = await client.get("metrics")
            assert metrics.status_code == 200
            assert 'aiosched_scheduler_alive{scheduler="one"} 1.0' in metrics.text


@pytest.mark.usefixtures("running")
async def test_metrics_are_for_nobody_else(db: Database) -> None:
    app = app_of(db)
    for token in (None, "", "guess", TOKEN[:-1], TOKEN + "x", "\x7f"):
        async with client_of(app, token=token) as stranger:
            answer = await stranger.get("metrics")
            health = await stranger.get("health")
        assert answer.status_code == 401
        assert "aiosched_" not in answer.text
        assert health.json()["schedulers"] is None
    async with client_of(app) as stranger:
        assert (await stranger.get("metrics")).headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("empty", [None, ""])
async def test_without_the_setting_no_token_opens_anything(db: Database, empty: str | None) -> None:
    async with client_of(app_of(db, MetricsSettings(token=empty)), token="") as stranger:
        assert (await stranger.get("metrics")).status_code == 401


async def test_a_setting_opens_metrics_to_everybody_but_not_the_details(db: Database) -> None:
    async with client_of(app_of(db, MetricsSettings(public=True))) as stranger:
        assert (await stranger.get("metrics")).status_code == 200
        assert (await stranger.get("health")).json()["components"] is None


async def test_a_metrics_token_opens_nothing_else(db: Database) -> None:
    async with client_of(app_of(db), token=TOKEN) as prometheus:
        assert (await prometheus.get("api/v1/dags")).status_code == 401
        assert (await prometheus.get("api/v1/me")).status_code == 401


async def test_a_probe_answers_while_nobody_can_be_looked_up(db: Database) -> None:
    app = app_of(db)
    async with client_of(app) as browser, client_of(app, token=TOKEN) as prometheus:
        browser.cookies.set("aiosched_session", "x")
        await db.close()
        answers = [await browser.get("health"), await prometheus.get("health")]

    assert [answer.status_code for answer in answers] == [503, 503]
    assert answers[0].json()["components"] is None
    assert answers[1].json()["components"]["database"]["status"] == "unhealthy"


async def test_who_asks_all_the_time_costs_one_answer_a_second() -> None:
    made, now = 0, 100.0

    async def make() -> int:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        return made

    recent = Recent(make, lambda: now)
    first = await asyncio.gather(*(recent.get() for _ in range(50)))
    now = 100.9
    soon = await recent.get()
    now = 101.0
    later = await recent.get()

    assert (set(first), soon, later) == ({1}, 1, 2)


async def test_a_failure_is_not_kept() -> None:
    async def make() -> int:
        if not failed:
            failed.append(True)
            raise ValueError("broken")
        return 1

    failed: list[bool] = []
    recent = Recent(make, lambda: 100.0)
    with pytest.raises(ValueError, match="broken"):
        await recent.get()

    assert await recent.get() == 1
