"""An unforeseen error that comes once, in work for several DAGs, ends a session: no DAG, and no scheduler."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.ids import PARTITIONS
from aiosched.db.server.engine import Database
from aiosched.scheduler.failures.isolation import NotRepeated
from aiosched.scheduler.journal import journal
from aiosched.scheduler.loops import run_creation
from aiosched.scheduler.membership import outage
from aiosched.scheduler.partitions import loading
from aiosched.scheduler.partitions.ownership import give_back
from aiosched.scheduler.runs import incomplete, new_runs
from tests.one_dag import Broken
from tests.scheduler.harness import NEW_YEAR, dag, running, task

PLACES = [
    (run_creation, "schedule_positions"), (new_runs, "insert_runs"), (incomplete, "_store_part"),
    (loading, "load_unfinished_runs"),
]  # fmt: skip


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(("owner", "name"), PLACES, ids=[name for _, name in PLACES])
async def test_what_fails_once_is_read_and_done_again(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    original, calls = getattr(owner, name), 0

    async def fails_once(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Broken("it does not like this moment")
        return await original(*args, **options)

    monkeypatch.setattr(incomplete, "PART", 1)  # a run of two task instances is stored in parts
    hourly: dict[str, Any] = {"schedule": timedelta(hours=1), "start_date": NEW_YEAR, "catchup": True}
    specs = [dag(name, task("a"), task("b"), **hourly) for name in ("one", "two")]
    async with running(dsn, clock, *specs) as it:
        before = it.scheduler.metrics.recoveries
        monkeypatch.setattr(owner, name, fails_once)
        if owner is loading:
            await it.leave_and_come_back()
        await it.advance(3601.0)
        await it.finish_all()

        assert it.scheduler.is_running
        assert it.scheduler.metrics.recoveries - before == 1
        for dag_id in ("one", "two"):
            assert await it.runs(dag_id) == {"scheduled__2026-01-01T00:00:00+00:00": "success"}
        assert await it.fetch("SELECT * FROM dag_quarantine") == []
        await it.assert_consistent()


async def test_changes_that_cannot_be_stored_once_are_decided_again(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = journal.journal.write, 0

    async def fails_once(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Broken("it does not like this moment")
        return await original(*args)

    async with running(dsn, clock, dag("one", task("a"), task("b", after="a")), dag("two")) as it:
        await it.trigger("one", "r")
        await it.trigger("two", "r")
        before = it.scheduler.metrics.recoveries
        monkeypatch.setattr(journal.journal, "write", fails_once)
        for attempt in list(it.executor.running.values()):
            it.executor.succeed(attempt)
        await it.finish_all()

        assert calls > 1
        assert it.scheduler.metrics.recoveries - before == 1
        assert await it.runs("one") == await it.runs("two") == {"r": "success"}
        assert await it.fetch("SELECT * FROM dag_quarantine") == []
        await it.assert_consistent()


async def test_what_fails_in_each_session_ends_the_scheduler_though_no_dag_fails_alone(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, db: Database
) -> None:
    original, calls = loading.load_unfinished_runs, 0

    async def fails_for_many(*args: Any, of: Any, **options: Any) -> Any:
        nonlocal calls
        if of is None or len(of) > 1:
            calls += 1
            raise Broken("too many at once")
        return await original(*args, of=of, **options)

    monkeypatch.setattr(outage, "PATIENCE", 0.02)

    async def run_until_it_fails() -> None:
        async with running(dsn, clock, dag("one"), dag("two")) as it:
            monkeypatch.setattr(loading, "load_unfinished_runs", fails_for_many)
            async with it.session.locks.ownership:
                await give_back(it.session, range(PARTITIONS))
            await asyncio.wait([it.scheduler.failed])

    with pytest.raises(ExceptionGroup) as raised:
        await run_until_it_fails()

    assert raised.group_contains(NotRepeated, match="reading the runs: Broken: too many at once")
    assert calls > 1
    assert await db.fetch("SELECT 1 FROM dag_quarantine") == []
