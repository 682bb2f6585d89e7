"""The applications of examples/embedding/frameworks, each under the server that people run it with."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.examples.test_example_embedding import FOLDER, Application, finished, serving

pytestmark = pytest.mark.slow

FRAMEWORKS = FOLDER / "frameworks"
UVICORN = [sys.executable, "-m", "uvicorn", "--app-dir", str(FRAMEWORKS), "--uds", "app.sock"]


async def greeted(app: Application, name: str) -> None:
    assert f"hello {name}" in (await app.client.get(f"/greetings/{name}", timeout=60)).text


async def schedulers(dsn: str) -> int:
    """How many schedulers are members of the fleet."""
    conn = await asyncpg.connect(dsn)
    try:
        return int(await conn.fetchval("SELECT count(*) FROM scheduler"))
    finally:
        await conn.close()


@pytest.mark.parametrize("module", ["litestar_app", "django_app"])
async def test_an_asgi_application_serves_and_leaves_the_fleet_when_it_stops(
    dsn: str, short_path: Path, module: str
) -> None:
    command = [*UVICORN, f"{module}:app"]
    async with serving(command, dsn, short_path, ended="Application shutdown complete") as app:
        await app.until("Application startup complete", "Uvicorn running on")
        await greeted(app, "Ada")
        assert await schedulers(dsn) == 1

    assert await schedulers(dsn) == 0


async def test_an_aiohttp_application_does_too(dsn: str, short_path: Path) -> None:
    command = [sys.executable, "-u", str(FRAMEWORKS / "aiohttp_app.py"), str(short_path / "app.sock")]
    async with serving(command, dsn, short_path) as app:
        await app.reachable()
        await greeted(app, "Ada")
        assert await schedulers(dsn) == 1

    assert await schedulers(dsn) == 0


async def test_each_worker_of_gunicorn_is_a_scheduler_of_one_fleet(dsn: str, short_path: Path) -> None:
    worker = ["--worker-class", "uvicorn_worker.UvicornWorker", "--workers", "2", "--graceful-timeout", "60"]
    command = [
        *(sys.executable, "-m", "gunicorn", *worker, "--chdir", str(FOLDER), "--bind", f"unix:{short_path}/app.sock"),
        "app:app",
    ]
    async with serving(command, dsn, short_path) as app:
        await app.until(*["Application startup complete"] * 2)
        assert await schedulers(dsn) == 2
        runs = [(await app.client.post("/reports", timeout=60)).json()["run_id"] for _ in range(4)]
        assert [await finished(app.client, run_id) for run_id in runs] == ["success"] * 4

    assert await schedulers(dsn) == 0


@contextlib.asynccontextmanager
async def changing(file: Path) -> AsyncIterator[None]:
    """Change the time of a file again and again: uvicorn may not watch it yet when it is written."""

    async def touch() -> None:
        for step in itertools.count(1):
            await asyncio.sleep(2)
            os.utime(file, (time.time(), time.time() + step))

    touching = asyncio.create_task(touch())
    try:
        yield
    finally:
        touching.cancel()


async def test_uvicorn_that_reloads_starts_another_scheduler_with_the_code_of_now(dsn: str, short_path: Path) -> None:
    source = short_path / "litestar_app.py"
    shutil.copy(FRAMEWORKS / "litestar_app.py", source)
    command = [
        *(sys.executable, "-m", "uvicorn", "--reload", "--reload-dir", str(short_path), "--app-dir", str(short_path)),
        *("--uds", "app.sock", "litestar_app:app"),
    ]
    async with serving(command, dsn, short_path) as app:
        await app.until("Application startup complete")
        await app.reachable()  # it listens a moment later, and says no more
        await greeted(app, "Ada")
        source.write_text(source.read_text().replace("hello ", "hello, hello "))
        async with changing(source):
            await app.until("Reloading")
        await app.until("Application shutdown complete", "Application startup complete")
        await app.reachable()

        assert "hello, hello Ada" in (await app.client.get("/greetings/Ada", timeout=60)).text
        assert await schedulers(dsn) == 1

    assert await schedulers(dsn) == 0
