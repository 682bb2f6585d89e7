"""A task that is mapped over a list of thousands: it expands, every instance runs inline, and one task reads them all.

The instances return a number each, so there are as many XComs; the last task maps nothing and pulls all of them.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

from aiosched import DAG, Scheduler, task
from aiosched.scheduler.gc_tuning import rare_collections
from benchmarks import measure
from benchmarks.figures import Figure, Finding
from benchmarks.run import postgres
from benchmarks.stage import NO_LIMIT, Stage, TooSlow, stage, unlimited

_DAG_ID = "mapped"


AT_ONCE: Final = 1_000  # of very many instances


async def mapped(size: int, timeout: float) -> Finding:
    """One run with `size` mapped instances, on a database of its own."""
    async with stage() as at:
        return await mapped_on(at, size, timeout)


async def very_many_mapped(size: int, timeout: float) -> Finding:
    """As `mapped`, with at most `AT_ONCE` instances at a time: all others wait for slots."""
    async with stage() as at:
        return await mapped_on(at, size, timeout, name="mapped-100000", at_once=AT_ONCE)


async def mapped_on(
    at: Stage, size: int, timeout: float, *, name: str = "mapped-10000", at_once: int | None = None
) -> Finding:
    """As `mapped`, on this stage, with so many instances at a time. Raises TooSlow after `timeout` seconds."""
    ran: Counter[int] = Counter()
    sums: list[int] = []
    settings, limit = unlimited(at.folders), "all" if at_once is None else f"{at_once:,}"
    settings.core.max_map_length = max(size, 1)
    if at_once is not None:
        settings.core.parallelism = at_once
    scheduler = Scheduler(dsn=at.dsn, dags=[mapped_dag(size, ran, sums)], executor="inline", settings=settings)
    with measure.count_statements() as counter, rare_collections():  # as `aiosched serve` does
        async with scheduler, measure.watch_loop() as stall:
            measure.reset_peak()
            before = measure.resident()
            used = await measure.usages(at.conn)
            wal, statements = await measure.wal_position(at.conn), counter.count
            began = time.monotonic()
            run = await scheduler.trigger(_DAG_ID, run_id="once")
            try:
                state = await run.wait(timeout)
            except TimeoutError:
                raise TooSlow(f"{len(ran):,} of {size:,} mapped instances had run after {timeout:g} s") from None
            took, most = time.monotonic() - began, measure.peak()
            statements = counter.count - statements - 1  # the reading of the WAL's position was ours
            written = await measure.wal_position(at.conn) - wal
            used = (await measure.usages(at.conn)).since(used)
    there = await at.conn.fetch(
        "SELECT map_index, state, try_number FROM task_instance_named WHERE task_id = 'body' ORDER BY map_index"
    )
    problems = [] if state == "success" else [f"the run ended as {state}"]
    if [tuple(row) for row in there] != [(index, "success", 1) for index in range(size)]:
        problems.append(f"the rows of the {size} mapped instances are not all success with their first try")
    if ran != Counter(range(size)):
        problems.append(f"{ran.total()} bodies ran for {len(ran)} of the {size} values, not one for each")
    if sums != [sum(range(size))]:
        problems.append(f"the last task read {sums} of them, expected the sum {sum(range(size))}")
    return Finding(
        name,
        f"{size:,} mapped instances, {limit} at once, inline executor, {await postgres(at.conn)}",
        measure.machine(),
        [
            Figure("from the request to the end of the run", took, "s", most=20.0 if at_once is None else None),
            Figure("memory of the process, at most", most / 1e6, "MB", most=500.0 if at_once is None else None),
            Figure("memory of an instance", (most - before) / size / 1024, "KiB"),
            Figure("processor time an instance", used.scheduler.cpu_seconds / size * 1e6, "us"),
            Figure("PostgreSQL's processor time an instance", used.postgres.cpu_seconds / size * 1e6, "us"),
            Figure("statements an instance", statements / size, ""),
            Figure("WAL an instance", written / size, "bytes"),
            Figure("longest stall of the loop", stall.longest * 1000, "ms"),
            Figure("longest slice of the loop, processor time", stall.busiest * 1000, "ms"),
        ],
        tuple(problems),
    )


def mapped_dag(size: int, ran: Counter[int], sums: list[int]) -> DAG:
    """The DAG: its bodies count in `ran` the values that they were called with, and put the sum of all into `sums`."""
    with DAG(_DAG_ID, schedule=None, max_active_tasks=NO_LIMIT) as dag:

        @task
        async def values() -> list[int]:
            return list(range(size))

        @task
        async def body(value: int) -> int:
            ran[value] += 1
            return value

        @task
        async def total(found: list[int]) -> None:
            sums.append(sum(found))

        total(body.expand(value=values()))
    return dag
