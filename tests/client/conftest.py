"""A client of a scheduler's application, mounted in another one; each file has its own scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.client import Client
from aiosched.scheduler import Scheduler


@pytest.fixture
async def client(scheduler: Scheduler) -> AsyncIterator[Client]:
    app = FastAPI()
    app.mount("/flows", scheduler.web_app())
    async with Client("http://host.example/flows", transport=httpx2.ASGITransport(app=app)) as client:
        yield client
