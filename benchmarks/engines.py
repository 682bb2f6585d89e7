"""Attempts on engines against the bare engine that makes the same calls, and against `local`, in turns in one run.

The bare engine gets the calls of all DAGs at once, each with those that it waits for. Our bodies are the same, but each
step is stored: the claim, the start, the result, the states of runs.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from statistics import median
from typing import Any, Final

from aiosched.config import Settings
from benchmarks import measure, record
from benchmarks.figures import Figure, Finding
from benchmarks.run import run
from benchmarks.shapes import SHAPES, CallableKind, Shape
from benchmarks.stage import Folders, Stage, process_group, temporary_folders

WORKERS: Final = 2
_THREADS: Final = 2  # of each worker
_MEASURED: Final[tuple[tuple[str, CallableKind], ...]] = (
    ("linear-100x10", "async"),
    ("linear-100x10", "sync"),
    ("parallel-500x10", "async"),
    ("parallel-500x10", "sync"),
    ("chain-200", "async"),
    ("chain-200", "sync"),
)


async def against_dask(size: int, seconds: float) -> Finding:
    """Each shape in turns on bare Dask, on the executor `dask` and on `local`; `size` rounds."""
    figures: list[Figure] = []
    problems: list[str] = []
    for name, kind in _MEASURED:
        shape = SHAPES[name]
        bare, ours, local = list[float](), list[float](), list[float]()
        costs = list[float]()
        for _ in range(size):
            bare.append(await bare_dask(shape))
            result = await run(shape, executor="dask", kind=kind, timeout=seconds, around=dask)
            here = await run(shape, executor="local", kind=kind, timeout=seconds)
            ours.append(result.makespan)
            local.append(here.makespan)
            costs.append(result.usage.scheduler.cpu_seconds / here.usage.scheduler.cpu_seconds)
            problems += [*result.problems, *here.problems]
        label = f"{name} {kind}"
        figures += [
            Figure(f"{label}: bare Dask", median(bare), "s"),
            Figure(f"{label}: dask", median(ours), "s"),
            Figure(f"{label}: local", median(local), "s"),
            Figure(f"{label}: dask / bare Dask", median(ours) / median(bare), "times", most=1.5),
            Figure(f"{label}: scheduler's processor time, dask / local", median(costs), "times", most=1.5),
        ]
    return Finding(
        "engine-dask",
        f"{size} rounds, {WORKERS} workers with {_THREADS} threads each",
        measure.machine(),
        figures,
        problems,
    )


async def bare_dask(shape: Shape) -> float:
    """Seconds from the first submit to the end of the last body, on a cluster that is ready."""
    from distributed import Client

    with temporary_folders() as folders, dask_cluster(folders, {}) as address:
        connect: Any = Client
        async with connect(address, asynchronous=True, set_as_default=False) as client:
            await client.wait_for_workers(WORKERS)
            await client.gather([client.submit(_ready, number, pure=False) for number in range(4 * WORKERS)])
            upstreams = shape.upstreams()
            began = time.monotonic()
            futures: list[Any] = []
            for dag_id in shape.dag_ids():
                made: dict[str, Any] = {}
                for task_id in shape.task_ids():
                    before = [made[name] for name in upstreams[task_id]]
                    body = partial(_body, str(folders.records), dag_id, task_id)
                    made[task_id] = client.submit(body, *before, key=f"{dag_id}-{task_id}", pure=False)
                futures += made.values()
            await client.gather(futures)
        records = record.read(folders.records)
    assert len(records) == shape.total
    return max(one.end for one in records) - began


def _ready(_: int) -> None:
    """A call that lets a worker load what it needs."""


_files: dict[int, int] = {}


def _body(records: str, dag_id: str, task_id: str, *_: object) -> None:
    """What the bodies of shapes.py do."""
    start, pid = time.monotonic(), os.getpid()
    if pid not in _files:
        _files[pid] = os.open(f"{records}/{pid}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(_files[pid], f"{dag_id} {task_id} 1 {pid} {start!r} {time.monotonic()!r}\n".encode())


@contextmanager
def dask_cluster(folders: Folders, environment: Mapping[str, str]) -> Iterator[str]:
    """The address of a Dask scheduler with workers, each a process of its own."""
    address = f"127.0.0.1:{_free_port()}"
    host, port = address.split(":")
    quiet = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
    with ExitStack() as processes:
        start = partial(process_group, log=folders.root / "dask.log", environment=environment)
        python = (sys.executable, "-P", "-m")
        processes.enter_context(
            start([*python, "distributed.cli.dask_scheduler", "--host", host, "--port", port, *quiet])
        )
        for _ in range(WORKERS):
            options = ("--nthreads", str(_THREADS), "--local-directory", str(folders.root), *quiet)
            processes.enter_context(start([*python, "distributed.cli.dask_worker", f"tcp://{address}", *options]))
        yield f"tcp://{address}"


@asynccontextmanager
async def dask(at: Stage) -> AsyncIterator[Callable[[Settings], None]]:
    """A cluster whose workers know our DAGs, and a server with the worker API in a process of its own."""
    settings = {"AIOSCHED_DAGS": str(at.folders.dags), "AIOSCHED__LOGS__LEVEL": "WARNING"}
    async with worker_api(at) as url:
        with dask_cluster(at.folders, settings) as address:

            def change(settings: Settings) -> None:
                settings.dask.address, settings.executor.worker_api = address, url

            yield change


@asynccontextmanager
async def worker_api(at: Stage) -> AsyncIterator[str]:
    """The URL of a server with the worker API."""
    port = _free_port()
    command = ["serve", "--role", "worker-api", "--dsn", at.dsn, "--home", str(at.folders.home), "--port", str(port)]
    log = at.folders.root / "worker-api.log"
    with process_group([sys.executable, "-m", "aiosched", *command], log=log, environment={}):
        yield f"http://127.0.0.1:{port}"


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
