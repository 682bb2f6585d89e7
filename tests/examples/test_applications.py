"""The three applications of examples/embedding: of customers, a bot, and a data API."""

from __future__ import annotations

import asyncio
import runpy
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.examples.test_example_embedding import FOLDER, Application, application

LONGEST = 120


@pytest.mark.parametrize("name", ["tenants", "bot", "nightly"])
def test_it_is_short(name: str) -> None:
    assert len((FOLDER / f"{name}.py").read_text().splitlines()) < LONGEST


async def answered(app: Application, path: str, has: Callable[[Any], bool]) -> Any:
    """What a GET answers once it `has` what is waited for."""
    while not has(found := (await app.client.get(path)).json()):  # noqa: ASYNC110  another process
        await asyncio.sleep(0.05)
    return found


async def rows(dsn: str, query: str, *values: Any) -> list[Any]:
    conn = await asyncpg.connect(dsn)
    try:
        return [tuple(row) for row in await conn.fetch(query, *values)]
    finally:
        await conn.close()


async def test_an_order_is_shipped_if_and_only_if_it_is_committed(dsn: str, short_path: Path) -> None:
    async with application(dsn, short_path, "tenants") as app:
        asked = await app.client.post("/tenants/7/orders", params={"amount": "12.50"})
        refused = await app.client.post("/tenants/7/orders", params={"amount": "0"})

        assert (asked.status_code, asked.json(), refused.status_code) == (202, {"order": 1}, 422)
        found = await answered(app, "/orders/1", lambda order: order["shipped"] is not None)
        assert found == {"order": 1, "shipped": "12.50 EUR to tenant 7"}
        assert (await app.client.get("/orders/2")).status_code == 404

    assert await rows(dsn, "SELECT count(*) FROM dag_run WHERE dag_id = 'ship'") == [(1,)]


@pytest.mark.slow
async def test_each_tenant_has_a_schedule_of_its_own_which_survives_a_restart(dsn: str, short_path: Path) -> None:
    daily = {"cron": "0 6 * * *", "zone": "Europe/Amsterdam"}
    async with application(dsn, short_path, "tenants") as app:
        for tenant in (7, 8):
            assert (await app.client.put(f"/tenants/{tenant}/report", params=daily)).json()["next"] is not None
        wrong = await app.client.put("/tenants/9/report", params={"cron": "61 * * * *"})
        assert (wrong.status_code, (await app.client.delete("/tenants/8/report")).status_code) == (422, 204)
    async with application(dsn, short_path, "tenants") as app:
        await app.client.put("/tenants/10/report", params={"cron": "*/1 * * * * *"})  # each second
        while not await rows(dsn, "SELECT 1 FROM dag_run WHERE dag_id = 'report' AND state = 'success'"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    assert await rows(dsn, "SELECT name FROM dag_schedule ORDER BY name") == [("tenant-10",), ("tenant-7",)]


# -- the bot


class Talk:
    """A bot in this process, and what it has said."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.hear: Any = None
        self.scheduler: Any = None

    async def send(self, text: str) -> None:
        await self.said.put(text)

    async def until(self, text: str) -> str:
        while text not in (found := await self.said.get()):
            pass
        return found


@asynccontextmanager
async def bot(dsn: str, **options: Any) -> AsyncIterator[Talk]:
    module, talk = runpy.run_path(str(FOLDER / "bot.py")), Talk()
    talk.scheduler, talk.hear = module["make"](module["Chat"](talk.send), dsn=dsn, **options)
    async with talk.scheduler:
        yield talk


async def test_a_bot_reminds_once_and_tells_its_digest_again_and_again(dsn: str) -> None:
    async with bot(dsn, digest=0.2) as talk:
        await talk.until("0 messages until now, 0 reminders")
        await talk.hear("remind 0.1 drink something")
        await talk.until("UTC")
        await talk.until("⏰ drink something")
        await talk.until("1 messages until now")
        await talk.hear("hello")
        await talk.until("remind SECONDS TEXT")
        await talk.hear("remind soon tea")
        await talk.until("how long is 'soon'?")


async def test_a_bot_is_muted_until_the_last_request_has_passed(dsn: str) -> None:
    async with bot(dsn, digest=0.2) as talk:
        await talk.hear("mute 3600")
        await talk.until("muted")
        await talk.hear("mute 0.1")
        await talk.until("muted")
        await talk.until("messages until now")

    assert await rows(dsn, "SELECT state FROM dag_run WHERE dag_id = 'unmute'") == [("success",)]


async def test_a_reminder_whose_instant_passed_while_the_bot_was_off_comes_at_its_start(dsn: str) -> None:
    async with bot(dsn) as talk:
        await talk.hear("remind 3600 tea")
    await rows(dsn, "UPDATE dag_schedule SET at = now() - interval '1 h', next_at = now() - interval '1 h'")
    async with bot(dsn) as talk:
        await talk.until("⏰ tea")


@pytest.mark.slow
async def test_the_bot_is_a_program(dsn: str, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(FOLDER / "bot.py")),
        env={"AIOSCHED_DSN": dsn, "PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"remind 0.1 tea\n")
    while "⏰ tea" not in (line := (await process.stdout.readline()).decode()):
        assert line
    process.stdin.close()
    await process.communicate()
    assert process.returncode == 0


# -- the data API


async def test_a_night_is_served_once_it_is_checked_and_nights_are_filled_again(dsn: str, short_path: Path) -> None:
    last = date.today() - timedelta(days=2)  # noqa: DTZ011  days of the past, in whatever zone
    days = {"first": str(last - timedelta(days=2)), "last": str(last)}
    async with application(dsn, short_path, "nightly") as app:
        asked = await app.client.post("/sales/refill", params=days)
        assert (asked.status_code, len(asked.json()["dates"])) == (202, 3)

        found = await answered(app, "/sales", lambda night: night.get("day", "") >= str(last))
        assert found["total"] == 15 + 3 * date.fromisoformat(found["day"]).day  # that of last night was due, too
        assert "next" in (await app.client.get("/sales/why")).json()["why"]
        wrong = await app.client.post("/sales/refill", params={"first": str(last), "last": days["first"]})
        assert wrong.status_code == 422

        while await rows(dsn, "SELECT count(*) FROM sale WHERE day <= $1", last) != [(9,)]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
