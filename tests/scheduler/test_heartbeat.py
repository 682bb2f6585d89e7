"""Signs of life: how late the loop comes, what blocks it, and the figures in the scheduler's row."""

from __future__ import annotations

import asyncio
import json
import logging
import threading

import pytest

from aiosched import DAG, task
from aiosched.core.figures.metrics import Histogram
from aiosched.db.queries.schedulers import list_schedulers
from aiosched.db.server.engine import Database
from aiosched.scheduler import Scheduler
from aiosched.scheduler.membership.heartbeat import Heartbeat


async def on_thread(heartbeat: Heartbeat) -> None:
    await asyncio.to_thread(heartbeat.check)
    await asyncio.sleep(0)


async def test_a_look_measures_how_late_the_loop_comes_and_takes_the_figures() -> None:
    lag = Histogram()
    heartbeat = Heartbeat(lambda: {"runs": 3}, lag)

    await on_thread(heartbeat)

    assert lag.count == 1
    assert json.loads(heartbeat.take_snapshot() or "") == {"runs": 3}


async def test_figures_that_raise_are_told_of_once_and_freeze_nothing(caplog: pytest.LogCaptureFixture) -> None:
    told: list[dict[str, int] | Exception] = [
        {"runs": 1},
        ZeroDivisionError("no slots"),
        ZeroDivisionError(),
        {"runs": 2},
    ]

    def figures() -> dict[str, int]:
        match told.pop(0):
            case Exception() as error:
                raise error
            case figures:
                return figures

    lag = Histogram()
    heartbeat = Heartbeat(figures, lag)
    snapshots = []
    for _ in range(4):
        await on_thread(heartbeat)
        snapshots.append(json.loads(heartbeat.take_snapshot() or ""))

    assert snapshots == [{"runs": 1}, {"runs": 1}, {"runs": 1}, {"runs": 2}]
    assert lag.count == 4
    assert [record.message for record in caplog.records] == [
        "the figures of this scheduler cannot be collected; the last ones stay published"
    ]
    assert "no slots" in caplog.text


async def test_what_blocks_the_loop_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("aiosched.scheduler.membership.heartbeat.STALL_SECONDS", 0.0)
    heartbeat = Heartbeat(dict, Histogram())
    checked = threading.Event()

    def check_three_times() -> None:
        for _ in range(3):
            heartbeat.check()
        checked.set()

    def user_code_that_blocks() -> None:
        threading.Thread(target=check_three_times).start()
        checked.wait()

    with caplog.at_level(logging.WARNING):
        user_code_that_blocks()
        await asyncio.sleep(0)

    (told,) = caplog.messages
    assert "the event loop is blocked" in told
    assert "user_code_that_blocks (" in told
    assert "test_heartbeat.py" in told


async def test_the_row_of_a_scheduler_shows_its_figures(db: Database, dsn: str) -> None:
    @task
    async def ping() -> None: ...

    with DAG("pinging", schedule=None) as dag:
        ping()

    async with Scheduler(dsn=dsn, dags=[dag]) as scheduler:
        run = await scheduler.trigger("pinging")
        await run.wait()
        figures = scheduler.figures()
        (row,) = await list_schedulers(db)

    assert figures["finished"] == {"success": 1}
    assert figures["tasks"] == {"scheduled": 0, "queued": 0, "running": 0, "deferred": 0}
    assert figures["histograms"]["task_lag"]["count"] == 1
    assert figures["counters"]["runs_created"] == 1
    assert set(figures["executor"]) == {"inline"}
    assert row.alive
