"""Whatever the database answers, a server that starts or runs says it, goes on, and is well when it is over."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import text
from starlette.types import Receive, Scope, Send

from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_about_content
from aiosched.web.server import ports, problems, uvicorn_server
from aiosched.web.views import database_watch
from aiosched.web.views.database_watch import DatabaseWatch
from tests.database_answers import EVERY, OF_THE_DATABASE
from tests.one_dag import Broken
from tests.patience import PATIENCE


async def test_a_server_starts_after_any_class_of_errors(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_watch, "ASK_SECONDS", 0.001)
    left: list[type[Exception]] = [*EVERY, Broken, AttributeError]
    told: list[str] = []

    async def prepare() -> None:
        if left:
            raise left.pop()("said")

    watch = DatabaseWatch(db)
    watch.on_change.append(lambda: told.append("well" if watch.outage is None else watch.outage.detail))
    await watch.prepare(prepare)
    async with asyncio.timeout(PATIENCE):
        await watch.prepared.wait()

    assert not left
    assert "said" in told[0]
    watch.close()


async def test_a_watch_outlives_any_class_of_errors(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that ended would leave the banner, and every refusal, for ever."""
    monkeypatch.setattr(database_watch, "ASK_SECONDS", 0.001)
    ask, kinds = DatabaseWatch._ask, [*EVERY, Broken, AttributeError]
    left = [kind for kind in kinds for _ in range(database_watch.ATTEMPTS)]

    async def fails(watch: DatabaseWatch) -> None:
        if left:
            raise left.pop()("said")
        await ask(watch)

    monkeypatch.setattr(DatabaseWatch, "_ask", fails)
    watch = DatabaseWatch(db)
    lost = asyncio.Event()
    watch.on_change.append(lost.set)
    async with asyncio.timeout(PATIENCE):
        with watch.wanted():
            await lost.wait()
        await watch.until_it_answers()

    assert (left, watch.outage) == ([], None)
    watch.close()


async def test_a_request_is_to_be_repeated_after_any_class_of_errors_that_it_did_not_cause(db: Database) -> None:
    app = FastAPI()
    problems.install(app, db)
    raised: list[Exception] = []

    @app.get("/")
    async def fails() -> None:
        raise raised.pop()

    @app.get("/queries")
    async def fails_in_a_query() -> None:
        async with db.engine.connect() as conn:
            await conn.execute(text("SELECT * FROM nowhere"))

    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for kind in EVERY:
            error = kind("said")
            raised.append(error)
            answer = await client.get("/")
            expected = (500, "internal") if is_about_content(error) else (503, "database")
            assert (answer.status_code, answer.json()["code"]) == expected, kind
        of_a_query = await client.get("/queries")
        raised.append(ConnectionRefusedError(111, "by the place of logs"))
        elsewhere = await client.get("/")

    assert (of_a_query.status_code, of_a_query.headers["Retry-After"]) == (503, "2")
    assert "nowhere" in of_a_query.json()["detail"]
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (500, "internal")
    assert len(OF_THE_DATABASE) > 30


@pytest.mark.parametrize("fails", ["at its start", "at its end", None])
async def test_a_server_whose_lifespan_fails_ends_with_that_error(fails: str | None) -> None:
    """Uvicorn logs it, and ends as if it had been asked to, with exit code 0, or exits at once, by its version."""
    started = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if fails == "at its start":
            raise Broken(fails)
        await send({"type": "lifespan.startup.complete"})
        started.set()
        await receive()
        if fails == "at its end":
            raise Broken(fails)
        await send({"type": "lifespan.shutdown.complete"})

    stop = asyncio.Event()
    expected: Any = contextlib.nullcontext() if fails is None else pytest.raises(Broken, match=fails)
    with contextlib.closing(ports.bind("127.0.0.1", 0)) as sock:
        serving = asyncio.create_task(uvicorn_server.serve(app, sock, stop))
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        waiting.cancel()
        stop.set()
        with expected:
            await asyncio.wait_for(serving, PATIENCE)
