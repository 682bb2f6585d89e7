"""An unforeseen error that comes once, in work for several DAGs, ends a session: no DAG, and no scheduler."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.scheduler.partitions import loading
from aiosched.scheduler.runs import incomplete, new_runs, run_creation
from tests.one_dag import Broken
from tests.scheduler.harness import NEW_YEAR, dag, running, task

PLACES = [
    (run_creation, "schedule_positions"), (new_runs, "insert_runs"), (incomplete, "_store_part"),
    (loading, "load_unfinished_runs"),
]  # fmt: skip


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
