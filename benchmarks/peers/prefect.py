"""Prefect runs each DAG of a shape as a flow against its own server, which stores the states of tasks in PostgreSQL.

Tasks in a line are called one after the other, as its documentation does; tasks that stand side by side are submitted
to its thread pool with `wait_for`. Results are not kept and logs are not sent, which its documentation advises for
many small tasks. The flows run side by side in threads of one process.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks.bare_engines import body
from benchmarks.peers.driver import Place, main
from benchmarks.processes import free_port, process_group
from benchmarks.shapes import Shape, levels, linear

_FIRST: Final = Shape("first-2", 1, 2, linear(2))  # what is slow only once is over after it


class Prefect:
    settings = (
        "a server on PostgreSQL; a flow a DAG, `task.submit` to `ThreadPoolTaskRunner` where tasks stand side by side"
    )
    packages = ("prefect", "asyncpg")

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[None]:
        port = free_port()
        api = f"http://127.0.0.1:{port}/api"
        environment = {
            "PREFECT_HOME": str(Path(place.root) / "prefect"),
            "PREFECT_API_URL": api,
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": place.url("asyncpg"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_LOGGING_LEVEL": "WARNING",
            "PREFECT_LOGGING_TO_API_ENABLED": "false",
            "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
            "DO_NOT_TRACK": "1",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }
        os.environ.update(environment)
        command = (sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port))
        with process_group(command, log=Path(place.root) / "server.log", environment=environment) as server:
            await asyncio.to_thread(_wait_for, server, f"{api}/health")
            self._flow = _flow()
            first = Path(place.root) / "first"
            first.mkdir(exist_ok=True)
            await self.run(_FIRST, first)
            yield

    async def run(self, shape: Shape, records: Path) -> float:
        return await asyncio.to_thread(self._run, shape, str(records))

    def _run(self, shape: Shape, records: str) -> float:
        tasks = levels(shape)
        in_line = all(len(level) == 1 for level in tasks)
        began = time.monotonic()
        with ThreadPoolExecutor(shape.dags) as threads:
            flows = [threads.submit(self._flow, records, dag, shape.upstreams(), in_line) for dag in shape.dag_ids()]
            for flow in flows:
                flow.result()
        return began


def _flow() -> Any:
    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE
    from prefect.task_runners import ThreadPoolTaskRunner

    made: Any = task(cache_policy=NO_CACHE)(body)

    def dag(records: str, dag_id: str, tasks: dict[str, list[str]], in_line: bool) -> None:
        futures: dict[str, Any] = {}
        for task_id, upstreams in tasks.items():
            if in_line:
                made(records, dag_id, task_id)
            else:
                before = [futures[name] for name in upstreams]
                futures[task_id] = made.submit(records, dag_id, task_id, wait_for=before)
        for future in futures.values():
            future.result()

    runner: Any = ThreadPoolTaskRunner()
    return flow(task_runner=runner, validate_parameters=False)(dag)


def _wait_for(server: Popen[bytes], address: str) -> None:
    """Until the server answers. Raises RuntimeError when it has ended."""
    while server.poll() is None:
        try:
            urlopen(address, timeout=5.0).close()  # noqa: S310  an address of this machine
            return
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.5)
    raise RuntimeError("its server ended: see server.log")


if __name__ == "__main__":
    main(Prefect())
