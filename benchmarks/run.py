"""One shape: an empty database (or one with a history), the real service, the verification, the figures.

The DAGs are read first and are all due at one instant a little later, so that the figures are about
scheduling and not about parsing. That lead is no part of any figure.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal

import asyncpg

from aiosched import DAG, Scheduler
from aiosched.authoring.dag.loader import load_file
from aiosched.config import Settings
from aiosched.db.statements.inbox import send_request
from aiosched.scheduler import SchedulerEvent
from aiosched.scheduler.gc_tuning import rare_collections
from benchmarks import measure, record
from benchmarks.lag import lags, percentile, summarise
from benchmarks.processes import Folders
from benchmarks.report import Result
from benchmarks.shapes import CallableKind, Shape, dag_files
from benchmarks.stage import Stage, TooSlow, stage, unlimited
from benchmarks.verify import Row, verify

Executor = Literal["inline", "local"] | str  # or the name of an engine
_HALF_A_DAY: Final = 43_200.0
_REHEARSAL: Final = "rehearsal"  # between a history's run ids (`manual__…`) and the measured ones (`scheduled__…`)
_REHEARSED: Final = """
    SELECT count(*) FROM task_instance AS ti JOIN dag_run AS r ON r.id = ti.run_id
     WHERE r.run_id = $1 AND ti.state = 'success'
"""
Seed = Callable[[asyncpg.Connection, Shape], Awaitable[None]]
Surroundings = Callable[[Stage], AbstractAsyncContextManager[Callable[[Settings], None]]]


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


def default_lead(shape: Shape) -> float:
    """Seconds for reading the DAGs. Generous: what is left of it is waited out and is in no figure."""
    return 8.0 + shape.total / 1500 + shape.dags / 200


async def run(
    shape: Shape,
    *,
    executor: Executor,
    kind: CallableKind,
    lead: float | None = None,
    timeout: float = 300.0,
    seed: Seed | None = None,
    rehearsed: bool = False,
    around: Surroundings | None = None,
    watched: AbstractContextManager[object] | None = None,
) -> Result:
    """Run `shape` once; `lead` and `timeout` are seconds for reading the DAGs and for running them.

    `seed` fills the database before the service starts; `rehearsed`: the shape runs once unmeasured after that.
    `around` is there while it runs (the processes of an engine, say), and changes the scheduler's settings.
    `watched` is entered shortly before the DAGs are due, and left when their runs are over.
    Raises TooSlow naming what was still missing.
    """
    async with stage() as at:
        return await run_on(
            at,
            shape,
            executor=executor,
            kind=kind,
            lead=lead,
            timeout=timeout,
            seed=seed,
            rehearsed=rehearsed,
            around=around,
            watched=watched,
        )


async def run_on(
    at: Stage,
    shape: Shape,
    *,
    executor: Executor,
    kind: CallableKind,
    lead: float | None = None,
    timeout: float = 300.0,
    seed: Seed | None = None,
    rehearsed: bool = False,
    around: Surroundings | None = None,
    watched: AbstractContextManager[object] | None = None,
) -> Result:
    """The same on a stage that is there."""
    if seed is not None:
        await seed(at.conn, shape)
    await make_pool(at.conn, shape)
    if rehearsed:
        await _rehearse(shape, executor, kind, at, timeout)
    lead = default_lead(shape) if lead is None else lead
    return await _measured(
        shape, executor, kind, at, lead, timeout, around or _nothing_around, watched or nullcontext()
    )


def _nothing_around(_: Stage) -> AbstractAsyncContextManager[Callable[[Settings], None]]:
    return nullcontext(_unchanged)


def _unchanged(_: Settings) -> None:
    """The settings as they are."""


async def _rehearse(shape: Shape, executor: Executor, kind: CallableKind, at: Stage, timeout: float) -> None:
    """A checkpoint, then a manual run of every DAG; only its rows stay. Raises TooSlow.

    The first change of a page after a checkpoint writes the whole page into the write-ahead log. The rehearsal makes
    these for the pages that the measured runs change, in indexes too: hence the same DAGs, and its run id.
    """
    await at.conn.execute("CHECKPOINT")
    finish = Finish(shape.dags)
    start = write_dags(at, replace(shape, cron=True), kind=kind, lead=_HALF_A_DAY)  # began, and is not due for long
    with rare_collections():
        async with _service(executor, at.folders, at.dsn, finish) as scheduler:
            await unread(at.conn, shape, start)
            args = {"conf": {}, "run_id": _REHEARSAL, "triggered_by": "api"}
            for name in shape.dag_ids():
                await send_request(at.conn, verb="trigger", dag_id=name, args=args, requested_by="benchmark")
            if not await finish.wait(scheduler, timeout):
                raise TooSlow(f"the rehearsal: {await unfinished(at.conn, shape)} after {timeout:.0f} s")
    await measure.wait_alone(at.conn)
    await at.conn.execute("ANALYZE")  # else autovacuum does so meanwhile, where there are more than 50 DAGs
    ended = await at.conn.fetchval(_REHEARSED, _REHEARSAL)
    if ended != shape.total:
        raise RuntimeError(f"{ended} of {shape.total} tasks were a success in the rehearsal")
    record.forget(at.folders.records)
    for file in at.folders.dags.iterdir():
        file.unlink()


async def _measured(
    shape: Shape,
    executor: Executor,
    kind: CallableKind,
    at: Stage,
    lead: float,
    timeout: float,
    around: Surroundings,
    watched: AbstractContextManager[object],
) -> Result:
    conn = at.conn
    commits = await measure.durable_commits(conn)
    finish = Finish(shape.dags)
    start = write_dags(at, shape, kind=kind, lead=lead)
    use_before = await measure.table_use(conn)
    async with around(at) as change:
        with measure.count_statements() as counter, rare_collections():  # as `aiosched serve` does
            service = _service(executor, at.folders, at.dsn, finish, change)
            async with service as scheduler, measure.watch_loop() as stall:
                problems = await unread(conn, shape, start)
                before, wal_before, statements_before = await _readings(conn, counter)
                with watched:
                    await asyncio.sleep((start - datetime.now(UTC)).total_seconds())
                    stall.longest = 0.0
                    if not await finish.wait(scheduler, timeout):
                        raise TooSlow(f"{await unfinished(conn, shape)} after {timeout:.0f} s")
                after, wal_after, statements_after = await _readings(conn, counter)
    await measure.wait_alone(conn)
    use = await measure.table_use(conn)
    commits += await measure.durable_commits(conn)
    records = record.read(at.folders.records)
    created = await creations(conn, shape)
    problems += verify(shape, records, await stored_rows(conn, shape))
    return Result(
        shape=shape.name,
        executor=executor,
        callable=kind,
        at=start.isoformat(timespec="seconds"),
        machine=measure.machine(),
        postgres=await postgres(conn),
        tasks=shape.total,
        makespan=max(r.end for r in records) - min(created.values()),
        creation=max(created.values()) - min(created.values()),
        lag=summarise(lags(shape, records, created)),
        commit_p50=percentile(commits, 50),
        statements=statements_after - statements_before,
        wal_bytes=wal_after - wal_before,
        hot_share=use.hot_share_since(use_before),
        scans={name: count - use_before.scans[name] for name, count in use.scans.items()},
        most_at_once=record.most_at_once(records),
        stall=stall.longest,
        usage=after.since(before),
        problems=tuple(problems),
    )


def write_dags(at: Stage, shape: Shape, *, kind: CallableKind, lead: float) -> datetime:
    """Write the shape's DAG files, due `lead` seconds from now; returns that instant."""
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=math.ceil(lead) + 1)
    for name, text in dag_files(shape, kind=kind, start=start, records=str(at.folders.records)):
        (at.folders.dags / name).write_text(text)
    return start


async def make_pool(conn: asyncpg.Connection, shape: Shape) -> None:
    """The pool that the shape's tasks share, if it has one."""
    if shape.pool_slots is not None:
        await conn.execute("INSERT INTO pool (name, slots) VALUES ($1, $2)", shape.pool, shape.pool_slots)


@asynccontextmanager
async def _service(
    executor: Executor,
    folders: Folders,
    dsn: str,
    finish: Finish,
    change: Callable[[Settings], None] = _unchanged,
) -> AsyncIterator[Scheduler]:
    settings = unlimited(folders)
    change(settings)
    if executor == "inline":
        dags = load_dags(folders.dags)
        scheduler = Scheduler(dsn=dsn, dags=dags, executor="inline", settings=settings, listener=finish)
    else:
        scheduler = Scheduler(dsn=dsn, dags_folder=folders.dags, executor=executor, settings=settings, listener=finish)
    async with scheduler:
        yield scheduler


def load_dags(folder: Path) -> list[DAG]:
    """The DAGs of the generated files, as an application that embeds a scheduler would have them."""
    return [dag for file in sorted(folder.iterdir()) for dag in load_file(file, root=folder).dags]


async def unread(conn: asyncpg.Connection, shape: Shape, start: datetime) -> list[str]:
    """Wait until every DAG has been read, but not beyond `start`; a problem when some had not."""
    known = "SELECT count(*) FROM dag WHERE next_dagrun_create_after = $1"
    while (there := await conn.fetchval(known, start)) < shape.dags:
        if datetime.now(UTC) > start:
            return [f"{shape.dags - there} DAGs were read after the start: give more time with --lead"]
        await asyncio.sleep(0.05)
    return []


async def unfinished(conn: asyncpg.Connection, shape: Shape) -> str:
    states = await conn.fetch(
        "SELECT coalesce(state, 'none') AS state, count(*) FROM task_instance GROUP BY 1 ORDER BY 1"
    )
    counts = ", ".join(f"{row['count']} {row['state']}" for row in states)
    return f"{shape.total} tasks expected, found {counts or 'none'}"


async def postgres(conn: asyncpg.Connection) -> str:
    """The server in one line."""
    return f"PostgreSQL {await conn.fetchval('SHOW server_version')}, {await measure.durability(conn)}"


async def _readings(conn: asyncpg.Connection, counter: measure.StatementCounter) -> tuple[measure.Usages, int, int]:
    usages, wal = await measure.usages(conn), await measure.wal_position(conn)
    return usages, wal, counter.count


async def creations(conn: asyncpg.Connection, shape: Shape) -> Mapping[str, float]:
    """When each DAG's run was created, by the monotonic clock (the server runs on this machine)."""
    ahead = time.time() - time.monotonic()
    rows = await conn.fetch(
        f"SELECT dag_id, extract(epoch FROM created_at)::float8 AS at FROM dag_run WHERE {_MEASURED}", shape.dag_ids()
    )
    return {row["dag_id"]: row["at"] - ahead for row in rows}


async def stored_rows(conn: asyncpg.Connection, shape: Shape) -> list[Row]:
    """The task instances that were to run, as they ended."""
    rows = await conn.fetch(
        "SELECT r.dag_id, r.version_id, ti.task_index, coalesce(ti.state, 'none') AS state, ti.try_number "
        f"FROM task_instance ti JOIN dag_run r ON r.id = ti.run_id WHERE {_MEASURED}",
        shape.dag_ids(),
    )
    used = list({row["version_id"] for row in rows})
    versions = await conn.fetch("SELECT id, spec::text AS spec FROM dag_version WHERE id = ANY($1::bigint[])", used)
    names = {row["id"]: [task["task_id"] for task in json.loads(row["spec"])["tasks"]] for row in versions}
    return [Row(r["dag_id"], names[r["version_id"]][r["task_index"]], r["state"], r["try_number"]) for r in rows]


_MEASURED = "dag_id = ANY($1::text[]) AND run_type <> 'manual'"  # the runs of a history are manual ones
