"""One benchmark: an empty database, the real service, the shape, the verification, the figures.

The DAGs are read first and are all due at one instant a little later, so that the figures are about
scheduling and not about parsing. That lead is no part of any figure.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import asyncpg

from aiosched import DAG, Scheduler
from aiosched.authoring.loader import load_file
from aiosched.config import Settings
from aiosched.db.embedded import EmbeddedPostgres
from aiosched.db.migrate import migrate
from aiosched.scheduler import SchedulerEvent
from benchmarks import measure, record
from benchmarks.lag import lags, percentile, summarise
from benchmarks.report import Result
from benchmarks.shapes import CallableKind, Shape, dag_files
from benchmarks.verify import Row, verify

Executor = Literal["inline", "local"]

NO_LIMIT = 1_000_000


class TooSlow(Exception):
    """The shape was not finished in the time allowed."""


@dataclass(frozen=True)
class Folders:
    """Everything that one benchmark leaves on disk, in one temporary folder."""

    root: Path

    @property
    def dags(self) -> Path:
        return self.root / "dags"

    @property
    def records(self) -> Path:
        return self.root / "records"

    @property
    def home(self) -> Path:
        return self.root / "home"

    def create(self) -> None:
        for folder in (self.dags, self.records, self.home):
            folder.mkdir()


class Finish:
    """Counts the runs that the scheduler says are over: cheaper than asking the rows, and exact."""

    def __init__(self, runs: int) -> None:
        self._left = runs
        self._all = asyncio.Event()

    def __call__(self, event: SchedulerEvent) -> None:
        self._left -= event.kind == "run_finished"
        if self._left == 0:
            self._all.set()

    async def wait(self, scheduler: Scheduler, timeout: float) -> bool:
        """Whether all runs were over within `timeout` seconds; raises what ended the scheduler, if something did."""
        finished = asyncio.create_task(self._all.wait())
        await asyncio.wait((finished, scheduler.failed), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finished.cancel()
        if scheduler.failed.done():
            await scheduler.failed
        return self._all.is_set()


async def run(shape: Shape, *, executor: Executor, kind: CallableKind, lead: float, timeout: float) -> Result:
    """Run `shape` once; `lead` and `timeout` are seconds for reading the DAGs and for running them.

    Raises TooSlow naming what was still missing.
    """
    with tempfile.TemporaryDirectory(prefix="aiosched-benchmark-") as root:
        folders = Folders(Path(root))
        folders.create()
        async with EmbeddedPostgres(folders.home / "pg") as dsn:
            await migrate(dsn)
            conn = await asyncpg.connect(dsn)
            try:
                return await _measured(shape, executor, kind, folders, dsn, conn, lead, timeout)
            finally:
                await conn.close()


async def _measured(
    shape: Shape,
    executor: Executor,
    kind: CallableKind,
    folders: Folders,
    dsn: str,
    conn: asyncpg.Connection,
    lead: float,
    timeout: float,
) -> Result:
    commits = await measure.durable_commits(conn)
    finish = Finish(shape.dags)
    start = datetime.now(UTC) + timedelta(seconds=lead)
    for name, text in dag_files(shape, kind=kind, start=start, records=str(folders.records)):
        (folders.dags / name).write_text(text)
    with measure.count_statements() as counter:
        async with _service(executor, folders, dsn, finish) as scheduler:
            problems = await _unread(conn, shape, start)
            before, wal_before, statements_before = await _readings(conn, counter)
            await asyncio.sleep((start - datetime.now(UTC)).total_seconds())
            if not await finish.wait(scheduler, timeout):
                raise TooSlow(f"{await _unfinished(conn, shape)} after {timeout:.0f} s")
            after, wal_after, statements_after = await _readings(conn, counter)
    commits += await measure.durable_commits(conn)
    records = record.read(folders.records)
    created = await _creations(conn)
    problems += verify(shape, records, await _rows(conn))
    return Result(
        shape=shape.name,
        executor=executor,
        callable=kind,
        at=start.isoformat(timespec="seconds"),
        machine=measure.machine(),
        postgres=f"PostgreSQL {await conn.fetchval('SHOW server_version')}, {await measure.durability(conn)}",
        tasks=shape.total,
        makespan=max(r.end for r in records) - min(created.values()),
        lag=summarise(lags(shape, records, created)),
        commit_p50=percentile(commits, 50),
        statements=statements_after - statements_before,
        wal_bytes=wal_after - wal_before,
        usage=after.since(before),
        problems=tuple(problems),
    )


@asynccontextmanager
async def _service(executor: Executor, folders: Folders, dsn: str, finish: Finish) -> AsyncIterator[Scheduler]:
    """The service with every limit raised, so that the machine is the limit."""
    settings = Settings()
    settings.core.home = folders.home
    settings.core.dags_folder = folders.dags
    settings.core.parallelism = NO_LIMIT
    settings.core.default_pool_task_slot_count = NO_LIMIT
    settings.executor.async_slots = NO_LIMIT
    settings.scheduler.max_dagruns_to_create_per_loop = 10_000
    if executor == "inline":
        scheduler = Scheduler(dsn=dsn, dags=_load(folders.dags), executor="inline", settings=settings, listener=finish)
    else:
        scheduler = Scheduler(dsn=dsn, dags_folder=folders.dags, executor="local", settings=settings, listener=finish)
    async with scheduler:
        yield scheduler


def _load(folder: Path) -> list[DAG]:
    """The DAGs of the generated files, as an application that embeds a scheduler would have them."""
    return [dag for file in sorted(folder.iterdir()) for dag in load_file(file, root=folder).dags]


async def _unread(conn: asyncpg.Connection, shape: Shape, start: datetime) -> list[str]:
    """Wait until every DAG has been read, but not beyond `start`; a problem when some had not."""
    while (known := await conn.fetchval("SELECT count(*) FROM dag WHERE version_id IS NOT NULL")) < shape.dags:
        if datetime.now(UTC) > start:
            return [f"{shape.dags - known} DAGs were read after the start: give more time with --lead"]
        await asyncio.sleep(0.05)
    return []


async def _unfinished(conn: asyncpg.Connection, shape: Shape) -> str:
    states = await conn.fetch(
        "SELECT coalesce(state, 'none') AS state, count(*) FROM task_instance GROUP BY 1 ORDER BY 1"
    )
    counts = ", ".join(f"{row['count']} {row['state']}" for row in states)
    return f"{shape.total} tasks expected, found {counts or 'none'}"


async def _readings(conn: asyncpg.Connection, counter: measure.StatementCounter) -> tuple[measure.Usages, int, int]:
    usages, wal = await measure.usages(conn), await measure.wal_position(conn)
    return usages, wal, counter.count


async def _creations(conn: asyncpg.Connection) -> Mapping[str, float]:
    """When each DAG's run was created, by the monotonic clock (the server runs on this machine)."""
    ahead = time.time() - time.monotonic()
    rows = await conn.fetch("SELECT dag_id, extract(epoch FROM created_at)::float8 AS at FROM dag_run")
    return {row["dag_id"]: row["at"] - ahead for row in rows}


async def _rows(conn: asyncpg.Connection) -> list[Row]:
    versions = await conn.fetch("SELECT id, spec::text AS spec FROM dag_version")
    names = {row["id"]: [task["task_id"] for task in json.loads(row["spec"])["tasks"]] for row in versions}
    rows = await conn.fetch(
        "SELECT r.dag_id, r.version_id, ti.task_index, coalesce(ti.state, 'none') AS state, ti.try_number "
        "FROM task_instance ti JOIN dag_run r ON r.id = ti.run_id"
    )
    return [Row(r["dag_id"], names[r["version_id"]][r["task_index"]], r["state"], r["try_number"]) for r in rows]
