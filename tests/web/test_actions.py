"""What people do, through the API and a real scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from aiosched import DAG, Param, task
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


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


NAMES: dict[str, Any] = {f"n{n}": {"anyOf": 2 * [{"$ref": f"#/$defs/n{n - 1}"}]} for n in range(1, 40)}
SEEN: dict[str, dict[str, Any]] = {}
TYPED: dict[str, Any] = {
    "day": date(2026, 1, 31),
    "price": Decimal("1.50"),
    "size": Size.SMALL,
    "names": {"a"},
    "tree": Param(1, **{"$ref": "#/$defs/n39", "$defs": {"n0": {"type": "integer"}, **NAMES}}),
}


def typed() -> DAG:
    @task
    async def look(params: Any, run_id: str) -> None:
        SEEN[run_id] = dict(params)

    with DAG("typed", schedule=None, params=TYPED) as dag:
        look()  # type: ignore[call-arg]  # the context gives it
    return dag


@pytest.fixture
async def scheduler(answered: None, dsn: str) -> AsyncIterator[Scheduler]:
    async with Scheduler(
        dsn=dsn, dags=[sales(), typed()], settings=Settings(web=WebSettings(auth="none"))
    ) as scheduler:
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


async def test_what_is_given_has_the_types_of_the_defaults(live: httpx2.AsyncClient, scheduler: Scheduler) -> None:
    given = {"day": "2026-07-01", "price": 2.5, "size": "l", "names": ["b", "c"]}
    typed_day = {"$aiosched": "date", "value": "2026-07-01"}
    answers = [
        await live.post("dags/typed/runs", json={"run_id": "text", "conf": given}),
        await live.post("dags/typed/runs", json={"run_id": "marks", "conf": {**given, "day": typed_day}}),
        await live.post("dags/typed/runs/batch", json={"runs": [{"run_id": "many", "conf": given}]}),
    ]
    await scheduler.trigger("typed", run_id="python", conf=given)
    await scheduler.trigger("typed", run_id="none")
    await scheduler.wait_idle()

    assert [answer.status_code for answer in answers] == [201, 201, 200]
    changed = {"day": date(2026, 7, 1), "price": Decimal("2.5"), "size": Size.LARGE, "names": {"b", "c"}, "tree": 1}
    assert {run_id: SEEN[run_id] for run_id in ("text", "marks", "many", "python")} == dict.fromkeys(
        ("text", "marks", "many", "python"), changed
    )
    assert SEEN["none"] == {**TYPED, "tree": 1}


async def test_a_param_without_an_end_is_refused_and_stops_nothing(live: httpx2.AsyncClient) -> None:
    cases: list[tuple[Any, str]] = [
        ({"tree": "x"}, "conf.tree: Param 'tree': to check the value takes too many steps"),
        ({"day": "soon"}, "conf.day: Param 'day': 'soon' is no date, which its default is: give a value such as"),
        ({"day": {"$aiosched": "int", "value": "9" * 5_000}}, "Param 'day'"),
        ({"day": {"$aiosched": "datetime", "value": "2026-07-01", "zone": "z" * 300}}, "Param 'day'"),
        ({"size": "medium"}, "'medium' is not one of ['s', 'l']"),
    ]
    for conf, message in cases:
        answer = await live.post("dags/typed/runs", json={"conf": conf})

        assert answer.status_code == 422, answer.text
        assert message in answer.json()["detail"]


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


BATCH = "dags/sales/runs/batch"


async def test_a_batch_creates_what_it_can_and_says_what_became_of_each(live: httpx2.AsyncClient) -> None:
    runs = [{"run_id": f"r{n % 40}", "conf": {"who": "ann", "day": n}} for n in range(42)]
    runs += [{"run_id": "with space", "conf": {"who": "ann"}}, {"conf": {"who": "bob"}}]

    answer = await live.post(BATCH, json={"runs": runs, "reason": "catching up"})

    found = answer.json()["runs"]
    assert [run["run_id"] for run in found[:40]] == [f"r{n}" for n in range(40)]
    assert all("'r0' already" in run["error"] or "'r1' already" in run["error"] for run in found[40:42])
    assert "with space" in found[42]["error"]
    assert found[43]["run_id"].startswith("manual__")
    assert (await live.get("dags/sales/runs/r7")).json()["conf"] == {"day": 7, "who": "ann"}
    page = (await live.get("commands?limit=1")).json()
    assert page["items"][0]["reason"] == "catching up"


async def test_nothing_of_a_batch_is_created_if_params_are_wrong_or_the_dag_is_paused(live: httpx2.AsyncClient) -> None:
    good: dict[str, Any] = {"conf": {"who": "ann"}}
    wrong = await live.post(BATCH, json={"runs": [good, {"conf": {"who": 1}}, good, {}]})
    sizes = [(await live.post(BATCH, json={"runs": runs})).status_code for runs in ([], [good] * 1001)]
    await live.patch("dags/sales", json={"is_paused": True})
    paused = await live.post(BATCH, json={"runs": [good]})
    nowhere = await live.post("dags/nothing/runs/batch", json={"runs": [good]})
    before = (await live.get("runs?dag_id=sales")).json()["items"]
    unpaused = await live.post(BATCH, json={"runs": [good] * 3, "unpause": True})

    assert [field["where"] for field in wrong.json()["fields"]] == ["runs.1.conf.who", "runs.3.conf.who"]
    assert sizes == [422, 422]
    assert (wrong.status_code, paused.status_code, nowhere.status_code) == (422, 409, 404)
    assert before == []
    assert all(run["run_id"] for run in unpaused.json()["runs"])
    assert len((await live.get("runs?dag_id=sales")).json()["items"]) == 3


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

    row = await scheduler.db.fetchrow("SELECT verb, requested_by, reason FROM request")
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
        ("POST", "variables/a", "DELETE, GET, PUT"),
        ("POST", "variables/a/b", "DELETE, GET, PUT"),
        ("POST", "openapi.json", None),
    ):
        answer = await api.request(method, path)

        assert (method, path, answer.status_code) == (method, path, 405)
        if known is not None:
            assert answer.headers["allow"] == known
            assert f"/api/v1/{path} has no {method}, but {known};" in answer.json()["detail"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["nope", "dags/sales/nope", "dags/sales/runs/r1/erase"])
async def test_an_address_that_the_api_lacks_is_not_found_by_any_method(
    api: httpx2.AsyncClient, method: str, path: str
) -> None:
    answer = await api.request(method, path)

    assert (answer.status_code, answer.headers.get("allow")) == (404, None)
    if method != "HEAD":
        assert answer.json()["detail"] == f"The API has no address /api/v1/{path}; see /api/v1/openapi.json."
