"""Very many DAGs, ten in a file: reading them, a start of `serve`, having nothing to do, and all of them due at once.

read      a first pass over the files, and looks at the unchanged folder
serve     from the command to ready; then, when it has read its files again, processor time and memory
herd      a run of each DAG due at the same second, by an injected clock; there are no slots, so every task waits
ask       lists and the search of the REST API, and `why` for a task that waits
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx2

from aiosched import Scheduler
from aiosched.authoring.base.file_stamps import SETTLED
from aiosched.clock import SystemClock
from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.scheduler.gc_tuning import rare_collections
from aiosched.scheduler.why.why import why
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from benchmarks import measure
from benchmarks.figures import Figure, Finding
from benchmarks.lag import percentile
from benchmarks.parsing import SCANS, TimedParser, scan
from benchmarks.run import postgres
from benchmarks.stage import Stage, TooSlow, stage, start_serve, unlimited

DAGS_PER_FILE: Final = 10
_IDLE: Final = 30.0  # seconds
_SETTLE: Final = 10.0  # seconds after the first pass
_ROUNDS: Final = 20  # requests of each list
_LISTS: Final = (
    "dags",
    "dags?search=many.0004",
    "dags?status=late",
    "dags?tag=few",
    "runs",
    "runs?dag_id=many.00001",
    "run-facets",
    "task-instances",
    "task-instance-facets",
    "pools",
    "pools/default_pool/queue",
    "files",
    "summary",
    "search?q=many.0007",
)
_FILE: Final = '''\
"""Ten DAGs, number {number} of the files; generated for a benchmark."""

from datetime import datetime, timedelta

from aiosched import DAG, task


@task(retries=2, retry_delay=timedelta(minutes=5))
def extract():
    return 1


@task
def load(rows):
    print(rows)


for number in range({first}, {last}):
    with DAG(
        f"many.{{number:05d}}",
        schedule="0 {hour} * * *",
        start_date=datetime.fromisoformat({start!r}),
        catchup=False,
        tags=["few"] if number % 1000 == 3 else [],
        default_args={{"owner": f"team.{{number % 20}}"}},
    ):
        load(extract())
'''


@dataclass
class _ShiftedClock:
    """The machine's clock, moved forward."""

    ahead: timedelta = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> float:
        return time.monotonic()


async def many(size: int, timeout: float, *, idle: float = _IDLE, settle: float = _SETTLE) -> Finding:
    """`size` DAGs; each of the four parts may take `timeout` seconds."""
    files = -(-size // DAGS_PER_FILE)
    now = datetime.now(UTC)
    due = (now + timedelta(hours=12)).replace(minute=0, second=0, microsecond=0)  # far from now, whatever is measured
    start = (due - timedelta(days=1)).isoformat()  # so that no earlier run is due
    async with stage() as at:
        for number in range(files):
            first = number * DAGS_PER_FILE
            last = min(first + DAGS_PER_FILE, size)
            text = _FILE.format(number=number, first=first, last=last, hour=due.hour, start=start)
            (at.folders.dags / f"many_{number:05d}.py").write_text(text)
        figures = await _read(at, size, timeout)
        figures += await _serve(at, files, timeout, idle=idle, settle=settle)
        herd, problems = await _herd(at, size, due, timeout)
        figures += [*herd, *await _ask(at)]
        server = await postgres(at.conn)
    return Finding(
        "many-50000",
        f"{size:,} DAGs of two tasks in {files:,} files, local executor, {server}",
        measure.machine(),
        figures,
        tuple(problems),
    )


async def _read(at: Stage, size: int, timeout: float) -> list[Figure]:
    async with await Database.open(at.dsn) as db:
        parser = TimedParser(unlimited(at.folders), db, clock=SystemClock())
        parser.looked = asyncio.Event()
        running = asyncio.create_task(parser.run())
        try:
            used = await measure.usages(at.conn)
            async with asyncio.timeout(timeout), measure.watch_loop() as stall:
                await parser.first_pass
                used = (await measure.usages(at.conn)).since(used)
                await asyncio.sleep(SETTLED / 1e9 + 0.5)  # stamps as young as that are not trusted yet
                for _ in range(SCANS):
                    await scan(parser)
        finally:
            parser.stop()
            await running
    known = await at.conn.fetchval("SELECT count(*) FROM dag WHERE version_id IS NOT NULL")
    if known != size:
        raise TooSlow(f"{known} of {size} DAGs are known: {parser.stats}")
    return [
        Figure("read: cold", parser.stats.seconds, "s"),
        Figure("read: parsing processes, processor time a DAG", used.workers.cpu_seconds / size * 1000, "ms"),
        Figure("read: storing, processor time a DAG", used.scheduler.cpu_seconds / size * 1000, "ms"),
        Figure("read: PostgreSQL, processor time a DAG", used.postgres.cpu_seconds / size * 1000, "ms"),
        Figure("read: look at the unchanged folder, slowest", max(parser.scans[-SCANS:]), "s", most=1.0),
        Figure("read: longest stall of the loop", stall.longest * 1000, "ms"),
        Figure("read: longest slice of the loop, processor time", stall.busiest * 1000, "ms"),
    ]


async def _serve(at: Stage, files: int, timeout: float, *, idle: float, settle: float) -> list[Figure]:
    """As people start it, with its web server."""
    began = await at.conn.fetchval("SELECT clock_timestamp()")
    serve = await start_serve(at.folders, dsn=at.dsn, executor="local", web=True)
    try:
        await serve.wait_ready(timeout)
        await until_counted(at, "SELECT count(*) FROM dag_file WHERE parsed_at > $1", files, timeout, began)
        settled = time.monotonic() - serve.started
        await asyncio.sleep(settle)
        processes, before, start = measure.descendants(serve.pid), await measure.usages(at.conn), time.monotonic()
        used = measure.usage_of(processes)
        await asyncio.sleep(idle)
        lasted = time.monotonic() - start
        share = measure.usage_of(processes).since(used).cpu_seconds / lasted * 100
        server = (await measure.usages(at.conn)).since(before).postgres.cpu_seconds / lasted * 100
        together, own = measure.proportional(processes), measure.proportional(processes[:1])
    finally:
        await serve.stop()
    return [
        Figure("serve: ready", serve.ready_seconds, "s", most=10.0),
        Figure("serve: has read its files again", settled, "s"),
        Figure("serve: idle, all of its processes", share, "% of a core", most=5.0),
        Figure("serve: idle, PostgreSQL", server, "% of a core"),
        Figure("serve: memory of all of its processes", together / 2**20, "MiB", most=1536),
        Figure("serve: memory of the scheduler's process", own / 2**20, "MiB"),
    ]


async def _herd(at: Stage, size: int, due: datetime, timeout: float) -> tuple[list[Figure], list[str]]:
    await at.conn.execute("UPDATE pool SET slots = 0")
    clock = _ShiftedClock()
    scheduler = Scheduler(
        dsn=at.dsn, executor="inline", settings=unlimited(at.folders), parse=False, clock=clock, name="herd"
    )
    with rare_collections():  # as `aiosched serve` does
        before = measure.resident()
        async with scheduler, measure.watch_loop() as stall:
            held, loading = measure.resident(), stall.busiest
            used = await measure.usages(at.conn)
            stall.forget()
            began = time.monotonic()
            clock.ahead = due - datetime.now(UTC)
            scheduler.wake_loops()
            await until_counted(at, "SELECT count(*) FROM dag_run", size, timeout)
            took = time.monotonic() - began
            used = (await measure.usages(at.conn)).since(used)
            await until_counted(at, "SELECT count(*) FROM task_instance WHERE state = 'scheduled'", size, timeout)
            ready, with_runs = time.monotonic() - began, measure.resident()
            clock.ahead += timedelta(seconds=1)
    dates = await at.conn.fetch("SELECT DISTINCT logical_date FROM dag_run")
    problems = [] if len(dates) == 1 else [f"the runs have {len(dates)} dates, not one"]
    return [
        Figure("herd: all runs created", took, "s", most=30.0),
        Figure("herd: first task of each ready", ready, "s"),
        Figure("herd: processor time a run", used.scheduler.cpu_seconds / size * 1e6, "us"),
        Figure("herd: PostgreSQL, processor time a run", used.postgres.cpu_seconds / size * 1e6, "us"),
        Figure("herd: longest stall of the loop", stall.longest * 1000, "ms"),
        Figure("herd: longest slice of the loop, processor time", stall.busiest * 1000, "ms"),
        Figure("loading, longest slice of the loop, processor time", loading * 1000, "ms"),
        Figure("memory of a DAG", (held - before) / size / 1024, "KiB"),
        Figure("memory of its run", (with_runs - held) / size / 1024, "KiB"),
    ], problems


async def _ask(at: Stage) -> list[Figure]:
    await at.conn.execute("ANALYZE")  # as autovacuum does within a minute
    async with asking(at) as (db, client):
        figures = [await asked(f"p95 of {path}", _getting(client, path)) for path in _LISTS]

        async def explain() -> None:
            await why(db, "many.00001", "latest", "extract")

        return [*figures, await asked("p95 of why, for a task that waits", explain)]


@asynccontextmanager
async def asking(at: Stage) -> AsyncIterator[tuple[Database, httpx2.AsyncClient]]:
    """The REST API in this process."""
    async with await Database.open(at.dsn) as db:
        transport = httpx2.ASGITransport(app=make_app(RequestClient(db, Settings())))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/v1/") as client:
            yield db, client


def _getting(client: httpx2.AsyncClient, path: str) -> Callable[[], Awaitable[None]]:
    async def get() -> None:
        (await client.get(path)).raise_for_status()

    return get


async def asked(what: str, ask: Callable[[], Awaitable[None]], *, most: float = 50.0) -> Figure:
    """How long 95 % of the askings take at most, one at a time."""
    seconds = list[float]()
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        await ask()
        seconds.append(time.perf_counter() - began)
    return Figure(what, percentile(seconds, 95) * 1000, "ms", most=most)


async def until_counted(at: Stage, count: str, number: int, timeout: float, *values: Any) -> None:
    """Wait until a statement counts so many. Raises TooSlow."""
    end = time.monotonic() + timeout
    while (found := await at.conn.fetchval(count, *values)) < number:
        if time.monotonic() > end:
            raise TooSlow(f"{found} of {number} after {timeout:g} s: {count}")
        await asyncio.sleep(0.2)
