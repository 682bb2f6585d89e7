"""Deferred tasks of a scheduler that is killed go on in another one. Source: the semantics reference, section 25.3."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aiosched.core.values.ids import partition_of
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from tests.faults.deferring_process import DAG_IDS, TASKS
from tests.faults.test_killed_processes import UNFINISHED, count, kill, until
from tests.scheduler.harness import assert_consistent

ALL = len(DAG_IDS) * len(TASKS)
DEFERRED = "SELECT count(*) FROM task_instance WHERE state = 'deferred'"


@contextlib.asynccontextmanager
async def service(dsn: str, folder: Path, name: str) -> AsyncIterator[Process]:
    """A scheduler process; killed at the end of the block at the latest."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.faults.deferring_process", dsn, str(folder), name, cwd=Path(__file__).parents[2]
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def lines(file: Path) -> list[list[str]]:
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


async def ask_for_runs(db: Database) -> None:
    async with db.acquire() as conn:
        await conn.executemany(
            """INSERT INTO request (partition, dag_id, verb, args, requested_by)
               VALUES ($1, $2, 'trigger', '{"run_id": "r"}', 'test')""",
            [(partition_of(dag_id), dag_id) for dag_id in DAG_IDS],
        )
        await inbox.notify(conn, "requests", map(partition_of, DAG_IDS))


@pytest.mark.slow
async def test_triggers_wait_on_in_the_one_that_lives_and_each_task_hears_of_its_event_once(
    dsn: str, db: Database, tmp_path: Path
) -> None:
    async with service(dsn, tmp_path, "one") as one, service(dsn, tmp_path, "two") as two:

        async def both_have_their_share() -> bool:
            owners = "SELECT count(DISTINCT incarnation) FROM partition_lease"
            return await count(db, owners) == 2 and await count(db, "SELECT count(*) FROM dag") == len(DAG_IDS)

        await until(one, both_have_their_share, "equal shares")
        await ask_for_runs(db)

        async def all_wait() -> bool:
            return await count(db, DEFERRED) == ALL and {str(one.pid), str(two.pid)} <= {
                p for (p,) in lines(tmp_path / "waits")
            }

        await until(two, all_wait, "all tasks to be deferred, some in each scheduler")
        await kill(one)

        async def all_wait_here() -> bool:
            return sum(pid == str(two.pid) for (pid,) in lines(tmp_path / "waits")) == ALL

        await until(two, all_wait_here, "the other one to wait for them")
        (tmp_path / "open").touch()

        async def done() -> bool:
            return await count(db, UNFINISHED) == 0

        await until(two, done, "the end of all runs")

    resumed = lines(tmp_path / "resumed")
    assert Counter((dag_id, task_id) for dag_id, task_id, _, _ in resumed) == Counter(
        (dag_id, task_id) for dag_id in DAG_IDS for task_id in ("defers", "begins")
    )
    assert {(number, pid) for _, _, number, pid in resumed} == {("1", str(two.pid))}, "in the same try"
    values = [json.loads(value) for (value,) in await db.fetch("SELECT value FROM xcom")]
    assert values == [two.pid] * ALL
    assert await count(db, "SELECT count(*) FROM dag_run WHERE state = 'success'") == len(DAG_IDS)
    assert await count(db, "SELECT count(*) FROM task_try") == 0, "nothing was lost"
    assert await count(db, "SELECT count(*) FROM deferred_trigger") == 0
    await assert_consistent(db)
