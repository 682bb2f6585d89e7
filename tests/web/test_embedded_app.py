"""`Scheduler.web_app()`: the same application inside another one, under any prefix."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Request

from aiosched import DAG
from aiosched.config import Settings, WebSettings
from aiosched.errors import ConfigError
from aiosched.scheduler import Scheduler
from aiosched.web import embedded
from aiosched.web.app import make_app
from aiosched.web.auth.access import Principal, Role
from aiosched.web.views.live import Hub

OPEN = Settings(web=WebSettings(auth="none"))


def client_of(app: FastAPI) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://host.example/flows/")


async def test_it_answers_under_a_prefix_while_the_scheduler_runs(dsn: str) -> None:
    scheduler = Scheduler(dsn=dsn, dags=[DAG("sales", schedule=None)], settings=OPEN)
    app = FastAPI()
    app.mount("/flows", scheduler.web_app())

    async with client_of(app) as client:
        before = await client.get("api/v1/dags")
        async with scheduler:
            during = await client.get("api/v1/dags")
            page = await client.get("dags/sales")
        after = await client.get("api/v1/dags")
        async with scheduler_again(dsn) as again:
            app.mount("/again", again.web_app())
            other = await client.get("http://host.example/again/api/v1/dags")

    assert [answer.status_code for answer in (before, during, after, other)] == [503, 200, 503, 200]
    assert [dag["dag_id"] for dag in during.json()["items"]] == ["sales"]
    assert '<base href="/flows/">' in page.text


@asynccontextmanager
async def scheduler_again(dsn: str):  # type: ignore[no-untyped-def]
    async with Scheduler(dsn=dsn, settings=OPEN, parse=False) as scheduler:
        yield scheduler


async def test_the_application_around_it_may_say_who_one_is(dsn: str) -> None:
    async def by_header(request: Request) -> Principal | None:
        name = request.headers.get("x-user")
        return None if name is None else Principal(name, Role.VIEWER)

    app = FastAPI()
    async with Scheduler(dsn=dsn, parse=False) as scheduler:
        app.mount("/flows", scheduler.web_app(authenticator=by_header))
        async with client_of(app) as client:
            nobody = await client.get("api/v1/me")
            ann = await client.get("api/v1/me", headers={"x-user": "ann"})

    assert nobody.status_code == 401
    assert (ann.json()["name"], ann.json()["role"]) == ("ann", "viewer")


def test_an_authenticator_may_give_a_role_by_its_word() -> None:
    role: Any = "admin"

    assert Principal("ann", role) == Principal("ann", Role.ADMIN)
    with pytest.raises(ConfigError, match="'boss' is no role of 'ann': use one of viewer, operator, editor, admin"):
        Principal("ann", "boss")  # type: ignore[arg-type]


async def test_of_several_first_requests_one_makes_the_application(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[FastAPI] = []

    def make(*args: Any, **options: Any) -> FastAPI:
        made.append(make_app(*args, **options))
        return made[-1]

    monkeypatch.setattr(embedded, "make_app", make)
    settings = Settings(web=WebSettings(auth="password", admin_password="correct horse battery"))
    app = FastAPI()
    async with Scheduler(dsn=dsn, parse=False, settings=settings) as scheduler:
        app.mount("/flows", scheduler.web_app())
        async with client_of(app) as client:
            answers = await asyncio.gather(*(client.get("livez") for _ in range(5)))

    assert len(made) == 1
    assert len({answer.status_code for answer in answers}) == 1


def test_nobody_is_let_in_without_a_word_about_it() -> None:
    with pytest.raises(ConfigError, match="Who may use the web application"):
        Scheduler(dsn="postgresql://nowhere/x").web_app()


async def test_a_stream_inside_another_application_ends_after_a_while(dsn: str) -> None:
    async with Scheduler(dsn=dsn, parse=False) as scheduler:
        hub = Hub(scheduler.db, longest=0.01)

        messages = [message async for message in hub.stream(frozenset(), None)]

    assert messages[0] == b"retry: 2000\n\n"
