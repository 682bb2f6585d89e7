"""What several schedulers of one machine share: `serve --schedulers 1, 2, 4, 8` on one database, in alternation.

On a machine with few cores throughput cannot grow with them. What can be measured: processor time of the schedulers
and of PostgreSQL a task, transactions, WAL and its syncs, and what sessions wait for. If none of these grows with
the number of schedulers, they share nothing but the database; scaling_model.py says what more cores would give.

The same work for more schedulers leaves each of them fewer tasks for a commit, so a task costs more. Chains are also
measured with as many for each scheduler as one has alone: then a task that costs more shows what is shared.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import asyncpg

from benchmarks import measure, record
from benchmarks.figures import Figure, Finding
from benchmarks.fleet import finished
from benchmarks.run import creations, make_pool, postgres, stored_rows, unread, write_dags
from benchmarks.scaling_model import TaskCost, predicted
from benchmarks.shapes import Shape, linear
from benchmarks.stage import Stage, stage, start_serve
from benchmarks.verify import verify

NUMBERS: Final = (1, 2, 4, 8)
CHAINS: Final = Shape("linear-20x100", 20, 100, linear(100))
WORK: Final = {  # and whether there is as much for each scheduler
    "parallel": (Shape("parallel-1000x10", 1000, 10, ()), False),
    "chains": (CHAINS, False),
    "chains for each": (CHAINS, True),
}
_LOOK: Final = 0.02  # seconds between two looks at what sessions wait for
_WAITING: Final = """
    SELECT wait_event_type || ': ' || wait_event AS what, count(*) AS number FROM pg_stat_activity
     WHERE datname = current_database() AND state = 'active' AND wait_event_type IN ('Lock', 'LWLock', 'IO')
     GROUP BY 1
"""
_COUNTS: Final = """
    SELECT xact_commit AS transactions, deadlocks,
           (SELECT coalesce(sum(fsyncs), 0) FROM pg_stat_io WHERE object = 'wal')::bigint AS syncs
      FROM pg_stat_database WHERE datname = current_database()
"""


@dataclass(frozen=True)
class Measured:
    """One run of a shape, in seconds and counts of the whole run."""

    tasks: int
    makespan: float
    schedulers: float  # processor time
    postgres: float  # processor time
    transactions: int
    deadlocks: int
    wal: int
    syncs: int
    commit: float  # of a row on the idle server, seconds
    waited: Mapping[str, float]  # by what was waited for: seconds of all sessions together
    problems: tuple[str, ...] = ()

    @property
    def locked(self) -> float:
        """Seconds in which sessions waited for rows and other heavyweight locks."""
        return sum(seconds for what, seconds in self.waited.items() if what.startswith("Lock:"))


async def scaling(dags: int, timeout: float, *, rounds: int = 3, lead: float | None = None) -> Finding:
    """Each shape by each number of schedulers in turn, `rounds` times; at most `dags` of each shape."""
    runs: dict[tuple[str, int], list[Measured]] = {}
    for _ in range(rounds):
        for number in NUMBERS:
            for name, (shape, grows) in WORK.items():
                shape = shape.resized(min(dags, shape.dags) * (number if grows else 1))
                measured = await _one(shape, number, timeout, 20.0 + shape.dags / 40 if lead is None else lead)
                runs.setdefault((name, number), []).append(measured)
    figures = [figure for (name, number), some in runs.items() for figure in _figures(name, number, some)]
    async with stage() as at:
        about = f"`serve --schedulers {', '.join(map(str, NUMBERS))}`, inline, {await postgres(at.conn)}"
    problems = [problem for some in runs.values() for each in some for problem in each.problems]
    return Finding("scaling", about, measure.machine(), figures, tuple(problems))


async def _one(shape: Shape, schedulers: int, timeout: float, lead: float) -> Measured:
    async with stage() as at:
        await make_pool(at.conn, shape)
        settings = {"AIOSCHED__SCHEDULER__PROCESSES": str(schedulers)}
        serve = await start_serve(at.folders, dsn=at.dsn, settings=settings)
        try:
            await serve.wait_ready()
            start = write_dags(at, shape, kind="async", lead=lead)
            problems = await unread(at.conn, shape, start)
            commit = statistics.median(await measure.durable_commits(at.conn, times=50))
            await asyncio.sleep((start - datetime.now(UTC)).total_seconds() - 0.2)
            processes = measure.descendants(serve.pid)
            used, server = measure.usage_of(processes), (await measure.usages(at.conn)).postgres
            wal, counts = await measure.wal_position(at.conn), await _counts(at.conn)
            async with _watching(at) as waited:
                await finished(at, shape, timeout)
            used, server = (
                measure.usage_of(processes).since(used),
                (await measure.usages(at.conn)).postgres.since(server),
            )
            wal = await measure.wal_position(at.conn) - wal
            grown = {name: value - counts[name] for name, value in (await _counts(at.conn)).items()}
        finally:
            await serve.stop()
        records = record.read(at.folders.records)
        problems += verify(shape, records, await stored_rows(at.conn, shape))
        makespan = max(r.end for r in records) - min((await creations(at.conn, shape)).values())
    return Measured(
        shape.total, makespan, used.cpu_seconds, server.cpu_seconds, grown["transactions"], grown["deadlocks"], wal,
        grown["syncs"], commit, {what: number * _LOOK for what, number in waited.items()}, tuple(problems),
    )  # fmt: skip


async def _counts(conn: asyncpg.Connection) -> dict[str, int]:
    await conn.execute("SELECT pg_stat_clear_snapshot()")
    return dict(await conn.fetchrow(_COUNTS))


@asynccontextmanager
async def _watching(at: Stage) -> AsyncIterator[Counter[str]]:
    """Count what sessions wait for, at every look."""
    found, conn = Counter[str](), await asyncpg.connect(at.dsn)

    async def look() -> None:
        while True:
            found.update({row["what"]: row["number"] for row in await conn.fetch(_WAITING)})
            await asyncio.sleep(_LOOK)

    looking = asyncio.create_task(look())
    try:
        yield found
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        await conn.close()


def _figures(name: str, schedulers: int, runs: list[Measured]) -> list[Figure]:
    """Medians of one shape and number of schedulers, and what they predict.

    Where sessions wait for locks, it is for the row of a pool, which a commit holds until it is durable.
    """
    median = statistics.median
    locked = median([r.locked / r.tasks for r in runs])
    cost = TaskCost(
        scheduler=median([r.schedulers / r.tasks for r in runs]),
        postgres=median([r.postgres / r.tasks for r in runs]),
        serial=median([r.commit * r.transactions / r.tasks for r in runs]) if locked else 0.0,
        wal_bytes=median([r.wal / r.tasks for r in runs]),
    )
    head = f"{name}, {schedulers}:"
    found = [
        Figure(f"{head} throughput", median([r.tasks / r.makespan for r in runs]), "tasks/s"),
        Figure(f"{head} schedulers' processor time a task", cost.scheduler * 1e6, "us"),
        Figure(f"{head} PostgreSQL's processor time a task", cost.postgres * 1e6, "us"),
        Figure(f"{head} transactions a task", median([r.transactions / r.tasks for r in runs]), ""),
        Figure(f"{head} WAL a task", cost.wal_bytes, "bytes"),
        Figure(f"{head} WAL syncs a task", median([r.syncs / r.tasks for r in runs]), ""),
        Figure(f"{head} sessions waited for locks, a task", locked * 1e6, "us"),
        Figure(f"{head} a durable commit, p50", median([r.commit for r in runs]) * 1000, "ms"),
        Figure(f"{head} deadlocks", sum(r.deadlocks for r in runs), "", most=0),
    ]
    kinds = {what for r in runs for what in r.waited if not what.startswith("Lock:")}
    for what in sorted(kinds):
        seconds = median([r.waited.get(what, 0.0) / r.tasks for r in runs])
        if seconds * 1e6 >= 1:
            found.append(Figure(f"{head} sessions waited for {what}, a task", seconds * 1e6, "us"))
    for cores in (schedulers, 2 * schedulers):
        guess = predicted(cost, schedulers, cores)
        found.append(Figure(f"{head} model for {cores} cores, limited by {guess.limit}", guess.throughput, "tasks/s"))
    return found
