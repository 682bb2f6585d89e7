"""Throughput of one, two or three schedulers: processes of `aiosched serve` that share out the DAGs of one shape."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from aiosched.core.values.ids import partition_of
from benchmarks import measure, record
from benchmarks.figures import Figure, Finding
from benchmarks.lag import lags, summarise
from benchmarks.run import Executor, creations, make_pool, postgres, stored_rows, unfinished, unread, write_dags
from benchmarks.shapes import CallableKind, Shape
from benchmarks.stage import Serve, Stage, TooSlow, stage, start_serve
from benchmarks.verify import verify


async def fleet(
    shape: Shape,
    schedulers: int,
    timeout: float,
    *,
    executor: Executor = "inline",
    kind: CallableKind = "async",
    lead: float | None = None,
) -> Finding:
    """Run `shape` once by so many schedulers; all of its DAGs are due at one instant."""
    async with stage() as at:
        await make_pool(at.conn, shape)
        serving: list[Serve] = []
        try:
            for number in range(schedulers):
                serve = await start_serve(at.folders, dsn=at.dsn, name=f"s{number}", executor=executor)
                serving.append(serve)
            await asyncio.gather(*(serve.wait_ready() for serve in serving))
            start = write_dags(at, shape, kind=kind, lead=20.0 + shape.dags / 40 if lead is None else lead)
            problems = await unread(at.conn, shape, start)
            owners = await _owners(at, shape)
            pids = [serve.pid for serve in serving]
            before, wal = _processor_time(pids), await measure.wal_position(at.conn)
            await asyncio.sleep((start - datetime.now(UTC)).total_seconds())
            await finished(at, shape, timeout)
            used, written = _processor_time(pids) - before, await measure.wal_position(at.conn) - wal
        finally:
            await asyncio.gather(*(serve.stop() for serve in serving))
        records = record.read(at.folders.records)
        created = await creations(at.conn, shape)
        problems += verify(shape, records, await stored_rows(at.conn, shape))
        if sum(owners.values()) != shape.dags:
            problems.append(f"{shape.dags - sum(owners.values())} DAGs had no owner at the start")
        server = await postgres(at.conn)
    makespan = max(r.end for r in records) - min(created.values())
    lag = summarise(lags(shape, records, created))
    return Finding(
        f"schedulers-{schedulers}",
        f"{shape.dags:,} DAGs of {shape.tasks} tasks, {executor} executor, {kind} callables, {server}",
        measure.machine(),
        [
            Figure("throughput", shape.total / makespan, "tasks/s"),
            Figure("throughput", shape.total / makespan * 60, "tasks a minute"),
            Figure("task lag p50", lag.p50 * 1000, "ms"),
            Figure("task lag p99", lag.p99 * 1000, "ms"),
            Figure("schedulers' processor time a task", used / shape.total * 1e6, "us"),
            Figure("WAL a task", written / shape.total, "bytes"),
            Figure("DAGs of the busiest scheduler", max(owners.values(), default=0) / shape.dags * 100, "%"),
        ],
        tuple(problems),
    )


async def _owners(at: Stage, shape: Shape) -> Counter[int]:
    """How many of the shape's DAGs each scheduler owns."""
    rows = await at.conn.fetch("SELECT partition, incarnation FROM partition_lease WHERE incarnation IS NOT NULL")
    leases = {row["partition"]: row["incarnation"] for row in rows}
    return Counter(leases[p] for dag_id in shape.dag_ids() if (p := partition_of(dag_id)) in leases)


def _processor_time(pids: Sequence[int]) -> float:
    """Seconds of these processes, without what they started."""
    return sum(measure.processor_seconds(pid) for pid in pids)


async def finished(at: Stage, shape: Shape, timeout: float) -> None:
    """Wait until no run is unfinished; asks seldom, so that the asking costs nothing."""
    until = time.monotonic() + timeout
    over = "SELECT count(*) FROM dag_run WHERE state IN ('success', 'failed')"
    while await at.conn.fetchval(over) < shape.dags:
        if time.monotonic() > until:
            raise TooSlow(f"{await unfinished(at.conn, shape)} after {timeout:.0f} s")
        await asyncio.sleep(0.5)
