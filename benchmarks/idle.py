"""What a service costs that has nothing to do: processor time and statements, with many DAGs and nothing due."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from typing import Final

import psutil

from aiosched import Scheduler
from aiosched.scheduler.gc_tuning import rare_collections
from benchmarks import measure
from benchmarks.figures import Figure, Finding
from benchmarks.run import postgres, unread, write_dags
from benchmarks.shapes import Shape
from benchmarks.stage import Stage, stage, unlimited

_SETTLE: Final = 3.0  # seconds after the last file was read, before the measurement
_FAR: Final = 20 * 3600.0


async def idle(size: int, seconds: float, *, settle: float = _SETTLE) -> Finding:
    """`size` DAGs of two tasks with a daily schedule, read from files; nothing is due while it is measured."""
    shape = Shape("idle", size, 2, ((0, 1),), cron=True)
    async with stage() as at:
        start = write_dags(at, shape, kind="async", lead=_FAR)
        scheduler = Scheduler(dsn=at.dsn, dags_folder=at.folders.dags, executor="local", settings=unlimited(at.folders))
        with measure.count_statements() as counter, rare_collections():  # as `aiosched serve` does
            async with scheduler:
                problems = await _read(at, shape, start, size)
                await asyncio.sleep(settle)
                before, counted, wal = await measure.usages(at.conn), counter.count, await measure.wal_position(at.conn)
                began, children = asyncio.get_running_loop().time(), _children()
                await asyncio.sleep(seconds)
                lasted = asyncio.get_running_loop().time() - began
                statements = counter.count - counted - 1  # the reading of the WAL's position was ours
                helpers = _children() - children
                used = (await measure.usages(at.conn)).since(before)
                written = await measure.wal_position(at.conn) - wal
        runs = await at.conn.fetchval("SELECT count(*) FROM dag_run")
        server = await postgres(at.conn)
    if runs:
        problems.append(f"{runs} runs were created, although none was due")
    return Finding(
        "idle-5000",
        f"{size:,} DAGs of two tasks, {lasted:.0f} s, local executor, {server}",
        measure.machine(),
        [
            Figure("processor time", (used.scheduler.cpu_seconds + helpers) / lasted * 100, "% of a core", most=2.0),
            Figure("statements", statements / lasted, "a second", most=5.0),
            Figure("of PostgreSQL", used.postgres.cpu_seconds / lasted * 100, "% of a core"),
            Figure("WAL", written / lasted, "bytes a second"),
            Figure("memory of the scheduler's process", measure.resident() / 2**20, "MiB"),
        ],
        tuple(problems),
    )


async def _read(at: Stage, shape: Shape, start: datetime, size: int) -> list[str]:
    async with asyncio.timeout(60.0 + size / 20):
        return await unread(at.conn, shape, start)


def _children() -> float:
    """Processor seconds of the processes that the scheduler has started, those that have ended included."""
    this = psutil.Process(os.getpid()).cpu_times()
    alive = measure.descendants(os.getpid())[1:]
    times = [process.cpu_times() for process in alive]
    return this.children_user + this.children_system + sum(t.user + t.system for t in times)
