"""`aiosched worker run-attempt`: what an engine starts, as a process, with a server of the role worker-api."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import msgspec
import pytest
import pytest_asyncio

from aiosched.cli.base.options import UsageProblem
from aiosched.cli.serve.worker import read_job
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo
from aiosched.core.values.worker_messages import Job
from aiosched.db.engines.attempts import insert_attempts, new_attempt
from aiosched.db.engines.tokens import TokenSigner
from aiosched.db.people.signing_keys import OF_ATTEMPTS, signing_keys
from aiosched.db.server.engine import Database
from tests.databases import TEMPLATE, Server
from tests.engines.test_engine_attempts import until
from tests.patience import PATIENCE
from tests.ports import free_port

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


class Served(NamedTuple):
    """A server for workers, which the tests of this file share, and what it needs."""

    url: str
    dsn: str
    folder: Path

    @property
    def dags_folder(self) -> Path:
        return self.folder / "dags"

    @property
    def logs_folder(self) -> Path:
        return self.folder / "home" / "logs"


class Place:
    """The server for workers, and what engines deliver."""

    numbers: Final = itertools.count(1)  # of runs

    def __init__(self, db: Database, served: Served) -> None:
        self.db, self.served = db, served

    async def job(self, task_id: str, *, run_id: str = "r") -> Job:
        number = next(self.numbers)
        run = RunInfo(key=number, dag_id="d", run_id=run_id, run_type="manual", run_after=NOW, file="d.py")
        key = AttemptKey(number, 0, -1, 1)
        attempt = Attempt(key=key, run=run, task_id=task_id, is_async=False, max_tries=0)
        async with self.db.transaction() as conn:
            scheduler = await conn.fetchval(
                "INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at)"
                " VALUES ('s', 'h', 1, '0', 'engine', 1, now() + interval '1 hour') RETURNING incarnation"
            )
            new = [new_attempt(partition_of("d"), "engine", attempt)]
            ids = await insert_attempts(conn, new, incarnation=scheduler)
        token = TokenSigner(await signing_keys(self.db, accepted_for=OF_ATTEMPTS)).seal(ids[key], key)
        return Job(id=ids[key], token=token, urls=("http://127.0.0.1:1", self.served.url), title=task_id)

    async def start(self, job: Job) -> asyncio.subprocess.Process:
        return await start(msgspec.json.encode(job), self.served.dags_folder)

    async def run(self, job: Job) -> tuple[int, str]:
        return await end_of(await self.start(job))

    async def outcomes(self) -> list[tuple[Any, ...]]:
        """How attempts ended; of those that run for longer than a heartbeat there are reports of the start, too."""
        query = "SELECT outcome, body->>'reason', body->'xcoms' #>> '{}' FROM task_report ORDER BY id"
        rows = [tuple(row) for row in await self.db.fetch(query)]
        return [row for row in rows if row[0] != "started"]


async def start(text: bytes, dags_folder: Path) -> asyncio.subprocess.Process:
    """`aiosched worker run-attempt`, which reads the job from its standard input."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIOSCHED_DSN")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "aiosched", "worker", "run-attempt", "--grace", "0", "--dags", str(dags_folder),
        stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=dags_folder.parent, env=environment,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.close()
    return process


async def end_of(process: asyncio.subprocess.Process) -> tuple[int, str]:
    assert process.stderr is not None
    said = (await process.stderr.read()).decode()
    return await process.wait(), said


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served(server: Server, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    folder, dsn = tmp_path_factory.mktemp("served"), await server.create(TEMPLATE)
    port = free_port()
    found = Served(f"http://127.0.0.1:{port}", dsn, folder)
    found.dags_folder.mkdir()
    (found.dags_folder / "d.py").write_text(TASKS.format(here=str(folder)))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "aiosched", "serve", "--role", "worker-api", "--dsn", dsn, "--port", str(port),
        "--home", str(folder / "home"), stdout=asyncio.subprocess.DEVNULL, cwd=folder,
        env={**os.environ, "AIOSCHED__LOGS__REMOTE": f"file://{folder / 'remote'}"},
    )  # fmt: skip
    async with httpx2.AsyncClient() as http, asyncio.timeout(PATIENCE):
        while True:
            try:
                if (await http.get(f"{found.url}/readyz")).status_code == 200:
                    break
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
    yield found
    process.terminate()
    assert await process.wait() == 0
    await server.drop(dsn)


@pytest.fixture
async def place(served: Served) -> AsyncIterator[Place]:
    async with await Database.open(served.dsn) as db:
        await db.execute("DELETE FROM task_report")
        yield Place(db, served)


@pytest.fixture
def dags_folder(tmp_path: Path) -> Path:
    """For workers that begin nothing."""
    folder = tmp_path / "dags"
    folder.mkdir()
    return folder


@pytest.mark.slow
async def test_the_exit_code_says_what_became_of_the_attempt(place: Place) -> None:
    jobs = [await place.job(task_id, run_id="three") for task_id in ("good", "bad", "skipped")]
    results = await asyncio.gather(*map(place.run, jobs))
    assert [code for code, _ in results] == [0, 1, 0]
    assert sorted(row[:2] for row in await place.outcomes()) == [
        ("failed", "ValueError: no"), ("skipped", "not today"), ("success", None),
    ]  # fmt: skip
    (log,) = place.served.logs_folder.rglob("run_id=three/task_id=good/*.log")
    assert "hello" in log.read_text()
    remote = place.served.folder / "remote"
    uploaded = partial(remote.rglob, "run_id=three/**/*.log")  # what is being written has another name
    await until(lambda: any("hello" in file.read_text() for file in uploaded()), "the upload")


async def test_what_was_begun_or_given_up_is_not_begun_again(place: Place) -> None:
    job = await place.job("good")
    assert (await place.run(job))[0] == 0
    code, _ = await place.run(job)
    assert code == 4
    assert len(await place.outcomes()) == 1


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
async def test_a_signal_to_stop_loses_the_attempt(place: Place, told: signal.Signals) -> None:
    began = place.served.folder / "began"
    began.unlink(missing_ok=True)
    process = await place.start(await place.job("patient"))
    await until(began.exists, "the task")
    process.send_signal(told)
    assert await process.wait() == 75
    assert [row[0] for row in await place.outcomes()][-1] == "lost"


async def test_what_is_no_job_is_a_wrong_call(dags_folder: Path) -> None:
    code, said = await end_of(await start(b"{}", dags_folder))
    assert (code, "is not a job" in said) == (2, True)


@pytest.mark.parametrize("text", [b"", b"\xff", b'{"id": "x", "token": "", "urls": []}'])
def test_nothing_else_is_a_job(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "job.json").write_bytes(text)
    with pytest.raises(UsageProblem, match="is not a job"):
        read_job(str(tmp_path / "job.json"))


@pytest.mark.slow
async def test_a_token_of_another_database_is_refused(place: Place) -> None:
    job = msgspec.structs.replace(await place.job("good"), token="forged")
    code, said = await place.run(job)
    assert (code, "401" in said) == (1, True)


async def waiting(dags_folder: Path, file: Path, seconds: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "aiosched", "worker", "run-attempt", "--grace", "0", "--wait", seconds,
        "--dags", str(dags_folder), str(file), cwd=file.parent,
    )  # fmt: skip


async def test_a_worker_waits_for_its_job(place: Place, tmp_path: Path) -> None:
    job = await place.job("good")
    process = await waiting(place.served.dags_folder, tmp_path / "job.json", "60")
    (tmp_path / "new").write_bytes(msgspec.json.encode(job))
    (tmp_path / "new").rename(tmp_path / "job.json")
    assert await process.wait() == 0
    assert [row[0] for row in await place.outcomes()] == ["success"]


@pytest.mark.slow
async def test_a_worker_that_waits_in_vain_ends(dags_folder: Path, tmp_path: Path) -> None:
    process = await waiting(dags_folder, tmp_path / "job.json", "0.1")
    assert await process.wait() == 0


async def test_a_worker_that_waits_ends_at_once_when_it_is_told_to(dags_folder: Path, tmp_path: Path) -> None:
    process = await waiting(dags_folder, tmp_path / "job.json", "60")
    await until(lambda: _handles_sigterm(process.pid), "its signal handler")
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0


@pytest.mark.slow
async def test_what_comes_and_is_no_job_is_a_wrong_call(dags_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text("{}")
    process = await waiting(dags_folder, tmp_path / "job.json", "60")
    assert await process.wait() == 2


def _handles_sigterm(pid: int) -> bool:
    """Whether the process has a handler for it (Linux)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught & (1 << (signal.SIGTERM - 1)))
