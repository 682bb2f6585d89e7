"""A scheduler process that is stopped with SIGSTOP for longer than its lease, and goes on: a stale owner."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from aiosched.clock import FakeClock
from aiosched.db.server.engine import Database
from tests.faults.service_process import TASKS, numbered_dag
from tests.faults.test_killed_processes import SUCCEEDED, UNFINISHED, ask_for_runs, count, ran, service, until
from tests.patience import PATIENCE
from tests.scheduler.harness import ScriptedExecutor, assert_consistent, running, succeeding

_LEASE = "2"
_RUNS = 10


@pytest.mark.slow
async def test_a_stale_owner_writes_nothing_gives_its_attempts_up_and_joins_again(
    dsn: str, db: Database, tmp_path: Path, clock: FakeClock
) -> None:
    """Takes the lease of two seconds: the peer may not take over before."""
    (tmp_path / "hold").touch()
    await ask_for_runs(db, tmp_path, _RUNS)
    async with service(dsn, tmp_path, "stale", _LEASE) as stale:

        async def all_running() -> bool:
            return len(ran(tmp_path)) == _RUNS

        await until(stale, all_running, "its attempts")
        old = await count(db, "SELECT incarnation FROM scheduler")
        stale.send_signal(signal.SIGSTOP)
        executor = ScriptedExecutor(clock, script=succeeding)
        async with running(dsn, clock, numbered_dag(tmp_path).to_spec(), executor=executor, settle=False) as peer:
            await peer.until(lambda: len(peer.session.cache.partitions) == 64, "the take-over")
            await peer.until(lambda: len(executor.submitted) == _RUNS * TASKS, "all tasks to be run again")
            await peer.settled()
            assert await count(db, SUCCEEDED) == _RUNS * TASKS
            rows = await peer.fetch("SELECT run_id, task_index, try_number, queued_by, end_date FROM task_instance")

            (tmp_path / "hold").unlink()  # now its old attempts would succeed, if anybody listened
            stale.send_signal(signal.SIGCONT)

            async def is_back() -> bool:
                return (
                    await count(db, f"SELECT count(*) FROM scheduler WHERE name = 'stale' AND incarnation > {old}") == 1
                )

            await until(stale, is_back, "its new incarnation")
            await peer.until(lambda: len(peer.session.cache.partitions) == 32, "fair shares")
            again = await peer.fetch("SELECT run_id, task_index, try_number, queued_by, end_date FROM task_instance")
            assert sorted(map(tuple, again)) == sorted(map(tuple, rows))
            assert await count(db, "SELECT count(*) FROM task_try WHERE state = 'lost'") == _RUNS
            assert await count(db, UNFINISHED) == 0
            await assert_consistent(db)
        async with asyncio.timeout(PATIENCE):
            stale.terminate()
            await stale.wait()
