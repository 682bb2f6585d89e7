"""Timetables of an application's own, in DAGs that it registers: the scheduler never runs out of listed runs."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from aiosched import DAG, EmptyOperator
from aiosched.clock import FakeClock
from aiosched.scheduler import Scheduler, registered_dags
from aiosched.timetables import DagRunInfo, Timetable
from tests.db.waiting import until_true
from tests.scheduler.harness import NEW_YEAR

LISTED = "json_array_length(spec::json->'timetable'->'runs')"


class Daily(Timetable):
    """A run at each midnight. `fails`: raises from now on."""

    def __init__(self) -> None:
        self.fails = False
        self.failed = threading.Event()

    def next_dagrun_info(self, *, last_automated_data_interval: Any, restriction: Any) -> DagRunInfo:
        if self.fails:
            self.failed.set()
            raise ValueError("no calendar today")
        last = last_automated_data_interval
        return DagRunInfo.exact(last.end + timedelta(days=1) if last is not None else restriction.earliest)


async def test_the_runs_of_registered_dags_are_listed_anew_as_time_goes_on(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registered_dags, "LIST_AGAIN", 0.01)
    clock.at = NEW_YEAR
    timetable = Daily()
    with DAG("d", schedule=timetable, start_date=NEW_YEAR + timedelta(days=3650), catchup=True) as dag:
        EmptyOperator(task_id="t")
    async with Scheduler(dsn=dsn, dags=[dag], clock=clock) as scheduler, scheduler.db.acquire() as conn:
        timetable.fails = True
        assert await asyncio.to_thread(timetable.failed.wait, 10)
        assert await conn.fetchval(f"SELECT {LISTED} FROM dag_version") == 10

        timetable.fails = False
        clock.at = NEW_YEAR + timedelta(days=3600)
        await until_true(conn, f"SELECT bool_or({LISTED} > 10) FROM dag_version")
