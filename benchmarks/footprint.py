"""What `aiosched serve` needs as people start it: memory with many DAGs, and seconds until it is ready."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from statistics import median
from typing import Final

from benchmarks import measure, record
from benchmarks.figures import Figure, Finding
from benchmarks.processes import temporary_folders
from benchmarks.run import postgres, stored_rows, unfinished, unread, write_dags
from benchmarks.shapes import Shape
from benchmarks.stage import TooSlow, stage, start_serve
from benchmarks.verify import verify

_TASKS: Final = 10
_SETTLE: Final = 5.0  # seconds after the first pass, before idle memory is read


async def memory(size: int, timeout: float, *, lead: float | None = None, settle: float = _SETTLE) -> Finding:
    """`size` DAGs of ten tasks: what `serve` with the local executor has in memory before they are due, and its most
    while they run. Pages that several of its processes share count once; PostgreSQL's do not count."""
    shape = Shape("memory", size, _TASKS, ())
    async with stage() as at:
        serve = await start_serve(at.folders, dsn=at.dsn, executor="local")
        try:
            await serve.wait_ready()
            start = write_dags(at, shape, kind="sync", lead=15.0 + size / 20 if lead is None else lead)
            problems = await unread(at.conn, shape, start)
            await asyncio.sleep(settle)
            idle, idle_own = _memory(serve.pid)
            if datetime.now(UTC) > start:
                problems.append("the DAGs were due before idle memory was read: give more time")
            await asyncio.sleep((start - datetime.now(UTC)).total_seconds())
            most = most_own = 0
            until = time.monotonic() + timeout
            over = "SELECT count(*) FROM dag_run WHERE state IN ('success', 'failed')"
            while await at.conn.fetchval(over) < size:
                if time.monotonic() > until:
                    raise TooSlow(f"{await unfinished(at.conn, shape)} after {timeout:.0f} s")
                together, own = _memory(serve.pid)
                most, most_own = max(most, together), max(most_own, own)
                await asyncio.sleep(0.5)
        finally:
            await serve.stop()
        problems += verify(shape, record.read(at.folders.records), await stored_rows(at.conn, shape))
        server = await postgres(at.conn)
    return Finding(
        "memory-1000",
        f"{size:,} DAGs of {_TASKS} tasks, local executor, {server}",
        measure.machine(),
        [
            Figure("idle, all processes of serve", idle / 2**20, "MiB", most=150),
            Figure("under load, all processes of serve", most / 2**20, "MiB", most=300),
            Figure("idle, the scheduler's process", idle_own / 2**20, "MiB"),
            Figure("under load, the scheduler's process", most_own / 2**20, "MiB"),
        ],
        tuple(problems),
    )


def _memory(pid: int) -> tuple[int, int]:
    """Bytes of all processes of a `serve`, and of its first one."""
    processes = measure.descendants(pid)
    return measure.proportional(processes), measure.proportional(processes[:1])


_DAG: Final = '''\
"""One small DAG; generated for a benchmark."""

from datetime import datetime

from aiosched import DAG, task


@task
def hello():
    print("hello")


with DAG("hello", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False):
    hello()
'''


async def ready(size: int, timeout: float) -> Finding:
    """`size` starts of `serve` with an embedded database that exists; the very first start made it."""
    with temporary_folders() as folders:
        (folders.dags / "hello.py").write_text(_DAG)
        starts = []
        for number in range(size + 1):
            serve = await start_serve(folders, dsn=None, executor="local", name=f"start{number}")
            try:
                await serve.wait_ready(timeout)
            finally:
                await serve.stop()
            starts.append((serve.ready_seconds, float(serve.facts["ready"]["seconds"])))
    (first, _), *later = starts
    return Finding(
        "ready",
        f"{size} starts after the first, one DAG, local executor",
        measure.machine(),
        [
            Figure("second start, from the command to ready", median(seconds for seconds, _ in later), "s", most=2.0),
            Figure("of that, as `serve` counts it", median(own for _, own in later), "s"),
            Figure("very first start", first, "s"),
        ],
    )
