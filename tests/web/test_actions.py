"""What people do, through the API and a real scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.authoring import DAG, Param, task
from aiosched.config import Settings, WebSettings
from aiosched.db.server.engine import Database
from aiosched.scheduler import Scheduler
from tests.cli.records import add_dag


def sales() -> DAG:
    @task
    async def extract() -> None: ...

    @task
    async def load() -> None:
        raise RuntimeError("the warehouse is closed")

    with DAG("sales", schedule=None, params={"day": Param(1, type="integer"), "who": Param(type="string")}) as dag:
        extract() >> load()  # type: ignore[operator]
    return dag


@pytest.fixture
async def scheduler(dsn: str) -> AsyncIterator[Scheduler]:
    async with Scheduler(dsn=dsn, dags=[sales()], settings=Settings(web=WebSettings(auth="none"))) as scheduler:
        yield scheduler


@pytest.fixture
async def live(scheduler: Scheduler) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the API of a running scheduler."""
    app = FastAPI()
    app.mount("/flows", scheduler.web_app())
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://host.example/flows/api/v1/") as client:
        yield client


async def triggered(live: httpx2.AsyncClient, scheduler: Scheduler, run_id: str = "one") -> dict[str, Any]:
    """A run that has ended."""
    answer = await live.post("dags/sales/runs", json={"run_id": run_id, "conf": {"who": "ann"}})
    assert answer.status_code == 201, answer.text
    await scheduler.wait_idle()
    return dict((await live.get(f"dags/sales/runs/{run_id}")).json())


async def test_a_run_is_made_and_shown(live: httpx2.AsyncClient, scheduler: Scheduler) -> None:
    run = await triggered(live, scheduler)

    assert (run["state"], run["triggered_by"], run["tasks"]) == ("failed", "api", {"failed": 1, "success": 1})


async def test_params_that_break_their_schema_are_named(live: httpx2.AsyncClient) -> None:
    cases: list[tuple[Any, list[str]]] = [({}, ["conf.who"]), ({"who": 1, "day": "x"}, ["conf.day", "conf.who"])]
    for conf, where in cases:
        answer = await live.post("dags/sales/runs", json={"conf": conf})

        assert (answer.status_code, answer.json()["code"]) == (422, "params")
        assert [field["where"] for field in answer.json()["fields"]] == where


async def test_what_cannot_be_made_is_refused(live: httpx2.AsyncClient) -> None:
    cases: list[tuple[Any, int]] = [
        ({"run_id": "scheduled__x", "conf": {"who": "a"}}, 409),
        ({"run_id": "with space", "conf": {"who": "a"}}, 409),
        ({"conf": {"who": "a\0b"}}, 422),
        ({"logical_date": "2026-01-01T00:00:00", "conf": {"who": "a"}}, 422),
        ({"conf": [1]}, 422),
    ]
    for body, status in cases:
        assert (body, (await live.post("dags/sales/runs", json=body)).status_code) == (body, status)


async def test_a_paused_dag_makes_no_run_unless_asked_to_go_on(live: httpx2.AsyncClient) -> None:
    paused = await live.patch("dags/sales", json={"is_paused": True, "reason": "too hot"})
    refused = await live.post("dags/sales/runs", json={"conf": {"who": "a"}})
    made = await live.post("dags/sales/runs", json={"conf": {"who": "a"}, "unpause": True})

    assert paused.json()["is_paused"] is True
    assert (refused.status_code, refused.json()["code"]) == (409, "refused")
    assert made.status_code == 201
    assert (await live.get("dags/sales")).json()["is_paused"] is False


async def test_clearing_tells_first_what_it_would_touch(live: httpx2.AsyncClient, scheduler: Scheduler) -> None:
    await triggered(live, scheduler)
    wish = {"run_ids": ["one"], "only_failed": True}

    before = (await live.post("dags/sales/clear", json=wish | {"dry_run": True})).json()
    still = (await live.get("dags/sales/runs/one")).json()["state"]
    done = (await live.post("dags/sales/clear", json=wish)).json()
    await scheduler.wait_idle()
    tries = (await live.get("dags/sales/runs/one/gantt")).json()["items"]

    assert [(t["task_id"], t["state"]) for t in before["instances"]] == [("load", "failed")]
    assert still == "failed"
    assert done["count"] == 1
    assert [len(bar["tries"]) for bar in tries] == [1, 2]


async def test_marking_a_task_and_a_run(live: httpx2.AsyncClient, scheduler: Scheduler) -> None:
    await triggered(live, scheduler)

    mark = {"state": "success", "upstream": True}
    looked = await live.post("dags/sales/runs/one/tasks/load/mark", json=mark | {"dry_run": True})
    refused = await live.post("dags/sales/runs/one/tasks/load/mark", json=mark | {"past": True, "future": True})
    task_ = await live.post("dags/sales/runs/one/tasks/load/mark", json={"state": "success"})
    run = await live.post("dags/sales/runs/latest/mark", json={"state": "success"})

    assert {one["task_id"]: one["state"] for one in looked.json()["instances"]}["load"] == "failed"
    assert (refused.status_code, refused.json()["code"]) == (409, "refused")
    assert "'one' has no logical date" in refused.json()["detail"]
    assert task_.json()["count"] == 1
    assert (run.status_code, run.json()["state"]) == (200, "success")


async def test_notes(live: httpx2.AsyncClient, scheduler: Scheduler) -> None:
    await triggered(live, scheduler)

    await live.put("dags/sales/runs/one/note", json={"note": "known problem"})
    await live.put("dags/sales/runs/one/tasks/load/note", json={"note": "call Bob"})

    assert (await live.get("dags/sales/runs/one")).json()["note"] == "known problem"
    tasks = (await live.get("dags/sales/runs/one/tasks")).json()["items"]
    assert [t["note"] for t in tasks] == [None, "call Bob"]


async def test_a_finished_run_cannot_be_cancelled(live: httpx2.AsyncClient, scheduler: Scheduler) -> None:
    await triggered(live, scheduler)

    assert (await live.post("dags/sales/runs/one/cancel")).status_code == 409


async def test_every_action_stands_in_the_audit_log(live: httpx2.AsyncClient, scheduler: Scheduler) -> None:
    await live.patch("dags/sales", json={"is_paused": True, "reason": "too hot"})

    async with scheduler.db.acquire() as conn:
        row = await conn.fetchrow("SELECT verb, requested_by, reason FROM command")
    assert tuple(row) == ("pause", "api:local", "too hot")


async def test_without_a_scheduler_a_request_waits_and_says_where(
    db: Database, api: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.web.requests.request_client.ANSWER_SECONDS", 0.0)
    await add_dag(db, "sales")

    answer = await api.patch("dags/sales", json={"is_paused": True})

    assert answer.status_code == 202
    assert answer.headers["location"] == f"/api/v1/commands/{answer.json()['command']}"


async def test_a_request_that_waits_can_be_withdrawn_once(
    db: Database, api: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.web.requests.request_client.ANSWER_SECONDS", 0.0)
    await add_dag(db, "sales")
    number = (await api.patch("dags/sales", json={"is_paused": True})).json()["command"]

    withdrawn = await api.post(f"commands/{number}/withdraw", json={"reason": "a mistake"})

    assert withdrawn.status_code == 200
    assert (withdrawn.json()["state"], withdrawn.json()["attempts"]) == ("refused", 0)
    assert withdrawn.json()["result"]["error"] == "withdrawn by api:local: a mistake"
    assert (await api.post(f"commands/{number}/withdraw")).status_code == 409
    assert (await api.post("commands/99/withdraw")).status_code == 404


async def test_what_does_not_exist_is_not_found(live: httpx2.AsyncClient) -> None:
    cases: list[tuple[str, str, Any]] = [
        ("PATCH", "dags/nothing", {"is_paused": True}),
        ("POST", "dags/nothing/runs", {}),
        ("POST", "dags/nothing/clear", {}),
        ("POST", "dags/sales/runs/nothing/mark", {"state": "success"}),
        ("POST", "dags/sales/runs/nothing/cancel", {}),
        ("PUT", "dags/sales/runs/nothing/note", {"note": ""}),
        ("DELETE", "dags/nothing", None),
    ]
    for method, path, body in cases:
        assert (method, path, (await live.request(method, path, json=body)).status_code) == (method, path, 404)


async def test_a_wrong_method_is_told_the_right_ones(api: httpx2.AsyncClient) -> None:
    for method, path, known in (
        ("GET", "dags/d/runs", "POST"),  # would be the page otherwise
        ("GET", "dags/d/clear", "POST"),
        ("PUT", "dags/d", "DELETE, GET, PATCH"),
        ("POST", "pools/a/b", "DELETE, GET, PUT"),
        ("GET", "variables/a", "DELETE, PUT"),
        ("GET", "variables/a/b", "DELETE, PUT"),
        ("POST", "openapi.json", None),
    ):
        answer = await api.request(method, path)

        assert (method, path, answer.status_code) == (method, path, 405)
        if known is not None:
            assert answer.headers["allow"] == known
            assert f"/api/v1/{path} has no {method}, but {known};" in answer.json()["detail"]
