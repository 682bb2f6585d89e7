"""Celery runs a shape as canvases on Redis: messages that nobody stores durably, which is its usual set-up.

Chains for tasks in a line, groups below a task for trees, a chord where one task waits for many. Results are kept in
Redis for chords only: a result backend in a database would ask for the end of a chord once a second.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.bare_engines import celery_answers, celery_command, celery_ended, celery_environment, celery_sent
from benchmarks.engine_processes import THREADS, WORKERS, celery_workers
from benchmarks.peers.driver import Place, main
from benchmarks.shapes import Shape


class Celery:
    settings = f"chains, groups and chords on Redis (not durable), {WORKERS} prefork workers of {THREADS} processes"
    packages = ("celery", "redis")

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[None]:
        with celery_workers(place.folders, celery_command(), celery_environment) as address:
            os.environ["BENCHMARK_BROKER"] = address
            from benchmarks.celery_bodies import app_on

            self._app = app_on(address)
            await celery_answers(self._app)
            yield

    async def run(self, shape: Shape, records: Path) -> float:
        began = await asyncio.to_thread(celery_sent, self._app, shape, records)
        await celery_ended(shape, records)
        return began


if __name__ == "__main__":
    main(Celery())
