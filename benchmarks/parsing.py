"""How long many DAG files take: the first pass over them, and a look at the folder when nothing has changed."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final

from aiosched.authoring.base.file_stamps import SETTLED
from aiosched.clock import SystemClock
from aiosched.db.server.engine import Database
from aiosched.parsing.service import Parser
from benchmarks import measure
from benchmarks.figures import Figure, Finding
from benchmarks.stage import stage, unlimited

SCANS: Final = 5

FILE: Final = '''\
"""A DAG file of an ordinary size, number {number}; generated for a benchmark."""

from datetime import datetime, timedelta

from aiosched import DAG, task


@task(retries=2, retry_delay=timedelta(minutes=5))
def extract(source: str):
    return [source]


@task
def transform(rows):
    return rows


@task
def load(rows):
    print(rows)


with DAG("dag_{number:04d}", schedule="{minute} 4 * * *", start_date=datetime(2026, 1, 1), catchup=False):
    for source in ("orders", "customers", "products"):
        found = extract.override(task_id=f"extract_{{source}}")(source)
        rows = transform.override(task_id=f"transform_{{source}}")(found)
        load.override(task_id=f"load_{{source}}")(rows)
'''


async def processor_time(size: int, text: str, timeout: float) -> tuple[float, str]:
    """The milliseconds of processor time that parsing one of `size` files takes, and what went wrong."""
    async with stage() as at:
        for number in range(size):
            (at.folders.dags / f"dag_{number:04d}.py").write_text(text.format(number=number, minute=number % 60))
        async with await Database.open(at.dsn) as db:
            parser = Parser(unlimited(at.folders), db, clock=SystemClock())
            before = await measure.usages(at.conn)
            running = asyncio.create_task(parser.run())
            try:
                async with asyncio.timeout(timeout):
                    await parser.first_pass
                used = (await measure.usages(at.conn)).since(before)
            finally:
                parser.stop()
                await running
        good = (parser.stats.files, parser.stats.errors) == (size, 0)
    return used.workers.cpu_seconds / size * 1000, "" if good else str(parser.stats)


class TimedParser(Parser):
    """A parser that notes how long each look at the folder takes, the work in the database included."""

    looked: asyncio.Event
    scans: tuple[float, ...] = ()

    async def _list_once(self) -> None:
        began = time.monotonic()
        await super()._list_once()
        self.scans = (*self.scans, time.monotonic() - began)
        self.looked.set()


async def parse(size: int, timeout: float) -> Finding:
    """`size` files with a DAG of nine tasks each, parsed cold; then some looks at the same, unchanged files."""
    async with stage() as at:
        for number in range(size):
            text = FILE.format(number=number, minute=number % 60)
            (at.folders.dags / f"dag_{number:04d}.py").write_text(text)
        async with await Database.open(at.dsn) as db:
            parser = TimedParser(unlimited(at.folders), db, clock=SystemClock())
            parser.looked = asyncio.Event()
            before = await measure.usages(at.conn)
            running = asyncio.create_task(parser.run())
            try:
                async with asyncio.timeout(timeout):
                    await parser.first_pass
                cold = await measure.usages(at.conn)
                await asyncio.sleep(SETTLED / 1e9 + 0.5)  # stamps as young as that are not trusted yet
                own = time.process_time()
                for _ in range(SCANS):
                    await scan(parser)
                own = time.process_time() - own
            finally:
                parser.stop()
                await running
        stats, used = parser.stats, cold.since(before)
        known = await at.conn.fetchval("SELECT count(*) FROM dag WHERE version_id IS NOT NULL")
    problems = [] if (stats.files, stats.errors, known) == (size, 0, size) else [f"{stats}, {known} DAGs are known"]
    return Finding(
        "parse-1000",
        f"{size:,} files, {len(os.sched_getaffinity(0))} processes",
        measure.machine(),
        [
            Figure("cold, for 1,000 files", stats.seconds * 1000 / size, "s", most=30.0),
            Figure("unchanged re-scan, slowest", max(parser.scans[-SCANS:]), "s", most=1.0),
            Figure("processor time of a re-scan", own / SCANS, "s"),
            Figure("processor time a file: parsing", used.workers.cpu_seconds / size * 1000, "ms"),
            Figure("processor time a file: storing", used.scheduler.cpu_seconds / size * 1000, "ms"),
        ],
        tuple(problems),
    )


async def scan(parser: TimedParser) -> None:
    parser.looked.clear()
    parser.refresh()
    async with asyncio.timeout(60.0):
        await parser.looked.wait()
