"""A connection that the server ends while a scheduler that holds it computes something: it goes on with another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.db.crypto.secret_confs import SecretConfs
from aiosched.scheduler.memory import version_reading
from aiosched.scheduler.partitions import loading
from aiosched.scheduler.runs import backfills
from tests.db.waiting import lose
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, Running, chain, dag, running

Losing = Callable[[Running, ModuleType, str], list[str]]


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Losing:
    """Makes the next call of a function lose its connection after it has read; the list then has its name."""

    def patch(it: Running, module: ModuleType, name: str) -> list[str]:
        read, lost = getattr(module, name), list[str]()

        async def reading(*args: Any) -> Any:
            found = await read(*args)
            if not lost:
                lost.append(name)
                await lose(it.db, next(arg for arg in args if hasattr(arg, "fetch")))
            return found

        monkeypatch.setattr(module, name, reading)
        return lost

    return patch


async def test_a_scheduler_goes_on_that_loses_its_connection_while_it_loads_runs(
    dsn: str, clock: FakeClock, losing: Losing
) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        await it.finish("t0")
        lost = losing(it, loading, "load_contents")

        await it.leave_and_come_back()

        assert lost
        assert it.scheduler.metrics.recoveries == 1
        await it.finish("t1")
        assert await it.runs("d") == {"r": "success"}
        assert it.executor.order() == ["t0", "t1"]
        await it.assert_consistent()


async def test_a_scheduler_goes_on_that_loses_its_connection_while_it_reads_versions(
    dsn: str, clock: FakeClock, losing: Losing
) -> None:
    async with running(dsn, clock, dag("d")) as it:
        lost = losing(it, version_reading, "load_versions")

        await it.register(dag("e"))

        assert lost
        assert it.scheduler.metrics.recoveries == 1
        await it.trigger("e", "r")
        await it.finish("a")
        assert await it.runs("e") == {"r": "success"}
        await it.assert_consistent()


async def test_the_dates_of_a_backfill_are_computed_without_a_connection_that_could_be_lost_meanwhile(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, pids = asyncio.Event(), list[int]()
    checked, in_slices = SecretConfs.checked, backfills.in_slices
    async with running(dsn, clock, dag("d", schedule="@daily", start_date=NEW_YEAR)) as it:

        async def checking(self: SecretConfs, conn: Any, *args: Any) -> Any:
            conn.add_termination_listener(lambda _: closed.set())
            pids.append(conn.get_server_pid())
            return await checked(self, conn, *args)

        async def computing(*args: Any) -> Any:
            if not closed.is_set():
                await it.execute("SELECT pg_terminate_backend($1, 5000)", pids[0])
                async with asyncio.timeout(PATIENCE):
                    await closed.wait()
            return await in_slices(*args)

        monkeypatch.setattr(SecretConfs, "checked", checking)
        monkeypatch.setattr(backfills, "in_slices", computing)
        clock.advance(timedelta(days=3).total_seconds())
        await it.settled()

        dates = {"from": NEW_YEAR.isoformat(), "to": (NEW_YEAR + timedelta(days=1)).isoformat()}
        answer = await it.ask("backfill_create", "d", **dates)

        assert closed.is_set()
        assert len(answer["dates"]) == 2
        assert it.scheduler.metrics.recoveries == 0
        await it.assert_consistent()
