"""A web application on a test's own database, asked over ASGI without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient


@pytest.fixture
def request_client(db: Database) -> RequestClient:
    """The way to the database of the test."""
    return RequestClient(db, Settings())


@pytest.fixture
def app(request_client: RequestClient) -> FastAPI:
    """The application without a login."""
    return make_app(request_client)


@pytest.fixture
async def api(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the API; paths are relative to `/api/v1`."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/v1/") as client:
        yield client
