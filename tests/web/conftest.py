"""A web application on a test's own database, asked over ASGI without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import Settings, WebSettings
from aiosched.db.people import accounts
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_password
from aiosched.web.requests import request_client as request_client_module
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.views import database_watch
from tests.conftest import NIGHTLY
from tests.database_roles import roles_of
from tests.patience import PATIENCE
from tests.web.logins import PASSWORD, client_of


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are waited for as long as a busy scheduler needs: after five seconds the answer is that they wait."""
    monkeypatch.setattr(request_client_module, "ANSWER_SECONDS", PATIENCE)


@pytest.fixture
async def web_db(dsn: str, db: Database) -> AsyncIterator[Database]:
    """The database of the test as a web server has it: nightly with the role of web servers."""
    if not NIGHTLY:
        yield db
        return
    async with roles_of(dsn) as roles, await Database.open(roles.web, application_name="web") as database:
        yield database


@pytest.fixture
def request_client(web_db: Database) -> RequestClient:
    """The way to the database of the test."""
    return RequestClient(web_db, Settings())


@pytest.fixture
def app(request_client: RequestClient, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """The application without a login; on a busy machine every database is one that does not answer a probe in time."""
    monkeypatch.setattr(database_watch, "PROBE_SECONDS", PATIENCE)
    return make_app(request_client)


@pytest.fixture
async def api(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the API; paths are relative to `/api/v1`."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/v1/") as client:
        yield client


@pytest.fixture
async def guarded(db: Database, web_db: Database) -> FastAPI:
    """The application with a login, and a person of each role, who is called as the role is."""
    for role in ("viewer", "operator", "admin"):
        await accounts.create_user(db, role, role, await hash_password(PASSWORD))
    return make_app(RequestClient(web_db, Settings(web=WebSettings(auth="password"))))


@pytest.fixture
async def browser(guarded: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser that nobody has logged in with."""
    async with client_of(guarded) as client:
        yield client
