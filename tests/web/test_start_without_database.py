"""A web server that starts while its database cannot be used serves at once, and is well when that is over."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest
from starlette.types import ASGIApp

from aiosched.config import Settings
from aiosched.config.sections import WebSettings
from aiosched.db.server.dsn import address_of
from aiosched.db.server.engine import Database
from aiosched.db.server.migrate import migrate
from aiosched.db.server.schema_version import HEAD, check_schema
from aiosched.web.app import make_app
from aiosched.web.process import WebProcess
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server import ports
from aiosched.web.views import database_watch
from aiosched.web.views.database_watch import Preparation
from aiosched.web.worker_api.endpoints import make_worker_api
from tests.conftest import short_folder
from tests.database_answers import CONDITIONS
from tests.database_roles import roles_of
from tests.patience import PATIENCE
from tests.suspending import own_server

LOGINS = Settings(web=WebSettings(auth="password", admin_password="long enough"))


@pytest.fixture(autouse=True)
def asks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_watch, "ASK_SECONDS", 0.1)


@dataclass
class Site:
    """A web server without a socket, whose lifespan has begun."""

    app: Any
    client: httpx2.AsyncClient

    async def prepared(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.app.state.watch.prepared.wait()

    async def refuses(self, reason: str) -> None:
        """What needs no database is served, the rest says what is wrong."""
        for path in ("livez", "", "dags/x", "docs/", "ui/app.js"):
            assert (await self.client.get(path)).status_code == 200, path
        refused = [await self.client.get("api/v1/pools"), await self.client.get("api/v1/me")]
        refused.append(await self.client.post("api/v1/login", json={"name": "admin", "password": "long enough"}))
        assert {(one.status_code, one.json()["code"]) for one in refused} == {(503, "database")}
        assert reason in refused[0].json()["detail"]
        assert (await self.client.get("readyz")).status_code == 503
        assert (await self.client.post("worker/v1/starts", content=b"")).status_code == 503

    async def is_well(self) -> None:
        await self.prepared()
        assert (await self.client.get("api/v1/pools")).status_code == 401
        answer = await self.client.post("api/v1/login", json={"name": "admin", "password": "long enough"})
        assert answer.status_code == 200, answer.text
        assert (await self.client.post("worker/v1/starts", content=b"")).status_code == 401


@contextlib.asynccontextmanager
async def starting(dsn: str, *, migrate: Preparation | None = None) -> AsyncIterator[Site]:
    async with await Database.open(dsn, application_name="web", at_once=False) as db:
        app = make_app(RequestClient(db, LOGINS), migrate=migrate)
        async with app.router.lifespan_context(app), _client(app) as client:
            yield Site(app, client)


@contextlib.asynccontextmanager
async def _client(app: ASGIApp) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/", timeout=PATIENCE) as client:
        yield client


@pytest.mark.fresh_database  # it is renamed
@pytest.mark.parametrize("condition", CONDITIONS)
async def test_what_an_administrator_has_done_is_said_and_waited_for(dsn: str, server: Any, condition: str) -> None:
    bad, good, reason = CONDITIONS[condition]
    async with roles_of(dsn) as roles:
        names = {"db": address_of(dsn).database, "role": address_of(roles.web).user}
        await server.execute(bad.format(**names))
        try:
            async with starting(roles.web) as site:
                await site.refuses(reason.format(**names))
                await server.execute(good.format(**names))
                await site.is_well()
        finally:
            with contextlib.suppress(asyncpg.PostgresError):
                await server.execute(good.format(**names))


async def test_a_schema_that_is_missing_is_said_until_somebody_migrates(dsn: str, db: Database) -> None:
    await db.execute("DELETE FROM alembic_version")
    async with starting(dsn) as site:
        await site.refuses("aiosched db migrate")
        await db.execute(f"INSERT INTO alembic_version VALUES ('{HEAD}')")
        await site.is_well()


async def test_one_that_shall_migrate_does_so_when_the_database_lets_it(empty_dsn: str, server: Any) -> None:
    name = address_of(empty_dsn).database
    await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    async with starting(empty_dsn, migrate=partial(migrate, empty_dsn)) as site:
        await site.refuses("not currently accepting connections")
        await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        await site.is_well()


async def test_a_table_that_is_locked_is_named_as_the_reason(
    dsn: str, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_watch, "_PREPARING_SECONDS", 0.1)
    async with db.acquire() as conn, conn.transaction():
        await conn.execute("LOCK TABLE web_user")
        async with starting(dsn) as site:
            await site.refuses("aiosched doctor")
            await conn.execute("ROLLBACK; BEGIN")
            await site.is_well()


async def test_an_error_that_is_not_the_databases_is_told_too(dsn: str) -> None:
    async def fails() -> None:
        if not mended:
            raise ValueError("a setting is wrong")

    mended: list[bool] = []
    async with starting(dsn, migrate=fails) as site:
        await site.refuses("a setting is wrong")
        mended.append(True)
        await site.is_well()


@pytest.mark.slow
async def test_a_server_that_is_away_or_hangs() -> None:
    folder = short_folder()
    try:
        with own_server(folder / "pg") as postgres:
            dsn = postgres.start()
            await migrate(dsn)
            for take, give in ((postgres.kill, postgres.start), (postgres.suspend, postgres.resume)):
                take()
                async with starting(dsn) as site:
                    await site.refuses("does not answer")
                    give()
                    await site.is_well()
    finally:
        shutil.rmtree(folder)


async def test_the_worker_api_alone_starts_without_its_database_too(empty_dsn: str) -> None:
    async with await Database.open(empty_dsn, at_once=False) as db:
        watch = database_watch.DatabaseWatch(db)
        app = make_worker_api(db, Settings(), watch)
        async with _client(app) as client:
            await watch.prepare(partial(check_schema, db))
            assert (await client.get("livez")).status_code == 200
            assert (await client.get("readyz")).status_code == 503
            refused = await client.post("worker/v1/starts", content=b"")
            assert (refused.status_code, "aiosched db migrate" in refused.text) == (503, True)
        watch.close()


@contextlib.asynccontextmanager
async def child(dsn: str) -> AsyncIterator[str]:
    """The web process of `aiosched serve`; its address."""
    sock = ports.bind("127.0.0.1", 0)
    process = WebProcess(LOGINS, dsn, sock)
    await process.start()
    try:
        yield ports.url_of(sock, "127.0.0.1")
    finally:
        await process.stop()


@contextlib.asynccontextmanager
async def alone(dsn: str, role: str, folder: Path) -> AsyncIterator[str]:
    """`aiosched serve --role …`; its address."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    words = ("serve", "--role", role, "--dsn", dsn, "--port", str(port), "--home", str(folder), "-o", "json")
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "aiosched", *words)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        assert await process.wait() == 0


async def until(question: Callable[[], Awaitable[int]], wanted: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(httpx2.TransportError):
                if await question() == wanted:
                    return
            await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["child", "web", "worker-api"])
@pytest.mark.parametrize("hangs", [False, True])
async def test_processes_answer_while_nothing_or_nobody_listens_for_the_database(
    dsn: str, tmp_path: Path, how: str, hangs: bool
) -> None:
    """A port that refuses, or that takes connections and never answers."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        if hangs:
            nobody.listen()
        database = f"postgresql://nobody:n0-b0dy@127.0.0.1:{nobody.getsockname()[1]}/x"
        served = child(database) if how == "child" else alone(database, how, tmp_path)
        async with served as url, httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:

            async def status(path: str) -> int:
                answer = await client.get(path)
                assert "n0-b0dy" not in answer.text
                return answer.status_code

            await until(partial(status, "/livez"), 200)
            assert await status("/readyz") == 503
            if how != "worker-api":
                assert await status("/") == 200
                assert await status("/docs/") == 200
                assert await status("/api/v1/pools") == 503


@pytest.mark.slow
async def test_the_child_of_serve_goes_on_when_the_database_may_be_used(dsn: str, server: Any) -> None:
    name = address_of(dsn).database
    await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    async with child(dsn) as url, httpx2.AsyncClient(base_url=url) as client:

        async def status(path: str) -> int:
            return (await client.get(path, timeout=PATIENCE)).status_code

        await until(partial(status, "/livez"), 200)
        assert await status("/api/v1/pools") == 503
        await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        await until(partial(status, "/api/v1/pools"), 401)
