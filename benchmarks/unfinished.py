"""Very many unfinished task instances in one scheduler: loading them as after a take-over, memory, and `why`.

Their runs are running, and a pool without slots lets none of them start.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Final

from aiosched import Scheduler
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.parsing.store import register_specs
from aiosched.scheduler.gc_tuning import rare_collections
from aiosched.scheduler.why.why import why
from benchmarks import measure
from benchmarks.figures import Figure, Finding
from benchmarks.many import asked, until_counted
from benchmarks.run import postgres
from benchmarks.stage import Stage, stage, unlimited

TASKS: Final = 100  # of a run: ten side by side, ten times one after the other
_WIDTH: Final = 10
_RUNS_OF_A_DAG: Final = 10
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)

_RUNS: Final = """
    INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after, queued_at,
                         start_date)
    SELECT d.dag_id, 'manual__' || n, d.partition, d.version_id, 'manual', 'api', 'running', $1, $1, $1
      FROM generate_series(0, $2::int - 1) AS n JOIN dag AS d ON d.dag_id = 'wide.' || lpad((n % $3)::text, 5, '0')
"""
_INSTANCES: Final = """
    INSERT INTO task_instance (run_id, task_index, map_index)
    SELECT r.id, i, -1 FROM dag_run AS r CROSS JOIN generate_series(0, $1::int - 1) AS i
"""


async def unfinished(size: int, timeout: float) -> Finding:
    """`size` task instances in runs of a hundred, ten runs of each DAG."""
    runs = max(1, size // TASKS)
    async with stage() as at:
        await _fill(at, runs)
        await at.conn.execute("UPDATE pool SET slots = 0")
        scheduler = Scheduler(dsn=at.dsn, executor="inline", settings=unlimited(at.folders), parse=False)
        with rare_collections():  # as `aiosched serve` does
            used, before, began = await measure.usages(at.conn), measure.resident(), time.monotonic()
            async with asyncio.timeout(timeout), measure.watch_loop() as stall:
                await scheduler.start()
                loaded, held, loading = time.monotonic() - began, measure.resident(), stall.busiest
                cost = (await measure.usages(at.conn)).since(used)
                stall.forget()
                waiting = "SELECT count(*) FROM task_instance WHERE state = 'scheduled'"
                await until_counted(at, waiting, runs * _WIDTH, timeout)
                decided, deciding = time.monotonic() - began, stall.busiest

                async def explain() -> None:
                    await why(scheduler.db, "wide.00000", "latest", f"t{TASKS - 1:03d}")

                explained = await asked("p95 of why, for the last task of a run", explain)
            await scheduler.stop()
        server = await postgres(at.conn)
    return Finding(
        "unfinished-1m",
        f"{runs * TASKS:,} task instances in {runs:,} runs, {server}",
        measure.machine(),
        [
            Figure("loaded", loaded, "s"),
            Figure("loaded, processor time a thousand", cost.scheduler.cpu_seconds / runs / TASKS * 1e6, "ms"),
            Figure("loaded, PostgreSQL a thousand", cost.postgres.cpu_seconds / runs / TASKS * 1e6, "ms"),
            Figure("loading, longest slice of the loop, processor time", loading * 1000, "ms"),
            Figure("memory of an instance", (held - before) / runs / TASKS, "bytes"),
            Figure("first tasks of each run wait for slots", decided, "s"),
            Figure("until then, longest slice of the loop, processor time", deciding * 1000, "ms"),
            explained,
        ],
    )


async def _fill(at: Stage, runs: int) -> None:
    dags = -(-runs // _RUNS_OF_A_DAG)
    tasks = tuple(
        TaskSpec(
            task_id=f"t{place:03d}", operator="None", upstream=(f"t{place - _WIDTH:03d}",) if place >= _WIDTH else ()
        )
        for place in range(TASKS)
    )
    never = parse_schedule(None)
    specs = [
        DagSpec(dag_id=f"wide.{n:05d}", timetable=never, start_date=_START, tasks=tasks, max_active_runs=runs)
        for n in range(dags)
    ]
    async with at.conn.transaction():
        await register_specs(at.conn, specs, now=datetime.now(UTC), paused_at_creation=False)
        await at.conn.execute(_RUNS, _START, runs, dags)
        await at.conn.execute(_INSTANCES, TASKS)
    await at.conn.execute("VACUUM (ANALYZE)")
