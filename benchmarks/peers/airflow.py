"""Airflow runs a shape's own DAG files with the LocalExecutor: each task is a process, and its state is in PostgreSQL.

Scheduler, DAG processor and API server are processes of their own, as it is deployed. The loops are tuned as its
documentation on the scheduler's performance says: no sleep between them, more runs and tasks in each, pools and limits
out of the way. The DAGs are read while they are paused; the work counts from the request that unpauses all of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from benchmarks.peers.driver import Place, main
from benchmarks.processes import free_port, process_group
from benchmarks.shapes import Shape, dag_files, linear

_AIRFLOW: Final = (sys.executable, "-m", "airflow")
_PARALLELISM: Final = 8  # task processes at one instant
_FIRST: Final = Shape("first-2", 1, 2, linear(2))  # what is slow only once is over after it


class Airflow:
    settings = (
        f"scheduler, DAG processor and API server; `LocalExecutor` with parallelism {_PARALLELISM}, "
        "`scheduler_idle_sleep_time` 0.05, 100 runs and 512 tasks in a loop"
    )
    packages = ("apache-airflow", "apache-airflow-task-sdk", "psycopg2-binary")

    @asynccontextmanager
    async def prepare(self, place: Place) -> AsyncIterator[None]:
        home, port = Path(place.root) / "airflow", free_port()
        self._dags, self._dsn, self._api = home / "dags", place.dsn, f"http://127.0.0.1:{port}"
        self._dags.mkdir(parents=True, exist_ok=True)
        environment = _environment(home, place.url("psycopg2"), self._api)
        with ExitStack() as processes:
            migrate = processes.enter_context(
                process_group((*_AIRFLOW, "db", "migrate"), log=home / "migrate.log", environment=environment)
            )
            if await asyncio.to_thread(migrate.wait):
                raise RuntimeError(f"airflow db migrate: {(home / 'migrate.log').read_text()[-300:]}")
            for words in (("api-server", "--port", str(port)), ("scheduler",), ("dag-processor",)):
                command = (*_AIRFLOW, *words)
                processes.enter_context(process_group(command, log=home / f"{words[0]}.log", environment=environment))
            self._token = await self._first_token()
            first = Path(place.root) / "first"
            first.mkdir(exist_ok=True)
            await self.run(_FIRST, first)
            yield

    async def run(self, shape: Shape, records: Path) -> float:
        start = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
        files = []
        for name, text in dag_files(shape, kind="sync", start=start, records=str(records)):
            (file := self._dags / name).write_text(text.replace("from aiosched import", "from airflow.sdk import"))
            files.append(file)
        await self._until("SELECT count(*) FROM dag WHERE dag_id LIKE %s", shape)
        began = time.monotonic()
        pattern = quote(f"{shape.name}.%")
        await asyncio.to_thread(self._ask, "PATCH", f"/api/v2/dags?dag_id_pattern={pattern}&limit=100", is_paused=False)
        await self._until("SELECT count(*) FROM dag_run WHERE dag_id LIKE %s AND state = 'success'", shape)
        for file in files:
            file.unlink()
        return began

    async def _until(self, count: str, shape: Shape) -> None:
        """Ask every 0.2 s until there is one for each DAG."""
        import psycopg2

        with psycopg2.connect(self._dsn) as conn, conn.cursor() as cursor:
            conn.autocommit = True
            found = 0
            while found < shape.dags:
                await asyncio.sleep(0.2)
                cursor.execute(count, (f"{shape.name}.%",))
                found = cursor.fetchone()[0]

    async def _first_token(self) -> str:
        """A token of the API, as soon as the server answers."""
        while True:
            try:
                return str((await asyncio.to_thread(self._ask, "GET", "/auth/token"))["access_token"])
            except (URLError, ConnectionError):
                await asyncio.sleep(0.5)

    _token = ""

    def _ask(self, method: str, path: str, **body: Any) -> Mapping[str, Any]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        data = json.dumps(body).encode() if body else None
        request = Request(self._api + path, data, headers, method=method)  # noqa: S310
        with urlopen(request, timeout=60.0) as answer:  # noqa: S310  an address of this machine
            document: dict[str, Any] = json.loads(answer.read())
        return document


def _environment(home: Path, url: str, api: str) -> dict[str, str]:
    settings = {
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": str(_PARALLELISM),
        "CORE__MAX_ACTIVE_TASKS_PER_DAG": "10000",
        "CORE__DEFAULT_POOL_TASK_SLOT_COUNT": "10000",
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "CORE__EXECUTION_API_SERVER_URL": f"{api}/execution/",
        "API__BASE_URL": api,
        "API__HOST": "127.0.0.1",
        "API__SECRET_KEY": "benchmark",
        "API_AUTH__JWT_SECRET": "a-secret-of-the-benchmark-that-is-long-enough-for-any-algorithm-0",
        "DATABASE__SQL_ALCHEMY_CONN": url,
        "DATABASE__SQL_ALCHEMY_POOL_SIZE": "10",
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.05",
        "SCHEDULER__MAX_TIS_PER_QUERY": "512",
        "SCHEDULER__MAX_DAGRUNS_TO_CREATE_PER_LOOP": "100",
        "SCHEDULER__MAX_DAGRUNS_PER_LOOP_TO_SCHEDULE": "100",
        "DAG_PROCESSOR__REFRESH_INTERVAL": "1",
        "DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
        "LOGGING__LOGGING_LEVEL": "WARNING",
    }
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    ours = {f"AIRFLOW__{name}": value for name, value in settings.items()}
    return {**ours, "AIRFLOW_HOME": str(home), "PATH": path, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


if __name__ == "__main__":
    main(Airflow())
