"""Removing old history beside a lot of it: how much at most, and what a look costs that finds nothing.

A scheduler gives it a quarter of the time (scheduler/loops/retention.py), so that much of the rate is kept up.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from aiosched.clock import SystemClock
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.db.server.engine import Database
from aiosched.db.upkeep.retention import Removed, clean
from aiosched.parsing.store import register_specs
from benchmarks import measure
from benchmarks.figures import Figure, Finding
from benchmarks.history import INSTANCES_OF_A_RUN, LONG_AGO, fill
from benchmarks.run import postgres
from benchmarks.stage import Stage, stage

_DAGS: Final = 1_000
_SHARE: Final = 0.25  # of the time that a scheduler removes history
_BATCHES: Final = 20  # of a pass, as there
_PASSES: Final = 5
_LOOKS: Final = 10


async def retention(size: int, _: float) -> Finding:
    """With `size` task instances, first nothing and then everything is old."""
    async with stage() as at:
        await _fill(at, size)
        youngest: datetime = await at.conn.fetchval("SELECT max(end_date) FROM dag_run")
        async with await Database.open(at.dsn) as db:
            looks = list[float]()
            for _round in range(_LOOKS):
                began = time.perf_counter()
                found = await clean(db, LONG_AGO, batches=_BATCHES)
                looks.append(time.perf_counter() - began)
            total, used = Removed(), await measure.usages(at.conn)
            wal, began = await measure.wal_position(at.conn), time.perf_counter()
            for _pass in range(_PASSES):
                total.add(await clean(db, youngest + timedelta(days=1), batches=_BATCHES))
            took = time.perf_counter() - began
            used = (await measure.usages(at.conn)).since(used)
            written = await measure.wal_position(at.conn) - wal
        server = await postgres(at.conn)
    number = total.task_instances
    problems = [] if not found.runs else [f"{found.runs} runs were removed before they were old"]
    if number != total.runs * INSTANCES_OF_A_RUN or not number:
        problems.append(f"{number} task instances of {total.runs} runs were removed")
    return Finding(
        "retention",
        f"{size:,} task instances in runs of {INSTANCES_OF_A_RUN}, {server}",
        measure.machine(),
        [
            Figure("removed in a quarter of the time, task instances", number / took * _SHARE, "a second", least=2000),
            Figure("processor time of an instance", used.scheduler.cpu_seconds / number * 1e6, "us"),
            Figure("PostgreSQL's processor time of an instance", used.postgres.cpu_seconds / number * 1e6, "us"),
            Figure("WAL of an instance", written / number, "bytes"),
            Figure("a look that finds nothing", median(looks) * 1000, "ms"),
        ],
        tuple(problems),
    )


async def _fill(at: Stage, size: int) -> None:
    dag_ids = [f"old.{number:04d}" for number in range(_DAGS)]
    tasks = tuple(TaskSpec(task_id=f"t{number}", operator="Old") for number in range(INSTANCES_OF_A_RUN))
    never = parse_schedule(None)
    specs = [DagSpec(dag_id=one, timetable=never, start_date=LONG_AGO, tasks=tasks) for one in dag_ids]
    async with at.conn.transaction():
        await register_specs(at.conn, specs, now=SystemClock().now(), paused_at_creation=False)
    await fill(at.conn, dag_ids, size)
