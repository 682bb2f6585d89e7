"""Rows that this aiosched cannot read in full: every page shows them, and those beside them, as far as it can."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import jsonschema_rs
import pytest
import pytest_asyncio
from fastapi import FastAPI

from aiosched.client import Client
from aiosched.config import Settings, WebSettings
from aiosched.core.values.states import RunState, RunType
from aiosched.db.people.accounts import create_token
from aiosched.db.server.engine import Database
from aiosched.db.statements.run_changes import publish_runs
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_token, new_token
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.views.live import Hub
from tests.cli.records import add_scheduler
from tests.databases import TEMPLATE, Server
from tests.foreign_rows import ASSET, CHANGES, DAG, RUN, TASK, WORD, make_foreign, seed
from tests.web.walks import DOCUMENT, PAGES


@pytest.fixture
async def site(app: FastAPI, db: Database) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the whole application, on the rows of `seed`."""
    await seed(db)
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/") as client:
        yield client


def allowed(path: str) -> set[int]:
    """The answers that a page may give."""
    if path in ("/health", "/readyz"):
        return {503}  # no scheduler is alive
    if "{task_id}" in path:
        return {200, 404, *([409] if path.endswith("/why") else [])}  # by its old name it is not there any more
    if path.endswith("/module"):
        return {200, 404}  # what a version imports may not be there any more
    return {200, *([409] if path.endswith("/why") else [])}  # the answer says what cannot be read


@functools.cache
def validator_of(path: str, status: int) -> jsonschema_rs.Draft202012Validator | None:
    """Of a page's answers with a status. Takes 10 ms."""
    shown = DOCUMENT["paths"][path]["get"]["responses"].get(str(status), {})
    schema = shown.get("content", {}).get("application/json", {}).get("schema")
    return schema and jsonschema_rs.Draft202012Validator({**schema, "components": DOCUMENT["components"]})


def breaches(path: str, answer: httpx2.Response) -> list[str]:
    """How an answer breaks the document."""
    validator = validator_of(path, answer.status_code)
    if validator is None:
        return []
    return [f"{error.instance_path}: {error.message:.100}" for error in validator.iter_errors(answer.json())]


def number_of(answer: httpx2.Response) -> int | None:
    """How many entries a list has; None for other answers."""
    if "json" not in answer.headers.get("content-type", ""):
        return None
    items = answer.json().get("items") if isinstance(answer.json(), dict) else None
    return None if items is None else len(items)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def before(server: Server) -> dict[str, int | None]:
    """The number of entries of each list in the rows of `seed`."""
    dsn = await server.create(TEMPLATE)
    async with await Database.open(dsn, application_name="test") as db:
        await seed(db)
        transport = httpx2.ASGITransport(app=make_app(RequestClient(db, Settings())))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/") as client:
            found = {address: number_of(await client.get(address)) for path, address in PAGES if "{run}" not in path}
    await server.drop(dsn)
    return found


@pytest.mark.parametrize("change", CHANGES)
async def test_every_page_shows_what_it_cannot_read_beside_all_else(
    site: httpx2.AsyncClient, db: Database, before: dict[str, int | None], change: str
) -> None:
    await make_foreign(db, CHANGES[change])

    wrong = []
    for path, address in PAGES:
        answer = await site.get(address)
        if answer.status_code not in allowed(path):
            wrong.append(f"{path}: {answer.status_code} {answer.text:.200}")
        elif found := breaches(path, answer):
            wrong.append(f"{path}: {found}")
        elif "{run}" not in path and number_of(answer) != before[address]:
            wrong.append(f"{path}: {before[address]} entries before, {number_of(answer)} now")

    assert not wrong, "\n".join(wrong)


async def test_a_word_of_a_newer_version_is_shown_as_it_is(site: httpx2.AsyncClient, db: Database) -> None:
    await make_foreign(db, CHANGES["unknown words"])

    run = (await site.get(f"/api/v1/dags/{DAG}/runs/{RUN}")).json()
    tasks = (await site.get(f"/api/v1/dags/{DAG}/runs/{RUN}/tasks")).json()["items"]
    grid = (await site.get(f"/api/v1/dags/{DAG}/grid")).json()
    (request,) = (await site.get("/api/v1/commands")).json()["items"]
    days = (await site.get(f"/api/v1/dags/{DAG}/calendar?year=2026")).json()["days"]

    assert (run["state"], run["run_type"], run["tasks"]) == (WORD, WORD, {WORD: 2})
    assert {task["state"] for task in tasks} == {WORD}
    assert {row["id"]: cell for row, cell in zip(grid["rows"], grid["cells"][0], strict=True)} == {
        "g": {WORD: 1},
        TASK: WORD,
        "load": WORD,
    }
    assert (request["state"], request["verb"]) == (WORD, WORD)
    assert days[0]["counts"] == {WORD: 1}


@pytest.mark.parametrize(
    "address", ["runs?state=", "runs?run_type=", f"dags/{DAG}/runs/{RUN}/tasks?state=", "commands?state="]
)
async def test_nobody_asks_for_a_word_that_this_version_does_not_know(site: httpx2.AsyncClient, address: str) -> None:
    answer = await site.get(f"/api/v1/{address}{WORD}")

    assert (answer.status_code, answer.json()["code"]) == (422, "unusable-request")


async def test_the_client_reads_words_that_it_does_not_know(
    app: FastAPI, site: httpx2.AsyncClient, db: Database
) -> None:
    await make_foreign(db, CHANGES["unknown words"])

    async with Client("http://localhost", transport=httpx2.ASGITransport(app=app)) as client:
        runs = [run.state async for run in client.runs()]
        found = await client.run(DAG, RUN)
        tasks = [task.state async for task in client.tasks(DAG, RUN)]
        others: list[object] = [
            each
            for pages in (
                client.dags(), client.backfills(), client.assets(), client.asset_events(ASSET), client.pools(),
                client.import_errors(), client.commands(),
            )
            async for each in pages
        ]  # fmt: skip
        schedulers = await client.schedulers()

    assert runs == [WORD, WORD]
    assert (found.state, found.run_type, tasks) == (WORD, WORD, [WORD, WORD])
    assert len(others) == 9
    assert [one.name for one in schedulers] == ["one"]


async def test_a_known_word_is_a_member_for_the_client(app: FastAPI, site: httpx2.AsyncClient) -> None:
    async with Client("http://localhost", transport=httpx2.ASGITransport(app=app)) as client:
        found = await client.run(DAG, RUN)

    assert (found.state, found.run_type) == (RunState.SUCCESS, RunType.MANUAL)
    assert isinstance(found.state, RunState)


async def test_open_pages_are_told_words_of_a_newer_version(db: Database) -> None:
    await seed(db)
    await make_foreign(db, CHANGES["unknown words"])
    hub = Hub(db)
    run = await db.fetchval("SELECT id FROM dag_run WHERE dag_id = $1", DAG)
    stream = hub.stream(frozenset([run]), None)
    assert await anext(stream) == b"retry: 2000\n\n"
    await hub.listening.wait()

    await publish_runs(db, [run])
    told: dict[str, dict[str, Any]] = {}
    while not {"run", "task"} <= told.keys():
        data = (await anext(stream)).decode().partition("data: ")[2]
        told |= {patch["kind"]: patch for patch in [json.loads(data)]} if data else {}
    hub.close()

    assert (told["run"]["state"], told["run"]["run_type"]) == (WORD, WORD)
    assert [task["state"] for task in told["task"]["tasks"]] == [WORD, WORD]
    assert told["task"]["counts"] == {"0": {WORD: 1}, "1": {WORD: 1}}


async def test_a_user_with_a_role_of_a_newer_version_may_do_nothing(db: Database) -> None:
    await seed(db)
    token = new_token()
    await create_token(db, "ann", "mine", hash_token(token), "viewer", None)
    await make_foreign(db, CHANGES["unknown words"])
    app = make_app(RequestClient(db, Settings(web=WebSettings(auth="password", allowed_hosts="localhost"))))
    headers = {"Authorization": f"Bearer {token}"}
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)

    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/", headers=headers) as client:
        answer = await client.get("/api/v1/runs")

    assert (answer.status_code, answer.json()["code"]) == (403, "unknown-role")
    assert WORD in answer.json()["detail"]


async def test_a_scheduler_whose_loop_is_blocked_is_listed(site: httpx2.AsyncClient, db: Database) -> None:
    conn = await db.connect()
    number = await add_scheduler(db, "slow", locked=conn)
    await conn.execute("UPDATE scheduler SET figures = '{\"stalled\": 9.0}' WHERE incarnation = $1", number)

    answer = await site.get("/api/v1/schedulers")
    await conn.close()

    assert [one["status"] for one in answer.json()["items"]] == ["dead", "stalled"]
