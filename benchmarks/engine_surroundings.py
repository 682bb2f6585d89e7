"""An engine around a scheduler of ours: its processes, and a server with the worker API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from aiosched.config import Settings
from aiosched.db.crypto.keyring import new_key
from benchmarks.engine_processes import PYTHON, THREADS, celery_workers, dask_cluster, kubernetes_node
from benchmarks.processes import free_port, process_group
from benchmarks.stage import Stage


@asynccontextmanager
async def dask(at: Stage) -> AsyncIterator[Callable[[Settings], None]]:
    """A cluster whose workers know our DAGs, and a server with the worker API in a process of its own."""
    with worker_api(at) as url, dask_cluster(at.folders, _of_workers(at)) as address:

        def change(settings: Settings) -> None:
            settings.dask.address, settings.executor.worker_api = address, url

        yield change


@asynccontextmanager
async def celery(at: Stage) -> AsyncIterator[Callable[[Settings], None]]:
    """The same with a Redis and Celery workers."""
    command, keys = (*PYTHON, "aiosched", "celery", "worker", "--slots", str(THREADS)), new_key()

    def environment(address: str) -> Mapping[str, str]:
        return {**_of_workers(at), "AIOSCHED__CELERY__BROKER": address, "AIOSCHED__CELERY__KEYS": keys}

    with worker_api(at) as url, celery_workers(at.folders, command, environment) as address:

        def change(settings: Settings) -> None:
            settings.celery.broker, settings.celery.keys, settings.executor.worker_api = address, keys, url

        yield change


@asynccontextmanager
async def kubernetes(at: Stage) -> AsyncIterator[Callable[[Settings], None]]:
    """A cluster whose pods know our DAGs, and a server with the worker API."""
    pods = {"AIOSCHED_DAGS": str(at.folders.dags), "AIOSCHED__EXECUTOR__SLOTS": "1", "AIOSCHED__LOGS__LEVEL": "WARNING"}
    with worker_api(at) as url, kubernetes_node(at.folders, pods) as kubeconfig:

        def change(settings: Settings) -> None:
            options = settings.kubernetes
            options.kubeconfig, options.image, options.requests_per_second = kubeconfig, "aiosched", 500.0
            settings.executor.worker_api = url

        yield change


def _of_workers(at: Stage) -> dict[str, str]:
    home = at.folders.root / "worker"
    return {"AIOSCHED_DAGS": str(at.folders.dags), "AIOSCHED_HOME": str(home), "AIOSCHED__LOGS__LEVEL": "WARNING"}


@contextmanager
def worker_api(at: Stage) -> Iterator[str]:
    """The URL of a server with the worker API."""
    port = free_port()
    command = ("serve", "--role", "worker-api", "--dsn", at.dsn, "--home", str(at.folders.home), "--port", str(port))
    with process_group((*PYTHON, "aiosched", *command), log=at.folders.root / "worker-api.log", environment={}):
        yield f"http://127.0.0.1:{port}"
