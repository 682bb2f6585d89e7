"""What tasks ask, and answering it: the API and the command line, on a running scheduler."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from aiosched import DAG, ApprovalOperator, HITLOperator
from aiosched.authoring.base.params import Param
from aiosched.client import Client
from aiosched.config import Settings, WebSettings
from aiosched.errors import Refused
from aiosched.scheduler import Scheduler
from tests.patience import PATIENCE


@pytest.fixture
async def scheduler(answered: None, dsn: str) -> AsyncIterator[Scheduler]:
    with DAG("shop") as dag:
        pin = Param("", type="string", format="password")
        HITLOperator(
            task_id="price", subject="Price?", options=["keep", "change"],
            params={"euros": Param(type="integer"), "pin": pin},
        )  # fmt: skip
        ApprovalOperator(task_id="pay", subject="Pay?", assigned_users=["ada", {"id": "2", "name": "bob"}])
    async with Scheduler(dsn=dsn, dags=[dag], settings=Settings(web=WebSettings(auth="none"))) as scheduler:
        await scheduler.trigger("shop", run_id="r")
        yield scheduler


@pytest.fixture
async def live(scheduler: Scheduler) -> httpx2.ASGITransport:
    app = FastAPI()
    app.mount("/flows", scheduler.web_app())
    return httpx2.ASGITransport(app=app)


async def waiting(client: Client, count: int) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = [each async for each in client.inputs(waiting=True)]
            if len(found) == count:
                return {each.task_id: each for each in found}
            await asyncio.sleep(0.01)


async def test_a_client_reads_and_answers(scheduler: Scheduler, live: httpx2.ASGITransport) -> None:
    async with Client("http://host.example/flows", transport=live) as client:
        found = await waiting(client, 2)
        assert (found["price"].subject, found["price"].options) == ("Price?", ["keep", "change"])
        assert found["price"].params["euros"].required
        assert found["pay"].respondents == ["ada", "bob"]
        with pytest.raises(Refused, match="Param 'euros' has no default"):
            await client.answer("shop", "latest", "price", ["keep"])
        with pytest.raises(Refused, match="Only ada, bob may answer 'Pay\\?', not local"):
            await client.answer("shop", "r", "pay", ["Approve"])
        params = {"euros": 3, "pin": "4711"}
        answer = await client.answer("shop", "r", "price", ["change"], params=params, reason="agreed")
        assert (answer.options, answer.params["euros"]) == (["change"], 3)
        assert set(await waiting(client, 1)) == {"pay"}
        (done,) = [each async for each in client.inputs(dag_id="shop", task_id="price")]
        assert (done.state, done.answered_by) == ("answered", "api:local")
        assert done.answer.params == {"euros": 3, "pin": "***"}


async def test_pages_follow_each_other(scheduler: Scheduler, live: httpx2.ASGITransport) -> None:
    async with (
        Client("http://host.example/flows", transport=live) as client,
        httpx2.AsyncClient(transport=live, base_url="http://host.example/flows/api/v1/") as http,
    ):
        await waiting(client, 2)
        first = (await http.get("inputs", params={"limit": 1})).json()
        second = (await http.get("inputs", params={"limit": 1, "cursor": first["next_cursor"]})).json()
        assert {page["items"][0]["task_id"] for page in (first, second)} == {"price", "pay"}
        assert second["next_cursor"] is None


@pytest.mark.slow
async def test_the_command_line_answers_as_the_user_of_this_machine(
    dsn: str, scheduler: Scheduler, live: httpx2.ASGITransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def command(*words: str) -> tuple[int, Any]:
        process = await asyncio.create_subprocess_exec(
            *("aiosched", "inputs", *words, "--dsn", dsn, "-o", "json"), stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        return process.returncode or 0, json.loads(output) if output.strip() else None

    monkeypatch.setenv("LOGNAME", "ada")
    async with Client("http://host.example/flows", transport=live) as client:
        await waiting(client, 2)
        code, rows = await command("list")
        assert (code, {row["task_id"] for row in rows}) == (0, {"price", "pay"})
        assert (await command("answer", "shop", "r", "price", "maybe", "-p", "euros=1"))[0] == 2
        code, answer = await command("answer", "shop", "r", "pay", "Reject")
        assert (code, answer["options"]) == (0, ["Reject"])
        assert set(await waiting(client, 1)) == {"price"}
