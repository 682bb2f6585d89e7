"""A scheduler inside what runs applications: ASGI lifespans, loops kept between calls, threads, pytest, trio."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette

from aiosched import DAG, Scheduler, dag, task
from aiosched.errors import Refused


@dag(schedule=None)
def answers() -> None:
    @task
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    answer()


def built() -> DAG:
    return answers()


async def result_of(scheduler: Scheduler) -> Any:
    return await (await scheduler.trigger("answers")).result()


# -- ASGI lifespans: FastAPI, Starlette, and any server that speaks the protocol -------------------


async def through_lifespan(app: Any, use: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What a server does: start-up, `use`, shut-down."""
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outbox: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    serving = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}}, inbox.get, outbox.put))
    await inbox.put({"type": "lifespan.startup"})
    assert (await outbox.get())["type"] == "lifespan.startup.complete"
    found = await use()
    await inbox.put({"type": "lifespan.shutdown"})
    assert (await outbox.get())["type"] == "lifespan.shutdown.complete"
    await serving
    return found


@pytest.mark.parametrize("framework", [FastAPI, Starlette], ids=["FastAPI", "Starlette"])
async def test_the_lifespan_of_an_application_holds_a_scheduler(dsn: str, framework: Any) -> None:
    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        async with Scheduler(dsn=dsn, dags=[built()]) as scheduler:
            app.state.scheduler = scheduler
            yield

    app = framework(lifespan=lifespan)

    assert await through_lifespan(app, lambda: result_of(app.state.scheduler)) == 42
    assert not app.state.scheduler.is_running


async def test_an_asgi_application_without_lifespans_is_wrapped(dsn: str) -> None:
    """As Django's, which refuses the protocol."""
    scheduler = Scheduler(dsn=dsn, dags=[built()])

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan", "everything else is for the application"
        await receive()
        async with scheduler:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    assert await through_lifespan(wrapped, lambda: result_of(scheduler)) == 42


# -- loops -----------------------------------------------------------------------------------------


def test_a_loop_that_is_kept_between_calls_runs_it(dsn: str) -> None:
    """As the cells of a notebook, and what starts and stops an application in two calls."""
    with asyncio.Runner() as runner:
        scheduler = Scheduler(dsn=dsn, dags=[built()])
        runner.run(scheduler.start())

        assert runner.run(result_of(scheduler)) == 42

        runner.run(scheduler.stop())


def test_a_thread_with_a_loop_of_its_own_runs_it_for_synchronous_code(dsn: str) -> None:
    """As for WSGI, and for programs on trio."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def call(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def made() -> Scheduler:
        return Scheduler(dsn=dsn, dags=[built()])

    try:
        scheduler = call(made())
        call(scheduler.start())
        assert call(result_of(scheduler)) == 42
        call(scheduler.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_without_a_loop_of_asyncio_it_says_so(tmp_path: Path) -> None:
    starting = Scheduler(dsn="postgresql://nobody@127.0.0.1:1/none", parse=False).start()

    with pytest.raises(
        Refused, match=r"needs the event loop of asyncio, and none runs here\. Under trio, start it in a"
    ):
        starting.send(None)  # as trio drives it


# -- pytest ----------------------------------------------------------------------------------------

TEST = """
import asyncio
import pytest
from aiosched import Scheduler, dag, task

{mark}

@dag(schedule=None)
def answers():
    @task
    async def answer():
        return 42

    answer()


async def test_a_result():
    async with Scheduler(dsn={dsn!r}, dags=[answers()]) as scheduler:
        assert await (await scheduler.trigger("answers")).result() == 42
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plugins", "mark"),
    [
        (["-p", "asyncio", "-o", "asyncio_mode=strict"], "pytestmark = pytest.mark.asyncio"),
        (["-p", "anyio"], "pytestmark = pytest.mark.anyio\n@pytest.fixture\ndef anyio_backend(): return 'asyncio'"),
    ],
    ids=["asyncio-strict", "anyio"],
)
def test_pytest_runs_it(dsn: str, tmp_path: Path, plugins: list[str], mark: str) -> None:
    (tmp_path / "test_it.py").write_text(TEST.format(mark=mark, dsn=dsn))
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--disable-plugin-autoload", *plugins, "."]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "1 passed" in done.stdout, done.stdout + done.stderr
