"""Schedulers and clients behind a real pgbouncer in transaction mode; sessions go to PostgreSQL itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from aiosched.clock import FakeClock
from aiosched.config import DatabaseSettings
from aiosched.core.values.ids import PARTITIONS
from aiosched.db.queries.queries import list_runs
from aiosched.db.server.admin import info
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.errors import ConfigError, DatabaseError
from aiosched.scheduler import Scheduler
from tests.patience import PATIENCE
from tests.pooler import PROGRAM, WHY_NOT, pgbouncer
from tests.scheduler.harness import ScriptedExecutor, chain, running, settings_for_tests, succeeding

pytestmark = [pytest.mark.skipif(PROGRAM is None, reason=WHY_NOT), pytest.mark.fresh_database]


@pytest.fixture
def pooled(dsn: str) -> Iterator[str]:
    with pgbouncer(dsn, servers=2) as address:
        yield address


async def test_schedulers_share_out_run_everything_and_leave_through_it(
    dsn: str, pooled: str, clock: FakeClock
) -> None:
    through = {"pgbouncer": True, "direct_dsn": dsn}
    specs = [chain(f"d{n}", 3) for n in range(20)]
    executors = [ScriptedExecutor(clock, script=succeeding) for _ in range(2)]
    async with running(dsn, clock, *specs) as watcher:
        await watcher.scheduler.stop()
        async with (
            running(dsn, clock, executor=executors[0], scheduler_dsn=pooled, **through) as first,
            running(dsn, clock, executor=executors[1], scheduler_dsn=pooled, settle=False, **through) as second,
        ):
            await second.until(
                lambda: len(first.session.cache.partitions) == len(second.session.cache.partitions) == 32
            )
            runs = [await first.scheduler.trigger(spec.dag_id, run_id="r") for spec in specs]
            await asyncio.gather(*(run.wait() for run in runs))

            assert await watcher.fetch("SELECT state, count(*) FROM dag_run GROUP BY 1") == [("success", 20)]
            assert min(len(executor.submitted) for executor in executors) > 0
            behind = await watcher.fetch(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE application_name = 'aiosched' AND datname = current_database()"
            )
            assert behind[0][0] <= 2  # of the pgbouncer; the rest of our statements are in sessions
            await first.settled()
            await first.assert_consistent()
        assert await watcher.fetch("SELECT count(*) FROM partition_lease WHERE incarnation IS NULL") == [(PARTITIONS,)]


async def test_a_client_that_knows_the_pgbouncer_alone_asks_and_reads(dsn: str, pooled: str, clock: FakeClock) -> None:
    async with (
        running(dsn, clock, chain("d", 1)),
        await Database.open(pooled, settings=DatabaseSettings(pgbouncer=True)) as client,
    ):
        async with client.acquire() as conn:
            args = {"run_id": "r"}
            number = await inbox.send_request(conn, verb="trigger", dag_id="d", args=args, requested_by="test")
        answer = await inbox.wait_applied(client, number, timeout=PATIENCE)

        assert answer is not None
        assert answer.state == "applied"
        assert [run.run_id for run in await list_runs(client, dag_id="d")] == ["r"]
        assert (await info(client)).tables["request"].rows == 1


async def test_many_statements_at_once_on_two_connections(pooled: str) -> None:
    async with await Database.open(pooled, settings=DatabaseSettings(pgbouncer=True, pool_size=16)) as db:

        async def work(number: int) -> int:
            async with db.acquire() as conn:
                found = [await conn.fetchval("SELECT $1::int + $2::int", number, n) for n in range(20)]
            return int(sum(found))

        assert await asyncio.gather(*map(work, range(16))) == [20 * n + 190 for n in range(16)]


async def test_a_scheduler_that_has_no_other_address_says_what_it_needs(pooled: str) -> None:
    settings = settings_for_tests(pgbouncer=True)

    with pytest.raises(ConfigError, match=r"keeps none. Set \[database\] direct_dsn"):
        await Scheduler(dsn=pooled, settings=settings, parse=False).start()


async def test_who_does_not_know_that_it_is_a_pgbouncer_is_told_so(pooled: str) -> None:
    with pytest.raises(DatabaseError, match=r"A pgbouncer answers .* Set \[database\] pgbouncer = true"):
        await Database.open(pooled)
