"""The REST API: how long its lists take with much history, and what browsers cost the scheduler.

`api-1m` asks each list over and over, one request at a time, of an application in this process on a database with a
history. `api-load` measures the lag of open-loop arrivals twice, at first alone, then while a web server in a process
of its own serves so many browsers: each holds a stream of changes and reads a list every two seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final

import httpx2

from aiosched.clock import SystemClock
from aiosched.config import Settings, WebSettings
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.db.server.engine import Database
from aiosched.parsing.store import register_specs
from aiosched.web.app import make_app
from aiosched.web.process import WebProcess
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server import ports
from benchmarks import measure
from benchmarks.figures import Figure, Finding
from benchmarks.history import INSTANCES_OF_A_RUN, fill
from benchmarks.lag import percentile
from benchmarks.run import postgres
from benchmarks.stage import stage
from benchmarks.sustained import at_rate

_DAGS: Final = 10_000
_ROUNDS: Final = 60
_RATE: Final = 200  # tasks a second, while browsers look
_BETWEEN: Final = 2.0  # seconds between two lists of a browser
_START: Final = datetime(2020, 1, 1, tzinfo=UTC)

LISTS: Final = (
    "dags",
    "dags?search=dag.0005",
    "dags?status=late",
    "dag-statistics?" + "&".join(f"dag_id=dag.{number:05d}" for number in range(100)),
    "runs",
    "runs?dag_id=dag.00042",
    "runs?dag_id=dag.00042&state=success&search=old",
    "runs?owner=team.3&tag=few&order=-end_date",
    "runs?state=failed&ended_since=2020-01-01T00:00:00Z&order=-end_date",
    "run-facets?state=failed",
    "run-facets?tag=few",
    "task-instances",
    "task-instances?state=running",
    "task-instances?state=failed",
    "task-instances?state=skipped",
    "task-instances?owner=team.3&state=failed",
    "task-instances?operator=Old&pool=default_pool&reason=KeyError",
    "task-instance-facets",
    "task-instance-facets?owner=team.3&state=failed",
    "dags/dag.00042/grid",
    "dags/dag.00042/calendar?year=2020",
    "dags/dag.00042/runs/latest/tasks",
    "dags/dag.00042/runs/latest/gantt",
    "pools",
    "pools/default_pool/queue",
    "commands",
    "commands?dag_id=dag.00042",
    "assets",
    "backfills",
    "files",
    "import-errors",
    "schedulers",
    "figures?hours=168",
    "timeline",
    "summary",
    "search?q=dag.07",
    "activity",
)
FAILED: Final = (  # one run in fifty, by a task of it
    "UPDATE dag_run SET state = 'failed' WHERE id % 50 = 0",
    "UPDATE task_instance SET state = 'failed', reason = 'KeyError: 7' WHERE run_id % 50 = 0 AND task_index = 4",
    "VACUUM (ANALYZE) dag_run, task_instance",
)
_COMMANDS: Final = """
    INSERT INTO request (dag_id, verb, requested_by, state, result)
    SELECT format('dag.%s', lpad((n % 10000)::text, 5, '0')), 'pause', 'api:ann', 'applied', '{}'
      FROM generate_series(1, 100000) AS n
"""


async def api_latencies(size: int, _: float) -> Finding:
    """Each list, `_ROUNDS` times, with `size` task instances."""
    figures: list[Figure] = []
    problems: list[str] = []
    async with stage() as at:
        tasks = tuple(TaskSpec(task_id=f"t{number}", operator="Old") for number in range(INSTANCES_OF_A_RUN))
        dag_ids = [f"dag.{number:05d}" for number in range(_DAGS)]
        never = parse_schedule(None)
        specs = [
            DagSpec(
                dag_id=dag_id, timetable=never, start_date=_START, tasks=tasks, owner=f"team.{place % 20}",
                tags=("few",) if place % 1000 == 3 else (),
            )
            for place, dag_id in enumerate(dag_ids)
        ]  # fmt: skip
        async with at.conn.transaction():
            await register_specs(at.conn, specs, now=SystemClock().now(), paused_at_creation=False)
        await fill(at.conn, dag_ids, size)
        for statement in FAILED:
            await at.conn.execute(statement)
        await at.conn.execute(_COMMANDS)
        await at.conn.execute("ANALYZE")
        server = await postgres(at.conn)
        async with await Database.open(at.dsn) as db:
            transport = httpx2.ASGITransport(app=make_app(RequestClient(db, Settings())))
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/v1/") as client:
                for path in LISTS:
                    seconds, statuses = [], set()
                    for _round in range(_ROUNDS):
                        began = time.perf_counter()
                        statuses.add((await client.get(path)).status_code)
                        seconds.append(time.perf_counter() - began)
                    if statuses != {200}:
                        problems.append(f"{path}: answered {sorted(statuses)}")
                    name = path if len(path) < 60 else f"{path[:50]}…"
                    figures.append(Figure(f"{name}: p95", percentile(seconds, 95) * 1000, "ms", most=50))
    about = f"{size:,} task instances of {_DAGS} DAGs, {_ROUNDS} requests each, one at a time, {server}"
    return Finding("api-1m", about, measure.machine(), figures, tuple(problems))


async def api_load(browsers: int, seconds: float) -> Finding:
    """The lag of tasks alone, and with so many browsers."""
    counts: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def looked_at(dsn: str) -> AsyncIterator[None]:
        async with web_server(dsn) as url, _browsers(url, browsers, counts):
            yield

    alone = await at_rate(_RATE, int(seconds))
    together = await at_rate(_RATE, int(seconds), beside=looked_at)
    figures = [Figure(f"{figure.what}, alone", figure.value, figure.unit) for figure in _lags(alone)]
    figures += [Figure(f"{figure.what}, with browsers", figure.value, figure.unit) for figure in _lags(together)]
    ratio = _lags(together)[0].value / _lags(alone)[0].value
    figures.append(Figure("lag p50, with browsers to alone", ratio, "", most=1.2))
    figures.append(Figure("lists read a second", counts.get("lists", 0) / seconds, ""))
    figures.append(Figure("changes received", counts.get("changes", 0), ""))
    problems = [*alone.problems, *together.problems]
    if counts.get("failed"):
        problems.append(f"{counts['failed']} requests failed")
    about = f"{_RATE} tasks/s for {seconds:g} s, {browsers} browsers: a stream and a list every {_BETWEEN:g} s each"
    return Finding("api-load", about, measure.machine(), figures, tuple(problems))


def _lags(finding: Finding) -> list[Figure]:
    return [figure for figure in finding.figures if "lag p50" in figure.what or "lag p99" in figure.what]


@contextlib.asynccontextmanager
async def web_server(dsn: str) -> AsyncIterator[str]:
    """The web server beside a scheduler on that database, as `aiosched serve` starts it; its address."""
    settings = Settings(web=WebSettings(loopback_login="none"))
    sock = ports.bind(settings.web.host, 0)
    web = WebProcess(settings, dsn, sock)
    await web.start()
    try:
        yield ports.url_of(sock, settings.web.host)
    finally:
        await web.stop()


@contextlib.asynccontextmanager
async def _browsers(url: str, number: int, counts: dict[str, int]) -> AsyncIterator[None]:
    """A process that looks, as `python -m benchmarks.api URL NUMBER`; it prints its counts at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.api", url, str(number),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        async with asyncio.timeout(60):
            await process.stdout.readline()  # all of them look
        yield
    finally:
        process.stdin.close()
        counts.update(json.loads(await process.stdout.readline()))
        await process.wait()


async def _look(url: str, number: int) -> None:
    os.nice(19)  # browsers run on other machines
    counts = {"lists": 0, "changes": 0, "failed": 0}
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(base_url=f"{url}/api/v1/", timeout=30, limits=limits, trust_env=False) as client:

        async def receive() -> None:
            async with client.stream("GET", "stream", timeout=None) as answer:
                async for line in answer.aiter_lines():
                    counts["changes"] += line.startswith("data:")

        async def read(first: int) -> None:
            place = first
            await asyncio.sleep(_BETWEEN * first / number)
            while True:
                path = ("dags", "runs", "summary", "pools")[place % 4]
                failed = (await client.get(path)).status_code != 200
                counts["failed" if failed else "lists"] += 1
                place += 1
                await asyncio.sleep(_BETWEEN)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for one in range(number) for each in (receive(), read(one))]
            await asyncio.sleep(1.0)
            print("ready", flush=True)
            os.set_blocking(0, True)  # uvloop in the parent made its end of the pipe, and so ours, non-blocking
            await asyncio.to_thread(sys.stdin.read)
            for task in tasks:
                task.cancel()
    print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    asyncio.run(_look(sys.argv[1], int(sys.argv[2])))
