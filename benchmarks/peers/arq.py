"""Arq runs one-off jobs in the process that asks for them, on a Redis that does not write to disk: all of it is lost
with that.

As many jobs at once as others have, results are not kept, which its documentation offers, and a short delay between
two looks into the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks.bare_engines import body
from benchmarks.engine_processes import redis_server
from benchmarks.peers.driver import Place, main
from benchmarks.peers.job_batches import AT_ONCE, batches
from benchmarks.shapes import Shape

_DELAY: Final = 0.01  # seconds between two looks into the queue


class Arq:
    settings = (
        f"one process; `enqueue_job` (gathered), {AT_ONCE:,} jobs at once, `poll_delay` {_DELAY:g}, `keep_result` 0, "
        "uvloop; Redis, not durable"
    )
    packages = ("arq", "redis")

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[None]:
        from arq import create_pool, func
        from arq.connections import RedisSettings
        from arq.worker import Worker

        async def job(_: dict[Any, Any], records: str, name: str) -> None:
            body(records, name, "t0000")
            self._left -= 1
            if not self._left:
                self._ended.set()

        logging.getLogger("arq").setLevel(logging.WARNING)
        with redis_server(place.folders) as address:
            settings = RedisSettings.from_dsn(address)
            self._pool = await create_pool(settings)
            worker = Worker(
                [func(job, name="job")],
                redis_settings=settings,
                max_jobs=AT_ONCE,
                poll_delay=_DELAY,
                keep_result=0,
                handle_signals=False,
            )
            working = asyncio.create_task(worker.async_run())
            try:
                yield
            finally:
                with contextlib.suppress(asyncio.CancelledError):
                    await worker.close()
                    await working
                await self._pool.aclose()

    async def run(self, shape: Shape, records: Path) -> float:
        self._left, self._ended = shape.total, asyncio.Event()
        began = time.monotonic()
        for names in batches(shape):
            await asyncio.gather(*(self._pool.enqueue_job("job", str(records), name) for name in names))
        await self._ended.wait()
        return began


if __name__ == "__main__":
    main(Arq(), uvloop.run)
