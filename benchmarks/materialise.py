"""How fast many task instances come into being, and whether memory stays flat: one backfill of a paused DAG."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiosched import Scheduler
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.db.statements import inbox
from aiosched.parsing.store import register_specs
from benchmarks import measure
from benchmarks.figures import Figure, Finding
from benchmarks.run import postgres
from benchmarks.stage import TooSlow, stage, unlimited

TASKS: Final = 1000
_FIRST: Final = datetime(2020, 1, 1, tzinfo=UTC)
_FLAT: Final = 64  # MiB that the process may grow by, whatever the number of instances
_INCOMPLETE: Final = "SELECT EXISTS (SELECT FROM dag_run WHERE partition < 0)"  # task instances follow their runs
_PAUSE: Final = 0.02  # seconds between two looks


async def materialise(size: int, timeout: float) -> Finding:
    """A backfill of `size` task instances in runs of a thousand; none of them starts, since the DAG is paused."""
    tasks = min(TASKS, size)
    runs = max(1, size // tasks)
    spec = DagSpec(
        dag_id="wide",
        timetable=parse_schedule("@hourly"),
        start_date=_FIRST,
        catchup=False,
        tasks=tuple(TaskSpec(task_id=f"t{number:04d}", operator="None") for number in range(tasks)),
    )
    async with stage() as at:
        async with at.conn.transaction():
            await register_specs(at.conn, [spec], now=datetime.now(UTC), paused_at_creation=True)
        scheduler = Scheduler(dsn=at.dsn, executor="local", settings=unlimited(at.folders), parse=False)
        args: dict[str, Any] = {
            "from": _FIRST.isoformat(),
            "to": (_FIRST + timedelta(hours=runs - 1)).isoformat(),
            "max_active_runs": 1,
        }
        async with scheduler, measure.watch_loop() as stall:
            used = await measure.usages(at.conn)
            wal, before = await measure.wal_position(at.conn), measure.resident()
            measure.reset_peak()
            began = time.monotonic()
            async with scheduler.db.acquire() as conn:
                number = await inbox.send_request(
                    conn, verb="backfill_create", dag_id="wide", args=args, requested_by="benchmark"
                )
            async with asyncio.timeout(timeout):
                answer = await inbox.wait_applied(scheduler.db, number, timeout=timeout)
                while await at.conn.fetchval(_INCOMPLETE):  # noqa: ASYNC110
                    await asyncio.sleep(_PAUSE)
            took = time.monotonic() - began
            grown = measure.peak() - before
            used = (await measure.usages(at.conn)).since(used)
        if answer is None:
            raise TooSlow(f"{runs * tasks:,} task instances were not created in {timeout:g} s")
        written = await measure.wal_position(at.conn) - wal
        there = await at.conn.fetchrow(
            "SELECT count(*) AS instances, count(DISTINCT run_id) AS runs, count(state) AS states FROM task_instance"
        )
        server = await postgres(at.conn)
    problems = [] if answer.state == "applied" else [f"the backfill was {answer.state}: {answer.result}"]
    if tuple(there) != (runs * tasks, runs, 0):
        problems.append(f"expected {runs * tasks} instances of {runs} runs without a state, found {tuple(there)}")
    millions = runs * tasks / 1e6
    return Finding(
        "materialise-1m",
        f"{runs * tasks:,} task instances in {runs:,} runs, {server}",
        measure.machine(),
        [
            Figure("time for a million", took / millions, "s", most=20.0),
            Figure("memory grew by", grown / 2**20, "MiB", most=_FLAT),
            Figure("scheduler's processor time for a million", used.scheduler.cpu_seconds / millions, "s"),
            Figure("PostgreSQL's processor time for a million", used.postgres.cpu_seconds / millions, "s"),
            Figure("WAL an instance", written / (runs * tasks), "bytes"),
            Figure("longest stall of the loop", stall.longest * 1000, "ms"),
        ],
        tuple(problems),
    )
