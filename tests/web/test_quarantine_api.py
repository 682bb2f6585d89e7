"""What the API, its client, the first page, live news and `/metrics` say of a DAG in quarantine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from aiosched import DAG, task
from aiosched.client import Client
from aiosched.config import Settings, WebSettings
from aiosched.db.server.engine import Database
from aiosched.errors import Refused
from aiosched.scheduler import Scheduler
from tests.cli.records import NOON, add_dag, quarantine

HELD = {
    "since": "2026-11-20T12:00:00Z",
    "retry_at": "2026-11-20T12:00:15Z",
    "failures": 1,
    "place": "the evaluation",
    "error": "KeyError: 7",
}


@pytest.fixture
async def held(db: Database) -> None:
    """`bad` is in quarantine, `tried` was and is tried again, `good` never was."""
    for name in ("bad", "good", "tried"):
        await add_dag(db, name)
    await quarantine(db, "bad")
    await quarantine(db, "tried", tried_at=NOON)


@pytest.mark.usefixtures("held")
async def test_the_list_and_the_detail_of_dags_have_it(api: httpx2.AsyncClient) -> None:
    listed = {one["dag_id"]: one for one in (await api.get("dags")).json()["items"]}
    detail = (await api.get("dags/bad")).json()

    assert {name: (one["status"], one["quarantine"]) for name, one in listed.items()} == {
        "bad": ("quarantine", HELD),
        "good": ("active", None),
        "tried": ("active", None),
    }
    assert detail["quarantine"] == HELD | {
        "traceback": "Traceback (most recent call last):\n  in evaluate\nKeyError: 7\n"
    }
    assert (await api.get("dags/tried")).json()["quarantine"] is None


@pytest.mark.usefixtures("held")
async def test_the_status_is_a_filter(api: httpx2.AsyncClient) -> None:
    async def found(status: str) -> list[str]:
        return [one["dag_id"] for one in (await api.get("dags", params={"status": status})).json()["items"]]

    assert await found("quarantine") == ["bad"]
    assert await found("active") == ["good", "tried"]
    assert await found("error") == []


@pytest.mark.usefixtures("held")
async def test_the_first_page_says_that_it_needs_attention(api: httpx2.AsyncClient) -> None:
    found = [one for one in (await api.get("summary")).json()["attention"] if one["kind"] == "quarantine"]

    assert [(one["dag_id"], one["since"]) for one in found] == [("bad", "2026-11-20T12:00:00Z")]
    assert found[0]["words"].endswith("the evaluation failed (KeyError: 7)")


@pytest.mark.usefixtures("held")
async def test_metrics_count_them_for_the_fleet(app: FastAPI) -> None:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/") as probe:
        text = (await probe.get("metrics")).text

    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [sample.value for sample in families["aiosched_dags_in_quarantine"].samples] == [1.0]


# ---- requests ----


@pytest.fixture
async def scheduler(answered: None, dsn: str) -> AsyncIterator[Scheduler]:
    @task
    async def work() -> None: ...

    with DAG("bad", schedule=None) as bad:
        work()
    async with Scheduler(dsn=dsn, dags=[bad], settings=Settings(web=WebSettings(auth="none"))) as scheduler:
        yield scheduler


@pytest.fixture
async def client(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A client of the API of a scheduler in which evaluating any run fails, and which has just tried to."""

    def broken(*_: Any) -> None:
        raise KeyError(7)

    monkeypatch.setattr("aiosched.core.run.board.Board.evaluate", broken)
    transport = httpx2.ASGITransport(app=scheduler.web_app())
    async with Client("http://host.example", transport=transport) as client:
        await client.trigger("bad", run_id="r")
        while not scheduler.metrics.quarantines:
            await scheduler._progress()
        yield client


async def test_requests_are_refused_with_the_reason_by_the_api_and_its_client(client: Client) -> None:
    refused = r"DAG 'bad' is in quarantine since .*the evaluation failed \(KeyError: 7\).*aiosched dags release bad"
    for request in (client.pause("bad"), client.trigger("bad"), client.cancel("bad", "r")):
        with pytest.raises(Refused, match=refused):
            await request

    detail = await client.dag("bad")
    assert detail.quarantine is not None
    assert "KeyError: 7" in (detail.quarantine.traceback or "")
