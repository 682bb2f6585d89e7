"""Assets whose names are URIs or have other characters that addresses give a meaning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx2
import pytest
from fastapi import FastAPI

from aiosched import DAG, Asset, task
from aiosched.client import Client
from aiosched.config import Settings, WebSettings
from aiosched.errors import NotFound
from aiosched.scheduler import Scheduler

NAMES: Final = (
    "plain", "s3://bucket/orders.csv", "weird asset/ä?#", "100%/%2F%25", "../up", "..", "a/../b", "orders/events",
    "/events", "a+b&name=c", "s3://" + "x" * 400,
)  # fmt: skip


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[FastAPI]:
    """An application with the web application of a scheduler under /flows."""

    @task(outlets=[Asset(name) for name in NAMES])
    async def load() -> None: ...

    with DAG("load", schedule=None) as dag:
        load()
    app = FastAPI()
    async with Scheduler(dsn=dsn, dags=[dag], settings=Settings(web=WebSettings(auth="none"))) as scheduler:
        app.mount("/flows", scheduler.web_app())
        yield app


async def test_every_asset_is_shown_and_emitted_by_its_name(app: FastAPI) -> None:
    transport = httpx2.ASGITransport(app=app)
    async with (
        Client("http://host.example/flows", transport=transport) as client,
        httpx2.AsyncClient(transport=transport, base_url="http://host.example/flows/api/v1/") as api,
    ):
        for number, name in enumerate(NAMES):
            shown = await api.get("asset", params={"name": name})
            emitted = await client.emit(name, {"number": number})
            events = [(event.name, event.extra) async for event in client.asset_events(name)]

            assert shown.status_code == 200, shown.text
            assert (shown.json()["name"], shown.json()["producers"]) == (name, ["load"])
            assert (emitted.name, events) == (name, [(name, {"number": number})])
        with pytest.raises(NotFound, match="nowhere"):
            await client.emit("s3://nowhere")


async def test_a_name_without_a_slash_is_a_part_of_the_address_too(app: FastAPI) -> None:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://host.example/flows/api/v1/") as api:
        emitted = await api.post("assets/plain/events", json={})
        events = await api.get("assets/plain/events")
        shown = await api.get("assets/plain")

    assert emitted.status_code == 201, emitted.text
    assert (shown.json()["name"], len(events.json()["items"])) == ("plain", 1)
