"""The application of examples/embedding: it serves requests while DAGs run, and stops in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import httpx2
import pytest

from tests.patience import PATIENCE

FOLDER = Path(__file__).parents[2] / "examples" / "embedding"


@dataclass
class Application:
    """A running server: a client for it, and the lines that it has written."""

    process: asyncio.subprocess.Process
    client: httpx2.AsyncClient
    lines: list[str]

    async def until(self, *texts: str) -> None:
        """Read the log until each of `texts` has had a line of its own; fail with all of it when it ends before."""
        assert self.process.stderr is not None
        waiting = list(texts)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while waiting and (line := (await self.process.stderr.readline()).decode()):
                    self.lines.append(line)
                    if found := next((text for text in waiting if text in line), None):
                        waiting.remove(found)
        assert waiting == [], "".join(self.lines)

    async def ended(self) -> None:
        """Read until it and all that it has started have closed their output, so that this does not fill the pipe."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self.process.communicate()
        except TimeoutError:
            raise AssertionError(f"it does not end:\n{''.join(self.lines)}") from None

    async def reachable(self) -> None:
        """Ask until something answers."""
        while self.process.returncode is None:
            with contextlib.suppress(httpx2.TransportError):
                await self.client.get("/")
                return
            await asyncio.sleep(0.05)
        await self.until("it answers")


@asynccontextmanager
async def serving(
    command: Sequence[str], dsn: str, folder: Path, *, ended: str = "", times: int = 1
) -> AsyncIterator[Application]:
    """A server on the Unix socket `app.sock` in `folder`, stopped with TERM at the end; it says `ended` then."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIOSCHED")}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment | {"AIOSCHED_DSN": dsn},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    transport = httpx2.AsyncHTTPTransport(uds=str(folder / "app.sock"))
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://app") as client:
            app = Application(process, client, [])
            yield app
            process.send_signal(signal.SIGTERM)
            await app.until(*[ended] * times if ended else [])
            await app.ended()
    finally:
        with contextlib.suppress(ProcessLookupError):  # also what it has started, which else keeps its output open
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@asynccontextmanager
async def application(dsn: str, folder: Path, name: str = "app", *, workers: int = 1) -> AsyncIterator[Application]:
    """An example under uvicorn."""
    arguments = ["--app-dir", str(FOLDER), f"{name}:app", "--uds", "app.sock", "--workers", str(workers)]
    command = [sys.executable, "-m", "uvicorn", *arguments, "--no-access-log"]
    async with serving(command, dsn, folder, ended="Application shutdown complete", times=workers) as app:
        await app.until("Uvicorn running on", *["Application startup complete"] * workers)
        yield app


async def finished(client: httpx2.AsyncClient, run_id: str) -> str:
    """Ask for the run's state, and for the application's health, until the run has ended."""
    while True:
        state: str = (await client.get(f"/reports/{run_id}")).json()["state"]
        if state in ("success", "failed"):
            return state
        assert (await client.get("/health")).json() == {"status": "ok"}


async def test_requests_are_served_while_runs_that_they_started_go_on(dsn: str, short_path: Path) -> None:
    async with application(dsn, short_path) as app:
        asked = await app.client.post("/reports", params={"city": "Utrecht"})

        assert asked.status_code == 202
        assert await finished(app.client, asked.json()["run_id"]) == "success"


@pytest.mark.slow
async def test_a_run_that_does_not_exist_is_not_found(dsn: str, short_path: Path) -> None:
    async with application(dsn, short_path) as app:
        assert (await app.client.get("/reports/manual__nobody")).status_code == 404


@pytest.mark.slow
async def test_each_run_happens_once_with_two_processes_on_one_database(dsn: str, short_path: Path) -> None:
    async with application(dsn, short_path, workers=2) as app:
        asked = [await app.client.post("/reports", params={"city": city}) for city in ("Utrecht", "Delft", "Assen")]

        ends = [await finished(app.client, answer.json()["run_id"]) for answer in asked]

    assert ends == ["success"] * 3
    assert await tries(dsn) == [1] * 12


async def tries(dsn: str) -> list[int]:
    conn = await asyncpg.connect(dsn)
    try:
        rows = await conn.fetch(
            "SELECT try_number FROM task_instance t JOIN dag_run r ON r.id = t.run_id WHERE dag_id = 'report'"
        )
    finally:
        await conn.close()
    return [row["try_number"] for row in rows]
