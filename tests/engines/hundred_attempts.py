"""A hundred attempts on an engine, whose scheduler is killed while they run: the next one hears of all their ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from tests.engines.test_engine_attempts import LEFT, calls, until
from tests.patience import PATIENCE

HUNDRED = """
import asyncio, time
from pathlib import Path
from aiosched import DAG, task

HERE = Path({here!r})

def begin(number):
    with (HERE / "calls").open("a") as file:
        file.write(f"{{number}}\\n")

with DAG("hundred", schedule=None, max_active_tasks=1000):
    @task
    async def waits(number):
        begin(number)
        while not (HERE / "go").exists():
            await asyncio.sleep(0.05)
        return number

    @task
    def plain(number):
        begin(100 + number)
        while not (HERE / "go").exists():
            time.sleep(0.05)
        return 100 + number

    waits.expand(number=list(range(98)))
    plain.expand(number=[0, 1])
"""


async def check_that_a_killed_scheduler_loses_none(
    settings: Settings, dsn: str, folder: Path, executor: str, environment: Mapping[str, str]
) -> None:
    """Schedulers are processes with this executor and environment; its workers run already, with two slots or more."""
    (settings.core.dags_folder / "hundred.py").write_text(HUNDRED.format(here=str(folder)))
    processes: dict[str, subprocess.Popen[bytes]] = {}

    def serve(name: str) -> None:
        with (folder / f"{name}.log").open("ab") as log:
            processes[name] = subprocess.Popen(
                [sys.executable, "-P", "-m", "aiosched", "serve", "--role", "scheduler,parser", "--executor", executor,
                 "--dsn", dsn, "--dags", str(settings.core.dags_folder), "--name", name, "--parallelism", "200"],
                stdout=log, stderr=log, start_new_session=True, cwd=folder,
                env={
                    **os.environ, **environment, "AIOSCHED__EXECUTOR__WORKER_API": settings.executor.worker_api,
                    "AIOSCHED__SCHEDULER__LEASE": "5",
                },
            )  # fmt: skip

    def kill(name: str) -> None:
        process = processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    async def play(db: Database) -> None:
        serve("victim")
        await wait_for(db, "SELECT count(*) = 1 FROM dag", "the DAG")
        async with db.acquire() as conn:
            await inbox.send_request(conn, verb="trigger", dag_id="hundred", args={"run_id": "r"}, requested_by="test")
            await inbox.notify(conn, "commands", [])
        await until(lambda: len(calls(folder)) == 100, "a hundred attempts")
        await asyncio.to_thread(kill, "victim")
        serve("heir")
        await wait_for(db, "SELECT count(*) = 1 AND bool_and(name = 'heir') FROM scheduler", "the takeover")
        (folder / "go").touch()
        await wait_for(db, "SELECT state = 'success' FROM dag_run", "the end of the run")

        query = "SELECT DISTINCT state, try_number, losses FROM task_instance"
        assert await rows_of(db, query) == [("success", 1, 0)]
        assert await rows_of(db, "SELECT count(*) FROM xcom WHERE key = 'return_value'") == [(100,)]
        assert await rows_of(db, LEFT) == [(0,)]

    try:
        async with await Database.open(dsn) as db:
            await play(db)
    finally:
        for name in list(processes):
            await asyncio.to_thread(kill, name)
    assert sorted(map(int, calls(folder))) == [*range(98), 100, 101]


async def rows_of(db: Database, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in await db.fetch(query)]


async def wait_for(db: Database, query: str, what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            while await rows_of(db, query) != [(True,)]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"waited for {what}") from None
