"""One DAG that floods its scheduler, and the task lag of all others: without the flood, then with it, in one run.

The others run once a second, as in `sustained`. A run of the flooding DAG has very many tasks, all ready at once; its
own limit of active tasks lets few of them run at a time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from aiosched import DAG, Scheduler, task
from aiosched.scheduler.gc_tuning import rare_collections
from benchmarks import measure, record
from benchmarks.figures import Figure, Finding
from benchmarks.lag import percentile
from benchmarks.run import Finish, load_dags, postgres
from benchmarks.stage import stage, unlimited
from benchmarks.sustained import STEADY_FILE, TASKS, arrivals_in

RATE: Final = 200  # tasks/s of the others
MOST_TIMES: Final = 2.0  # what the flood may do to the p99 of the others
_LEAD: Final = 4.0
_TASKS_READ: Final = 4_000  # in a second, at least: of the flooding DAG, before anything is due
_AFTER: Final = 120.0  # seconds that the rest of the others may take


async def flood(size: int, seconds: float) -> Finding:
    """`seconds` without and as long with a run of `size` tasks that are all ready at once."""
    half, dags = int(seconds), RATE // TASKS
    async with stage() as at:
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(
            seconds=math.ceil(_LEAD + dags / 100 + size / _TASKS_READ)
        )
        text = STEADY_FILE.format(
            records=str(at.folders.records), start=start.isoformat(), dags=dags, seconds=2 * half, tasks=TASKS
        )
        (at.folders.dags / "steady.py").write_text(text)
        finish = Finish(dags * 2 * half)
        scheduler = Scheduler(
            dsn=at.dsn,
            dags=[*load_dags(at.folders.dags), _flooding(size)],
            executor="inline",
            settings=unlimited(at.folders),
            listener=finish,
        )
        flooded_at = start + timedelta(seconds=half)
        with rare_collections():  # as `aiosched serve` does
            async with scheduler, measure.watch_loop() as stall:
                await asyncio.sleep(max((flooded_at - datetime.now(UTC)).total_seconds(), 0.0))
                quiet_stall, stall.longest = stall.longest, 0.0
                await scheduler.trigger("flood")
                left = (flooded_at - datetime.now(UTC)).total_seconds() + half
                in_time = await finish.wait(scheduler, left + _AFTER)
        found = arrivals_in(record.read(at.folders.records))
        server = await postgres(at.conn)
    before = [arrival.lag for arrival in found if arrival.due < flooded_at.timestamp()]
    after = [arrival.lag for arrival in found if arrival.due >= flooded_at.timestamp()]
    problems = [] if in_time else ["the others were not over in time"]
    if len(before) + len(after) != 2 * half * RATE:
        problems.append(f"{len(before) + len(after)} bodies of the others ran, {2 * half * RATE} were due")
    ratio = percentile(after, 99) / percentile(before, 99)
    return Finding(
        "flood",
        f"{size:,} tasks at once beside {RATE} tasks/s of others, {half} s each, inline executor, {server}",
        measure.machine(),
        [
            *_lags("without", before, quiet_stall),
            *_lags("with", after, stall.longest),
            Figure("lag p99 of the others, with to without", ratio, "", most=MOST_TIMES),
        ],
        tuple(problems),
    )


def _lags(name: str, lags: Sequence[float], stall: float) -> list[Figure]:
    return [
        Figure(f"{name}: lag p50 of the others", percentile(lags, 50) * 1000, "ms"),
        Figure(f"{name}: lag p99 of the others", percentile(lags, 99) * 1000, "ms"),
        Figure(f"{name}: longest lag of the others", max(lags) * 1000, "ms"),
        Figure(f"{name}: longest stall of the loop", stall * 1000, "ms"),
    ]


def _flooding(size: int) -> DAG:
    @task
    async def body() -> None:
        await asyncio.sleep(0.05)

    with DAG("flood", schedule=None) as dag:
        for number in range(size):
            body.override(task_id=f"t{number}")()
    return dag
