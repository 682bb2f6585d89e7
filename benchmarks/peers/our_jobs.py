"""aiosched runs one-off jobs inside the application that asks for them: a job, `inline`, `enqueue_many`, durably."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import uvloop

from aiosched import Scheduler, enqueue_many
from benchmarks.bare_engines import body
from benchmarks.peers.driver import Place, main
from benchmarks.peers.job_batches import AT_ONCE, batches
from benchmarks.processes import temporary_folders
from benchmarks.shapes import Shape
from benchmarks.stage import staged, unlimited


class OurJobs:
    settings = (
        f"one process; `enqueue_many` in transactions of the application, {AT_ONCE:,} at once, default durability"
    )
    packages = ("aiosched", "asyncpg")

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[None]:
        with temporary_folders() as folders:
            async with staged(folders, place.dsn):
                scheduler = Scheduler(dsn=place.dsn, dags=[], executor="inline", settings=unlimited(folders))

                @scheduler.job(max_active_runs=AT_ONCE)
                async def job(records: str, name: str) -> None:
                    body(records, name, "t0000")
                    self._left -= 1
                    if not self._left:
                        self._ended.set()

                async with scheduler, asyncpg.create_pool(place.dsn) as self._pool:
                    yield

    async def run(self, shape: Shape, records: Path) -> float:
        self._left, self._ended = shape.total, asyncio.Event()
        began = time.monotonic()
        for names in batches(shape):
            async with self._pool.acquire() as conn, conn.transaction():
                await enqueue_many(conn, "job", [{"conf": {"records": str(records), "name": name}} for name in names])
        await self._ended.wait()
        return began


if __name__ == "__main__":
    main(OurJobs(), uvloop.run)
