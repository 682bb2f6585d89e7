"""The calls of a shape on an engine by itself, without aiosched: the bodies are those of shapes.py."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.engine_processes import (
    PYTHON,
    THREADS,
    WORKERS,
    celery_workers,
    dask_cluster,
    with_ours_on_the_path,
)
from benchmarks.processes import temporary_folders
from benchmarks.shapes import Shape

_files: dict[tuple[str, int], int] = {}  # by folder and process


def body(records: str, dag_id: str, task_id: str, *_: object) -> None:
    """What a task does."""
    start, pid = time.monotonic(), os.getpid()
    if (records, pid) not in _files:
        _files[records, pid] = os.open(f"{records}/{pid}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(_files[records, pid], f"{dag_id} {task_id} 1 {pid} {start!r} {time.monotonic()!r}\n".encode())


def ready(_: int) -> None:
    """A call that lets a worker load what it needs."""


async def bare_dask(shape: Shape) -> float:
    """Seconds from the first submit to the end of the last body: `Client.submit`, with futures as arguments."""
    from distributed import Client

    connect: Any = Client
    with temporary_folders() as folders, dask_cluster(folders, with_ours_on_the_path({})) as address:
        async with connect(address, asynchronous=True, set_as_default=False) as client:
            await client.wait_for_workers(WORKERS)
            await client.gather([client.submit(ready, number, pure=False) for number in range(8 * WORKERS)])
            began = await dask_futures(client, shape, folders.records)
        return last_end(shape, folders.records) - began


async def dask_futures(client: Any, shape: Shape, records: Path) -> float:
    """Submit all calls and wait for them; returns when that began, by the monotonic clock."""
    upstreams = shape.upstreams()
    began = time.monotonic()
    futures: list[Any] = []
    for dag_id in shape.dag_ids():
        made: dict[str, Any] = {}
        for task_id in shape.task_ids():
            before = [made[name] for name in upstreams[task_id]]
            call = partial(body, str(records), dag_id, task_id)
            made[task_id] = client.submit(call, *before, key=f"{dag_id}-{task_id}", pure=False)
        futures += made.values()
    await client.gather(futures)
    return began


async def bare_celery(shape: Shape) -> float:
    """The same with Celery on Redis."""
    with temporary_folders() as folders, celery_workers(folders, celery_command(), celery_environment) as address:
        os.environ["BENCHMARK_BROKER"] = address
        from benchmarks.celery_bodies import app_on

        app = app_on(address)
        await celery_answers(app)
        began = celery_sent(app, shape, folders.records)
        await celery_ended(shape, folders.records)
        return last_end(shape, folders.records) - began


def celery_command() -> tuple[str, ...]:
    """A worker of the application in celery_bodies.py."""
    return (*PYTHON, "celery", "-A", "benchmarks.celery_bodies", "worker", "--concurrency", str(THREADS))


def celery_environment(address: str) -> dict[str, str]:
    return with_ours_on_the_path({"BENCHMARK_BROKER": address})


def celery_sent(app: Any, shape: Shape, records: Path) -> float:
    """Send all DAGs as canvases; returns when that began, by the monotonic clock."""
    from benchmarks.celery_bodies import canvases

    began = time.monotonic()
    with app.producer_pool.acquire(block=True) as producer:
        for canvas in canvases(app, shape, str(records)):
            canvas.apply_async(producer=producer)
    return began


async def celery_ended(shape: Shape, records: Path) -> None:
    """Wait until every body has written its line."""
    while _count(records) < shape.total:  # noqa: ASYNC110  workers are other processes
        await asyncio.sleep(0.05)


async def celery_answers(app: Any) -> None:
    """Wait for all workers; raises TimeoutError after a minute."""
    async with asyncio.timeout(60.0):
        while len(await asyncio.to_thread(app.control.ping, timeout=1.0)) < WORKERS:
            pass


def _count(records: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in records.iterdir())


def last_end(shape: Shape, folder: Path) -> float:
    """When the last call of all has ended, by the monotonic clock; raises RuntimeError if some are missing."""
    records = record.read(folder)
    if len(records) != shape.total:
        raise RuntimeError(f"{len(records)} of {shape.total} calls were made")
    return max(one.end for one in records)
