"""A scheduler process that is killed with SIGKILL in the middle of its work; others carry on."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.ids import partition_of
from aiosched.db.people.pools import set_pool
from aiosched.db.server.engine import Database
from tests.faults.service_process import RUNS, TASKS, numbered_dag
from tests.patience import PATIENCE
from tests.scheduler.harness import assert_consistent, register
from tests.starts_of_pools import most_in, note_starts, noted_starts


@contextlib.asynccontextmanager
async def service(dsn: str, folder: Path, name: str = "one", *lease: str) -> AsyncIterator[Process]:
    """A scheduler process; killed at the end of the block at the latest. `lease` in seconds, if not the usual one."""
    arguments = ("-m", "tests.faults.service_process", dsn, str(folder), name, *lease)
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=Path(__file__).parents[2])
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def kill(process: Process) -> None:
    process.send_signal(signal.SIGKILL)
    await process.wait()


async def until(process: Process, condition: Callable[[], Awaitable[object]], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            while not await condition():
                assert process.returncode is None, f"the process ended with {process.returncode}"
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE:.0f} s for {what}") from None


async def ask_for_runs(db: Database, folder: Path, count: int = RUNS) -> None:
    await register(db, numbered_dag(folder).to_spec())
    async with db.acquire() as conn:
        await conn.execute(
            """INSERT INTO request (partition, dag_id, verb, args, requested_by)
               SELECT $1, 'd', 'trigger', json_build_object('run_id', 'r' || n), 'test'
                 FROM generate_series(1, $2::int) AS n""",
            partition_of("d"),
            count,
        )


async def count(db: Database, query: str) -> int:
    number: int = await db.fetchval(query)
    return number


SUCCEEDED = "SELECT count(*) FROM task_instance WHERE state = 'success'"
UNFINISHED = "SELECT count(*) FROM dag_run WHERE state IN ('queued', 'running')"
NOT_ASKED = "SELECT count(*) FROM request WHERE state = 'waiting'"


def ran(folder: Path) -> list[tuple[str, str]]:
    """(run id, task id) of every beginning of a task, in order."""
    path = folder / "ran"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(run_id, task_id) for run_id, task_id, _ in map(str.split, lines)]


async def stored_successes(db: Database) -> set[tuple[str, str]]:
    async with db.acquire() as conn:
        rows = await conn.fetch(
            """SELECT r.run_id, 't' || ti.task_index FROM task_instance ti JOIN dag_run r ON r.id = ti.run_id
                WHERE ti.state = 'success'"""
        )
    return {(run_id, task_id) for run_id, task_id in rows}


@pytest.mark.slow
async def test_killed_twice_in_the_middle_of_its_runs_all_finish_and_no_success_is_run_again(
    dsn: str, db: Database, tmp_path: Path
) -> None:
    await ask_for_runs(db, tmp_path)
    before, lines = set[tuple[str, str]](), 0
    for least in (RUNS, 3 * RUNS, TASKS * RUNS):
        async with service(dsn, tmp_path) as process:

            async def far_enough(least: int = least) -> bool:
                return await count(db, SUCCEEDED) >= least and (
                    least < TASKS * RUNS or await count(db, NOT_ASKED) + await count(db, UNFINISHED) == 0
                )

            await until(process, far_enough, f"{least} successes")
            await kill(process)
        assert not before & set(ran(tmp_path)[lines:])
        before, lines = await stored_successes(db), len(ran(tmp_path))
        await assert_consistent(db)
    assert await count(db, "SELECT count(*) FROM dag_run WHERE state = 'success'") == RUNS
    assert await count(db, SUCCEEDED) == RUNS * TASKS


async def test_a_peer_takes_a_killed_scheduler_over_within_seconds_and_lost_attempts_spend_no_retry(
    dsn: str, db: Database, tmp_path: Path, clock: FakeClock
) -> None:
    (tmp_path / "hold").touch()
    await ask_for_runs(db, tmp_path, 10)
    async with service(dsn, tmp_path, "one", "3600") as one:

        async def all_running() -> bool:
            return len(ran(tmp_path)) == 10

        await until(one, all_running, "ten attempts")
        async with service(dsn, tmp_path, "two", "3600") as two:

            async def two_lives() -> bool:
                return await count(db, "SELECT count(*) FROM scheduler WHERE name = 'two'") == 1

            await until(two, two_lives, "the second scheduler")
            await kill(one)
            (tmp_path / "hold").unlink()
            async with asyncio.timeout(PATIENCE):  # the lease alone would take an hour

                async def taken_over() -> bool:
                    return len(ran(tmp_path)) > 10

                await until(two, taken_over, "the take-over")

            async def done() -> bool:
                return await count(db, UNFINISHED) == 0

            await until(two, done, "the end of all runs")
    assert await count(db, "SELECT count(*) FROM dag_run WHERE state = 'success'") == 10
    assert await count(db, "SELECT count(*) FROM task_try WHERE state = 'lost'") == 10
    await assert_consistent(db)


@pytest.mark.slow
async def test_the_starts_of_a_killed_scheduler_count_neither_less_nor_more_than_once(
    dsn: str, db: Database, tmp_path: Path
) -> None:
    """Two processes share a pool with a rate, and one after the other is killed while things start."""
    await set_pool(db, "default_pool", 128, rate="25/s", requested_by="me")
    await note_starts(db)
    await ask_for_runs(db, tmp_path)
    for least in (TASKS * RUNS // 4, TASKS * RUNS // 2, TASKS * RUNS):
        async with service(dsn, tmp_path, "one") as one, service(dsn, tmp_path, "two"):

            async def far_enough(least: int = least) -> bool:
                return await count(db, SUCCEEDED) >= least and (least < TASKS * RUNS or not await count(db, UNFINISHED))

            await until(one, far_enough, f"{least} successes")
            await kill(one)

    starts = await noted_starts(db, "default_pool")
    assert most_in(starts, 1) <= 25
    assert len(starts) == TASKS * RUNS + await count(db, "SELECT count(*) FROM task_try WHERE state = 'lost'")
    assert len(starts) >= len(ran(tmp_path))
    await assert_consistent(db)
