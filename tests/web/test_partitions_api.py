"""Partitions through the API: runs and events with keys, in an application with a scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI

from aiosched import DAG, Asset, PartitionedAssetTimetable, PartitionedAtRuntime, task
from aiosched.config import Settings, WebSettings
from aiosched.scheduler import Scheduler

SALES = Asset("sales")


def dags() -> list[DAG]:
    @task(outlets=[SALES])
    async def load() -> None: ...

    @task
    async def report() -> None: ...

    with DAG("load", schedule=PartitionedAtRuntime()) as loads:
        load()
    with DAG("report", schedule=PartitionedAssetTimetable(assets=SALES)) as reports:
        report()
    return [loads, reports]


@pytest.fixture
async def scheduler(dsn: str) -> AsyncIterator[Scheduler]:
    async with Scheduler(dsn=dsn, dags=dags(), settings=Settings(web=WebSettings(auth="none"))) as scheduler:
        yield scheduler


async def test_a_run_and_an_event_of_a_partition(scheduler: Scheduler) -> None:
    app = FastAPI()
    app.mount("/flows", scheduler.web_app())
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://host.example/flows/api/v1/") as live:
        made = await live.post("dags/load/runs", json={"partition_key": "us"})
        assert (made.status_code, made.json()["partition_key"]) == (201, "us")
        emitted = await live.post("assets/sales/events", json={"partition_key": "eu"})
        assert emitted.status_code == 201, emitted.text
        await scheduler.wait_idle()

        runs = (await live.get("runs", params={"dag_id": "report"})).json()["items"]
        assert {(run["partition_key"], run["state"]) for run in runs} == {("us", "success"), ("eu", "success")}
        events = (await live.get("assets/sales/events")).json()["items"]
        assert {event["partition_key"] for event in events} == {"us", "eu"}
        for key in ("", "x" * 251):
            refused = await live.post("dags/load/runs", json={"partition_key": key})
            assert refused.status_code == 422
