"""Arrivals that do not wait for the service: so many tasks a second for minutes, autovacuum on.

A task is due at an instant that its schedule fixes in advance, and its lag counts from that instant, whether or not the
service was late with others: nothing is left out because it could not be asked for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from aiosched import Scheduler
from aiosched.scheduler.gc_tuning import rare_collections
from benchmarks import measure, record
from benchmarks.figures import Figure, Finding
from benchmarks.lag import percentile
from benchmarks.run import Finish, load_dags, postgres
from benchmarks.stage import TooSlow, stage, unlimited

RATES: Final = (500, 1000, 2000)
TASKS: Final = 10  # of each DAG, side by side, once a second
_LEAD: Final = 6.0
_DRAIN: Final = 120.0  # seconds that the rest may take after the last arrival

STEADY_FILE: Final = '''\
"""DAGs that run once a second; generated for a benchmark."""

import os
import math
import time
from datetime import datetime, timedelta

from aiosched import DAG, task

files = {{}}


@task
async def body(ti=None):
    start = time.monotonic()
    pid = os.getpid()
    if pid not in files:
        files[pid] = os.open(os.path.join({records!r}, str(pid)), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    line = f"{{ti.dag_id}}@{{ti.run_id}} {{ti.task_id}} {{ti.try_number}} {{pid}} {{start!r}} {{time.monotonic()!r}}\\n"
    os.write(files[pid], line.encode())


START = datetime.fromisoformat({start!r})
for number in range({dags}):
    first = START + timedelta(seconds=number / {dags})
    with DAG(
        f"steady_{{number:03d}}",
        schedule=timedelta(seconds=1),
        start_date=first,
        end_date=first + timedelta(seconds={seconds} - 1),
        catchup=True,
        max_active_runs=1_000_000,
        max_active_tasks=1_000_000,
    ):
        for place in range({tasks}):
            body.override(task_id=f"t{{place}}")()
'''


class Arrival(NamedTuple):
    """One task: when it was due and how long after that its body began, in seconds."""

    due: float
    lag: float


async def sustained(size: int, seconds: float, *, lead: float = _LEAD) -> Finding:
    """`size` tasks a second for `seconds`; 0: each of RATES, one after the other."""
    rates = [size] if size else RATES
    found = [await at_rate(rate, int(seconds), lead) for rate in rates]
    figures = [figure for finding in found for figure in finding.figures]
    problems = [problem for finding in found for problem in finding.problems]
    about = f"{', '.join(f'{rate:,}' for rate in rates)} tasks/s, {found[-1].about}"
    return Finding("sustained", about, found[-1].machine, figures, problems)


Beside = Callable[[str], AbstractAsyncContextManager[object]]  # what goes on meanwhile, on the database of this DSN


async def at_rate(rate: int, seconds: int, lead: float = _LEAD, *, beside: Beside | None = None) -> Finding:
    """`rate` tasks a second for `seconds`, with `beside` around it."""
    dags = max(1, rate // TASKS)
    expected = dags * TASKS * seconds
    async with stage() as at:
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=math.ceil(lead + dags / 100))
        text = STEADY_FILE.format(
            records=str(at.folders.records), start=start.isoformat(), dags=dags, seconds=seconds, tasks=TASKS
        )
        (at.folders.dags / "steady.py").write_text(text)
        finish = Finish(dags * seconds)
        scheduler = Scheduler(
            dsn=at.dsn,
            dags=load_dags(at.folders.dags),
            executor="inline",
            settings=unlimited(at.folders),
            listener=finish,
        )
        with measure.count_statements() as counter, rare_collections():  # as `aiosched serve` does
            async with scheduler, beside(at.dsn) if beside else nullcontext(), measure.watch_loop() as stall:
                before = await measure.usages(at.conn)
                wal, statements = await measure.wal_position(at.conn), counter.count
                until_over = (start - datetime.now(UTC)).total_seconds() + seconds + 1
                if not await finish.wait(scheduler, until_over + _DRAIN):
                    raise TooSlow(f"{rate} tasks/s: not over {_DRAIN:g} s after the last arrival")
                over = time.time()
                statements = counter.count - statements
                used = (await measure.usages(at.conn)).since(before)
                written = await measure.wal_position(at.conn) - wal
        await measure.wait_alone(at.conn)
        use = await measure.table_use(at.conn)
        vacuums = await at.conn.fetchval(
            "SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = 'task_instance'"
        )
        states = await at.conn.fetch("SELECT state, count(*) FROM task_instance GROUP BY 1")
        arrivals = arrivals_in(record.read(at.folders.records))
        server = await postgres(at.conn)
    problems = [] if [tuple(row) for row in states] == [("success", expected)] else [f"{states}, expected {expected}"]
    if len(arrivals) != expected:
        problems.append(f"{len(arrivals)} bodies ran, {expected} were due")
    name = f"{rate:,}/s"
    lags = [arrival.lag for arrival in arrivals]
    thirds = [percentile(part, 50) for part in _thirds(arrivals)]
    return Finding(
        "sustained",
        f"{seconds} s each, inline executor, {server}",
        measure.machine(),
        [
            Figure(f"{name}: lag p50", percentile(lags, 50) * 1000, "ms"),
            Figure(f"{name}: lag p99", percentile(lags, 99) * 1000, "ms"),
            Figure(f"{name}: longest lag", max(lags) * 1000, "ms"),
            Figure(f"{name}: lag p50, last third to first", thirds[2] / thirds[0], ""),
            Figure(f"{name}: the rest after the last arrival", over - max(a.due for a in arrivals), "s"),
            Figure(f"{name}: statements a task", statements / expected, "", most=0.1 if rate >= 2000 else None),
            Figure(f"{name}: WAL a task", written / expected, "bytes", most=700 if rate >= 2000 else None),
            Figure(f"{name}: heap-only updates", use.hot_updates / max(use.updates, 1) * 100, "%"),
            Figure(f"{name}: dead rows at the end, of those alive", use.dead / max(use.live, 1) * 100, "%"),
            Figure(f"{name}: vacuums of task_instance", vacuums, ""),
            Figure(f"{name}: scheduler's processor time a task", used.scheduler.cpu_seconds / expected * 1e6, "us"),
            Figure(f"{name}: PostgreSQL's processor time a task", used.postgres.cpu_seconds / expected * 1e6, "us"),
            Figure(f"{name}: longest stall of the loop", stall.longest * 1000, "ms"),
        ],
        tuple(problems),
    )


def arrivals_in(records: Sequence[record.Record]) -> list[Arrival]:
    """In the order in which they were due. A run is due at the end of its interval of one second."""
    ahead = time.time() - time.monotonic()
    due = {
        name: datetime.fromisoformat(name.partition("__")[2]).timestamp() + 1
        for name in {found.dag_id.partition("@")[2] for found in records}
    }
    found = [(due[r.dag_id.partition("@")[2]], r.start + ahead) for r in records]
    return sorted(Arrival(at, began - at) for at, began in found)


def _thirds(arrivals: Sequence[Arrival]) -> list[list[float]]:
    """The lags of the first, the second and the last third of the arrivals."""
    size = max(1, len(arrivals) // 3)
    return [[arrival.lag for arrival in arrivals[first : first + size]] for first in (0, size, len(arrivals) - size)]
