"""Procrastinate runs one-off jobs in the process that asks for them, stored in PostgreSQL, as we do.

`batch_defer_async` and one worker with the concurrency and the pool of connections that were quickest here.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks.bare_engines import body
from benchmarks.peers.driver import Place, main
from benchmarks.peers.job_batches import batches
from benchmarks.shapes import Shape

_CONCURRENCY: Final = 20
_CONNECTIONS: Final = 20


class Procrastinate:
    settings = f"one process; `batch_defer_async`, a worker of concurrency {_CONCURRENCY}, uvloop, jobs are kept"
    packages = ("procrastinate", "psycopg")

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[None]:
        from procrastinate import App, PsycopgConnector

        app: Any = App(connector=PsycopgConnector(conninfo=place.dsn, min_size=4, max_size=_CONNECTIONS))

        async def job(records: str, name: str) -> None:
            body(records, name, "t0000")
            self._left -= 1
            if not self._left:
                self._ended.set()

        self._job = app.task(name="job")(job)
        async with app.open_async():
            if not await app.check_connection_async():
                await app.schema_manager.apply_schema_async()
            working = asyncio.create_task(app.run_worker_async(concurrency=_CONCURRENCY, install_signal_handlers=False))
            try:
                yield
            finally:
                working.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await working

    async def run(self, shape: Shape, records: Path) -> float:
        self._left, self._ended = shape.total, asyncio.Event()
        began = time.monotonic()
        for names in batches(shape):
            await self._job.batch_defer_async(*({"records": str(records), "name": name} for name in names))
        await self._ended.wait()
        return began


if __name__ == "__main__":
    main(Procrastinate(), uvloop.run)
