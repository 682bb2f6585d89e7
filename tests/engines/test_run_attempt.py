"""`aiosched worker run-attempt`: what an engine starts, as a process, with a server of the role worker-api."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from aiosched.config import Settings
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo
from aiosched.core.values.worker_messages import Job
from aiosched.db.engines.attempts import insert_attempts, new_attempt
from aiosched.db.engines.tokens import TokenSigner
from aiosched.db.people.signing_keys import OF_ATTEMPTS, signing_keys
from aiosched.db.server.engine import Database
from tests.engines.test_engine_attempts import GUARD, until

NOW = datetime(2026, 1, 1, tzinfo=UTC)

TASKS = """
import time
from pathlib import Path
from aiosched import DAG, task
from aiosched.errors import SkipTask

with DAG("d", schedule=None):
    @task
    def good():
        print("hello")
        return 1

    @task
    def bad():
        raise ValueError("no")

    @task
    def skipped():
        raise SkipTask("not today")

    @task
    def patient():
        Path({here!r}, "began").touch()
        time.sleep(1000)

    good(), bad(), skipped(), patient()
"""


class Place:
    """A server for workers, and what engines deliver."""

    def __init__(self, db: Database, settings: Settings, url: str, folder: Path) -> None:
        self.db, self.settings, self.url, self.folder = db, settings, url, folder
        self.number = 0

    async def job(self, task_id: str) -> Job:
        self.number += 1
        run = RunInfo(key=self.number, dag_id="d", run_id="r", run_type="manual", run_after=NOW, file="d.py")
        key = AttemptKey(self.number, 0, -1, 1)
        attempt = Attempt(key=key, run=run, task_id=task_id, is_async=False, max_tries=0)
        async with self.db.transaction() as conn:
            scheduler = await conn.fetchval(
                "INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at)"
                " VALUES ('s', 'h', 1, '0', 'engine', 1, now() + interval '1 hour') RETURNING incarnation"
            )
            new = [new_attempt(partition_of("d"), "engine", attempt)]
            ids = await insert_attempts(conn, new, incarnation=scheduler)
        token = TokenSigner(await signing_keys(self.db, accepted_for=OF_ATTEMPTS)).seal(ids[key], key)
        return Job(id=ids[key], token=token, urls=("http://127.0.0.1:1", self.url), title=task_id)

    async def start(self, job: Job | bytes) -> asyncio.subprocess.Process:
        """`aiosched worker run-attempt`, which reads the job from its standard input."""
        text = job if isinstance(job, bytes) else msgspec.json.encode(job)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AIOSCHED_DSN")}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "aiosched", "worker", "run-attempt", "--grace", "0",
            "--dags", str(self.settings.core.dags_folder),
            stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=self.folder, env=environment,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        return process

    async def run(self, job: Job | bytes) -> tuple[int, str]:
        process = await self.start(job)
        assert process.stderr is not None
        said = (await process.stderr.read()).decode()
        return await process.wait(), said

    async def outcomes(self) -> list[tuple[Any, ...]]:
        """How attempts ended; of those that run for longer than a heartbeat there are reports of the start, too."""
        query = "SELECT outcome, body->>'reason', body->'xcoms' #>> '{}' FROM task_report ORDER BY id"
        async with self.db.acquire() as conn:
            rows = [tuple(row) for row in await conn.fetch(query)]
        return [row for row in rows if row[0] != "started"]


@pytest.fixture
async def place(settings: Settings, dsn: str, tmp_path: Path) -> AsyncIterator[Place]:
    (settings.core.dags_folder / "d.py").write_text(TASKS.format(here=str(tmp_path)))
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "aiosched", "serve", "--role", "worker-api", "--dsn", dsn, "--port", str(port),
        "--home", str(settings.core.home), stdout=asyncio.subprocess.DEVNULL, cwd=tmp_path,
        env={**os.environ, "AIOSCHED__LOGS__REMOTE": f"file://{tmp_path / 'remote'}"},
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    async with httpx2.AsyncClient() as http, asyncio.timeout(GUARD):
        while True:
            try:
                if (await http.get(f"{url}/readyz")).status_code == 200:
                    break
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
    async with await Database.open(dsn) as db:
        yield Place(db, settings, url, tmp_path)
    server.terminate()
    assert await server.wait() == 0


async def test_the_exit_code_says_what_became_of_the_attempt(place: Place) -> None:
    results = await asyncio.gather(*[place.run(await place.job(task_id)) for task_id in ("good", "bad", "skipped")])
    assert [code for code, _ in results] == [0, 1, 0]
    assert sorted(row[:2] for row in await place.outcomes()) == [
        ("failed", "ValueError: no"), ("skipped", "not today"), ("success", None),
    ]  # fmt: skip
    (log,) = place.settings.logs_folder.rglob("task_id=good/*.log")
    assert "hello" in log.read_text()
    remote = place.folder / "remote"
    await until(lambda: any("hello" in file.read_text() for file in remote.rglob("*") if file.is_file()), "the upload")


async def test_what_was_begun_or_given_up_is_not_begun_again(place: Place) -> None:
    job = await place.job("good")
    assert (await place.run(job))[0] == 0
    code, _ = await place.run(job)
    assert code == 4
    assert len(await place.outcomes()) == 1


async def test_sigterm_loses_the_attempt(place: Place) -> None:
    process = await place.start(await place.job("patient"))
    await until(lambda: (place.folder / "began").exists(), "the task")
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 75
    assert [row[0] for row in await place.outcomes()][-1] == "lost"


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff", b'{"id": "x", "token": "", "urls": []}'])
async def test_what_is_no_job_is_a_wrong_call(place: Place, text: bytes) -> None:
    code, said = await place.run(text)
    assert (code, "is not a job" in said) == (2, True)


async def test_a_token_of_another_database_is_refused(place: Place) -> None:
    job = msgspec.structs.replace(await place.job("good"), token="forged")
    code, said = await place.run(job)
    assert (code, "401" in said) == (1, True)


async def waiting(place: Place, file: Path, seconds: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "aiosched", "worker", "run-attempt", "--grace", "0", "--wait", seconds,
        "--dags", str(place.settings.core.dags_folder), str(file), cwd=place.folder,
    )  # fmt: skip


async def test_a_worker_waits_for_its_job(place: Place, tmp_path: Path) -> None:
    job = await place.job("good")
    process = await waiting(place, tmp_path / "job.json", "60")
    (tmp_path / "new").write_bytes(msgspec.json.encode(job))
    (tmp_path / "new").rename(tmp_path / "job.json")
    assert await process.wait() == 0
    assert [row[0] for row in await place.outcomes()] == ["success"]


async def test_a_worker_that_waits_in_vain_ends(place: Place, tmp_path: Path) -> None:
    process = await waiting(place, tmp_path / "job.json", "0.1")
    assert await process.wait() == 0


async def test_a_worker_that_waits_ends_at_once_when_it_is_told_to(place: Place, tmp_path: Path) -> None:
    process = await waiting(place, tmp_path / "job.json", "60")
    await until(lambda: _handles_sigterm(process.pid), "its signal handler")
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0


async def test_what_comes_and_is_no_job_is_a_wrong_call(place: Place, tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text("{}")
    process = await waiting(place, tmp_path / "job.json", "60")
    assert await process.wait() == 2


def _handles_sigterm(pid: int) -> bool:
    """Whether the process has a handler for it (Linux)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught & (1 << (signal.SIGTERM - 1)))
