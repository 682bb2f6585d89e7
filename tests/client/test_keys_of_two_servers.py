"""`Idempotency-Key` at two web servers of one database, which are processes: one request, whichever of them dies."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import Popen

import httpx2
import pytest

from aiosched.db.server.engine import Database
from tests.cli.serving import serve, wait_for
from tests.client.test_repeated_requests import scheduler_of
from tests.patience import PATIENCE

pytestmark = pytest.mark.slow

RUNS = "/api/v1/dags/pay/runs"
WAIT_FOR_A_LOCK = """
    SELECT count(*) FROM pg_locks WHERE relation = 'request'::regclass AND NOT granted AND pid <> pg_backend_pid()
"""


class Site:
    """Two web servers."""

    def __init__(self, processes: list[Popen[str]], clients: list[httpx2.AsyncClient], db: Database) -> None:
        self.processes, self.clients, self.db = processes, clients, db

    async def ask(self, server: int, key: str, n: int = 0) -> httpx2.Response | None:
        """Ask for a run; None if the server dies over it."""
        with contextlib.suppress(httpx2.TransportError):
            return await self.clients[server].post(RUNS, json={"conf": {"n": n}}, headers={"Idempotency-Key": key})
        return None

    async def value(self, query: str) -> int:
        return int(await self.db.fetchval(query))

    async def until(self, query: str, wanted: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self.value(query) != wanted:  # noqa: ASYNC110  it is in the database
                await asyncio.sleep(0.01)

    async def assert_one(self) -> None:
        assert await self.value("SELECT count(*) FROM request WHERE verb = 'trigger'") == 1
        assert await self.value("SELECT count(*) FROM dag_run WHERE dag_id = 'pay'") == 1


@pytest.fixture
async def site(dsn: str, db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setenv("AIOSCHED__WEB__AUTH", "none")
    async with contextlib.AsyncExitStack() as stack:
        async with scheduler_of(dsn):
            pass  # its DAGs are stored
        processes, clients = [], []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            process = stack.enter_context(serve(tmp_path / name, dsn, "--role", "web", "--port", "0"))
            url = (await asyncio.to_thread(wait_for, process, "web"))["url"]
            processes.append(process)
            clients.append(await stack.enter_async_context(httpx2.AsyncClient(base_url=url, timeout=PATIENCE)))
        yield Site(processes, clients, db)


async def test_whoever_is_asked_and_however_often_there_is_one_run(dsn: str, site: Site) -> None:
    async with scheduler_of(dsn):
        answers = await asyncio.gather(*(site.ask(n % 2, "order 7") for n in range(40)))

        assert {(one.status_code, one.json()["run_id"]) for one in answers if one} == {
            (201, answers[0].json()["run_id"] if answers[0] else None)
        }
        await site.assert_one()


async def test_of_different_requests_with_a_key_the_first_is_done_and_the_others_are_refused(
    dsn: str, site: Site
) -> None:
    async with scheduler_of(dsn):
        answers = await asyncio.gather(*(site.ask(n % 2, "order 7", n // 4) for n in range(40)))

        assert Counter(one.status_code for one in answers if one) == {201: 4, 409: 36}
        assert all("was sent with another request" in one.text for one in answers if one and one.status_code == 409)
        await site.assert_one()


async def test_one_that_dies_after_it_has_asked_is_asked_again_at_the_other(dsn: str, site: Site) -> None:
    asked = asyncio.create_task(site.ask(0, "order 7"))
    await site.until("SELECT count(*) FROM request", 1)
    site.processes[0].kill()
    assert await asked is None
    other = asyncio.create_task(site.ask(1, "order 7", 1))
    again = asyncio.create_task(site.ask(1, "order 7"))
    async with scheduler_of(dsn):
        refused, answer = await other, await again

        assert [one.status_code for one in (refused, answer) if one] == [409, 201]
        await site.assert_one()


async def test_one_that_dies_while_postgresql_still_works_for_it(dsn: str, site: Site) -> None:
    """Its session in the server goes on, and may store the request that nobody waits for any more."""
    async with site.db.transaction() as conn:
        await conn.execute("LOCK TABLE request IN SHARE MODE")
        asked = [asyncio.create_task(site.ask(n % 2, "order 7")) for n in range(4)]
        await site.until(WAIT_FOR_A_LOCK, 4)
        site.processes[0].kill()
        await asyncio.wait(asked[::2])
    async with scheduler_of(dsn):
        answers = [await one for one in asked]

        assert answers[::2] == [None, None]
        assert [one.status_code for one in answers[1::2] if one] == [201, 201]
        await site.assert_one()
