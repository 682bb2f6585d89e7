"""Timetables of an application's own, in DAGs that it registers: the scheduler never runs out of listed runs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from aiosched import DAG, EmptyOperator
from aiosched.clock import FakeClock
from aiosched.core.spec import decode_spec
from aiosched.core.timetables import CustomTimetable
from aiosched.scheduler import service
from aiosched.timetables import DagRunInfo, Timetable
from tests.scheduler.harness import NEW_YEAR


class Daily(Timetable):
    """A run at each midnight. `fails`: raises from now on."""

    def __init__(self) -> None:
        self.fails = False

    def next_dagrun_info(self, *, last_automated_data_interval: Any, restriction: Any) -> DagRunInfo:
        if self.fails:
            raise ValueError("no calendar today")
        last = last_automated_data_interval
        return DagRunInfo.exact(last.end + timedelta(days=1) if last is not None else restriction.earliest)


async def listed_until(scheduler: service.Scheduler) -> Any:
    """The last run that the newest version of DAG `d` lists."""
    async with scheduler.db.acquire() as conn:
        data = await conn.fetchval("SELECT spec::text FROM dag_version WHERE dag_id = 'd' ORDER BY number DESC LIMIT 1")
    timetable = decode_spec(data).timetable
    assert isinstance(timetable, CustomTimetable)
    return timetable.runs[-1].run_after


async def test_the_runs_of_registered_dags_are_listed_anew_as_time_goes_on(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "_LIST_AGAIN", 0.01)
    clock.at = NEW_YEAR
    timetable = Daily()
    with DAG("d", schedule=timetable, start_date=NEW_YEAR + timedelta(days=3650), catchup=True) as dag:
        EmptyOperator(task_id="t")
    async with service.Scheduler(dsn=dsn, dags=[dag], clock=clock) as scheduler, asyncio.timeout(30):
        first = await listed_until(scheduler)

        timetable.fails = True
        while "no calendar today" not in caplog.text:
            await asyncio.sleep(0.01)
        assert await listed_until(scheduler) == first

        timetable.fails = False
        clock.at = NEW_YEAR + timedelta(days=3600)
        while await listed_until(scheduler) == first:
            await asyncio.sleep(0.01)
