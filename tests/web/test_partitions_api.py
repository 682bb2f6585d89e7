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
async def scheduler(answered: None, dsn: str) -> AsyncIterator[Scheduler]:
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


async def test_the_partitions_of_an_asset_and_what_has_become_of_each(scheduler: Scheduler) -> None:
    app = FastAPI()
    app.mount("/flows", scheduler.web_app())
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://host.example/flows/api/v1/") as live:
        for key in ("us", "eu", "us"):
            await live.post("dags/load/runs", json={"partition_key": key})
            await scheduler.wait_idle()
        await live.post("assets/sales/events", json={"partition_key": "by hand"})
        await live.post("assets/sales/events", json={})
        await scheduler.wait_idle()
        await live.post("dags/load/runs", json={"partition_key": "eu", "run_id": "again"})
        await scheduler.wait_idle()
        await live.post("dags/load/runs/again/mark", json={"state": "failed"})

        found = (await live.get("asset-partitions", params={"name": "sales"})).json()

        facts = [(one["key"], one["events"], one["state"], one["is_made"]) for one in found["partitions"]]
        assert facts == [("by hand", 1, None, True), ("eu", 2, "failed", False), ("us", 2, "success", True)]
        assert found["is_complete"]
        assert (await live.get("asset-partitions", params={"name": "other"})).status_code == 404

        keys = [{"partition_key": key} for key in ("eu", "asia")]
        batch = (await live.post("dags/load/runs/batch", json={"runs": keys})).json()["runs"]
        await scheduler.wait_idle()
        again = (await live.get("asset-partitions", params={"name": "sales"})).json()["partitions"]

        assert [one["error"] for one in batch] == [None, None]
        assert {one["key"] for one in again if one["is_made"]} == {"asia", "by hand", "eu", "us"}
