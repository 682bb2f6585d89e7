"""Dask runs a shape as futures that depend on each other: it stores nothing, so it is the floor for what is possible.

The event loop is uvloop, as Dask documents for speed. `Client.submit` is what its documentation uses for many small
tasks whose graph is not known as a collection.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.bare_engines import dask_futures, ready
from benchmarks.engine_processes import THREADS, WORKERS, dask_cluster
from benchmarks.peers.driver import Place, main
from benchmarks.shapes import Shape


class Dask:
    settings = f"`Client.submit`, {WORKERS} workers of {THREADS} threads, uvloop; nothing is stored"
    packages = ("distributed", "uvloop")

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[None]:
        from distributed import Client

        os.environ["DASK_DISTRIBUTED__ADMIN__EVENT_LOOP"] = "uvloop"
        connect: Any = Client
        with dask_cluster(place.folders, {}) as address:
            async with connect(address, asynchronous=True, set_as_default=False) as self._client:
                await self._client.wait_for_workers(WORKERS)
                await self._client.gather([self._client.submit(ready, n, pure=False) for n in range(8 * WORKERS)])
                yield

    async def run(self, shape: Shape, records: Path) -> float:
        return await dask_futures(self._client, shape, records)


if __name__ == "__main__":
    import uvloop

    main(Dask(), uvloop.run)
