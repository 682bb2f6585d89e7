"""The processes of engines by themselves: schedulers, brokers, workers. It needs the standard library only."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.processes import Folders, free_port, process_group

WORKERS: Final = 2
THREADS: Final = 2  # of each worker
PYTHON: Final = (sys.executable, "-P", "-m")
_ROOT: Final = Path(__file__).parents[1]


@contextmanager
def dask_cluster(folders: Folders, environment: Mapping[str, str]) -> Iterator[str]:
    """The address of a Dask scheduler with workers, each a process of its own."""
    port = free_port()
    quiet = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
    log = folders.root / "dask.log"
    scheduler = (*PYTHON, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), *quiet)
    options = ("--nthreads", str(THREADS), "--local-directory", str(folders.root), *quiet)
    worker = (*PYTHON, "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", *options)
    with ExitStack() as processes:
        for command in (scheduler, *[worker] * WORKERS):
            processes.enter_context(process_group(command, log=log, environment=environment))
        yield f"tcp://127.0.0.1:{port}"


@contextmanager
def celery_workers(
    folders: Folders, command: Sequence[str], environment: Callable[[str], Mapping[str, str]]
) -> Iterator[str]:
    """The address of a Redis, with Celery workers that `command` starts; `environment` gets that address."""
    log = folders.root / "celery.log"
    with redis_server(folders) as address, ExitStack() as processes:
        for number in range(WORKERS):
            words = (*command, "--hostname", f"worker{number}@here")
            processes.enter_context(process_group(words, log=log, environment=environment(address)))
        yield address


@contextmanager
def redis_server(folders: Folders) -> Iterator[str]:
    """The address of a Redis that keeps everything in memory."""
    redis = shutil.which("redis-server")
    if redis is None:
        raise RuntimeError("redis-server is not installed (apt-get install redis-server)")
    port = free_port()
    server = (redis, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
    with process_group(server, log=folders.root / "redis.log", environment={}):
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def kubernetes_node(folders: Folders, of_pods: Mapping[str, str]) -> Iterator[Path]:
    """The kubeconfig of a cluster of one node (kubernetes_node.py); `of_pods` is the environment of its pods."""
    environment = with_ours_on_the_path({"BENCHMARK_PODS": json.dumps(dict(of_pods))})
    command, log = (*PYTHON, "benchmarks.kubernetes_node", str(folders.root)), folders.root / "node.log"
    kubeconfig = folders.root / "kubeconfig"
    with process_group(command, log=log, environment=environment) as process:
        while not kubeconfig.exists():
            if process.poll() is not None:
                raise RuntimeError(f"the node has ended: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        yield kubeconfig


def with_ours_on_the_path(environment: Mapping[str, str]) -> dict[str, str]:
    """For processes that import this package."""
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    return {**environment, "PYTHONPATH": path}
