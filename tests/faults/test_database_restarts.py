"""PostgreSQL goes away under load and comes back: the service waits, connects again and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.messages import Attempt
from aiosched.db.server.embedded_host import Account, run_as
from aiosched.db.server.engine import Database
from aiosched.db.server.installations import binaries
from aiosched.db.server.migrate import migrate
from tests.db.conftest import ExternalServer, start_external
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, ScriptedExecutor, assert_consistent, chain, running

RUNS, TASKS, DAGS = 20, 10, 5


@pytest.fixture
def own_server() -> Iterator[ExternalServer]:
    """A server that the test may stop. It syncs nothing to disk, but loses no commit while the machine runs."""
    server, remove = start_external(binaries())
    yield server
    remove()


async def control(server: ExternalServer, *words: str) -> None:
    command = [str(binaries() / "pg_ctl"), "-D", str(server.folder / "pg"), "-w", "-l", str(server.folder / "log")]
    account = Account.for_data(server.folder / "pg")
    await asyncio.to_thread(run_as, account, [*command, *words], new_session=True)


async def start(server: ExternalServer) -> None:
    await control(server, "-o", f"-h 127.0.0.1 -p {server.port} -k {server.folder} -F", "start")


@pytest.mark.parametrize("how", ["immediate", pytest.param("fast", marks=pytest.mark.slow)])
async def test_a_restart_of_postgresql_under_load_loses_nothing_and_runs_nothing_twice(
    own_server: ExternalServer, clock: FakeClock, how: str
) -> None:
    dsn = own_server.dsn()
    await migrate(dsn)
    specs = [
        chain(
            f"d{i}",
            TASKS,
            schedule=timedelta(hours=1),
            start_date=NEW_YEAR,
            catchup=True,
            max_active_runs=4,
        )
        for i in range(DAGS)
    ]
    clock.advance(RUNS * 3600)

    def succeed_soon(executor: ScriptedExecutor, attempt: Attempt) -> None:
        def succeed() -> None:
            if attempt.key in executor.running:
                executor.succeed(attempt)

        asyncio.get_running_loop().call_later(0.002, succeed)

    executor = ScriptedExecutor(clock, script=succeed_soon)
    async with running(dsn, clock, *specs, executor=executor, settle=False, retention=True) as it:
        for share in (0.2, 0.5):
            await it.until(lambda least=share: len(executor.submitted) >= least * DAGS * RUNS * TASKS, "some load")
            await control(own_server, "-m", how, "stop")
            await start(own_server)
        async with asyncio.timeout(PATIENCE):
            await it.until(lambda: it.scheduler.metrics.runs_created >= DAGS * RUNS, "all runs")
            await it.settled()
            await it.scheduler.wait_idle()

        assert it.scheduler.metrics.recoveries >= 2
        assert it.scheduler.metrics.lost_attempts == 0
        keys = [attempt.key for attempt in executor.submitted]
        assert len(keys) == len(set(keys)) == DAGS * RUNS * TASKS
        async with await Database.open(dsn, application_name="test") as db:
            async with db.acquire() as conn:
                states = await conn.fetch("SELECT state, count(*) FROM dag_run GROUP BY 1")
                assert await conn.fetchval("SELECT count(*) FROM lost_span") == 0
            assert list(map(tuple, states)) == [("success", DAGS * RUNS)]
            await assert_consistent(db)


@pytest.mark.slow
async def test_a_database_that_stays_away_longer_than_the_lease_costs_the_attempts_but_no_retries(
    own_server: ExternalServer, clock: FakeClock
) -> None:
    dsn = own_server.dsn()
    await migrate(dsn)
    async with running(dsn, clock, chain("d", 2), lease=2.0, retention=True) as it:
        await it.trigger("d", "r")
        old, attempt = it.incarnation, await it.attempt("t0")
        await control(own_server, "-m", "immediate", "stop")

        await it.until(lambda: attempt.key in it.executor.cancelled, "the end of what runs")
        assert it.executor.submitted == [attempt]
        await start(own_server)
        await it.until(lambda: it.incarnation != old and it.session.locks.loaded.is_set(), "a new incarnation")
        await it.finish("t0", "t1")

        async with await Database.open(dsn, application_name="test") as db:
            async with db.acquire() as conn:
                assert await conn.fetchval("SELECT state FROM dag_run") == "success"
                assert await conn.fetchval("SELECT state FROM task_try") == "lost"
            await assert_consistent(db)
