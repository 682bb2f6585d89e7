"""One `aiosched serve` in real time for hours: whether anything grows that should not.

Ten tasks a run, twenty runs a second at the usual rate: plain bodies, a value that is pushed and read, a task that
fails once, one that prints. History and logs are kept for some minutes only, so that every size has a level at which
it stays. Each sample reads memory, descriptors, sizes and dead rows, and the lag of what began since the last one. In
the end each series gets its slope over the part after the warm-up, and a verdict.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Final

import asyncpg
import psutil

from benchmarks import measure, record
from benchmarks.figures import Figure, Finding
from benchmarks.lag import percentile
from benchmarks.processes import Folders
from benchmarks.run import postgres
from benchmarks.stage import Serve, TooSlow, stage, start_serve
from benchmarks.sustained import arrivals_in

RATE: Final = 200  # tasks/s
TASKS: Final = 10  # of a run
SAMPLES: Final = 120  # one a minute of two hours
MOST_GROWTH: Final = 5.0  # percent of its median that a series may grow from the end of the warm-up to the end
_WARM_UP: Final = 0.4  # of the whole time: caches fill, the retention begins to remove, autovacuum finds its rhythm
_KEPT: Final = 0.1  # of the whole time: how long history and logs are kept
_LEAD: Final = 20.0  # seconds from the start of `serve` to the first run
_DRAIN: Final = 120.0  # seconds that the rest may take after the last run is due
_LARGE: Final = ("dag_run", "task_instance", "task_try", "xcom")

_FILE: Final = '''\
"""DAGs that run once a second; generated for a benchmark."""

import os
import time
from datetime import datetime, timedelta

from aiosched import DAG, task

files = {{}}


def note(ti, start):
    pid = os.getpid()
    if pid not in files:
        files[pid] = os.open(os.path.join({records!r}, str(pid)), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    line = f"{{ti.dag_id}}@{{ti.run_id}} {{ti.task_id}} {{ti.try_number}} {{pid}} {{start!r}} {{time.monotonic()!r}}\\n"
    os.write(files[pid], line.encode())


@task
async def body(ti=None):
    note(ti, time.monotonic())


@task
async def talks(ti=None):
    print("a line of its log")
    note(ti, time.monotonic())


@task
async def produce(ti=None):
    note(ti, time.monotonic())
    return list(range(50))


@task
async def consume(values, ti=None):
    assert len(values) == 50
    note(ti, time.monotonic())


@task(retries=1, retry_delay=timedelta(seconds=1))
async def fails_once(ti=None):
    note(ti, time.monotonic())
    if ti.try_number == 1:
        raise RuntimeError("the first try fails")


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
        consume(produce())
        fails_once()
        talks()
        for place in range({tasks} - 4):
            body.override(task_id=f"t{{place}}")()
'''
_ATTEMPTS: Final = TASKS + 1  # of a run: one task needs two
_BEHIND: Final = {"consume"}  # tasks that wait for another one: their lag does not count from the run

Sample = Mapping[str, float]


async def endurance(rate: int, seconds: float, *, samples: int = SAMPLES, lead: float = _LEAD) -> Finding:
    """`rate` tasks a second for `seconds`, with so many `samples` at equal distances."""
    dags, seconds = max(1, rate // TASKS), int(seconds)
    days = seconds * _KEPT / 86_400
    kept = {"AIOSCHED__SCHEDULER__RETENTION_DAYS": str(days), "AIOSCHED__LOGS__RETENTION_DAYS": str(days)}
    async with stage() as at:
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=math.ceil(lead))
        text = _FILE.format(
            records=str(at.folders.records), start=start.isoformat(), dags=dags, seconds=seconds, tasks=TASKS
        )
        (at.folders.dags / "steady.py").write_text(text)
        serve = await start_serve(at.folders, dsn=at.dsn, executor="local", settings=kept)
        try:
            await serve.wait_ready()
            problems = [] if datetime.now(UTC) < start else ["the service was ready late: give more time with --lead"]
            series, attempts = await _watch(serve, at.folders, at.conn, start, seconds, samples, dags * _ATTEMPTS)
            unended = await at.conn.fetchval("SELECT count(*) FROM dag_run WHERE state <> 'success'")
        finally:
            await serve.stop()
        server = await postgres(at.conn)
    if attempts != dags * seconds * _ATTEMPTS:
        problems.append(f"{attempts:,} attempts began, {dags * seconds * _ATTEMPTS:,} were due")
    if unended:
        problems.append(f"{unended} runs are no success")
    return Finding(
        "endurance",
        f"{rate:,} tasks/s for {seconds:,} s, local executor, history kept for {seconds * _KEPT:,.0f} s, {server}",
        measure.machine(),
        list(_verdicts(series)),
        tuple(problems),
    )


async def _watch(
    serve: Serve, folders: Folders, conn: asyncpg.Connection, start: datetime, seconds: float, samples: int, due: int
) -> tuple[list[Sample], int]:
    """The samples, and how many attempts began. Raises TooSlow when `serve` ends, or the rest is not done in time."""
    series, attempts, reader = list[Sample](), 0, _Reader(folders.records)
    began, before = start.timestamp(), measure.processor_seconds(serve.pid)
    for number in range(1, samples + 1):
        await asyncio.sleep(began + seconds * number / samples - time.time())
        if serve.process.returncode is not None:
            said = serve.errors.read_text()[-2000:]
            raise TooSlow(f"`aiosched serve` has ended with {serve.process.returncode}: {said}")
        found = await asyncio.to_thread(reader.new)
        attempts += len(found)
        used = measure.processor_seconds(serve.pid)
        lags = [a.lag for a in arrivals_in([r for r in found if r.try_number == 1 and r.task_id not in _BEHIND])]
        lags = lags or [seconds / samples]  # nothing began: something is at least so late
        series.append(
            {
                "lag p50 (ms)": percentile(lags, 50) * 1000,
                "lag p99 (ms)": percentile(lags, 99) * 1000,
                "scheduler's processor time a task (us)": (used - before) / max(len(found), 1) * 1e6,
                **await asyncio.to_thread(_processes, serve.pid),
                **await _tables(conn),
                "logs on disk (MB)": await asyncio.to_thread(_size, folders.home / "logs"),
            }
        )
        before = used
    until = time.monotonic() + _DRAIN
    while attempts < due * seconds:
        if time.monotonic() > until:
            break  # the caller says how many are missing
        await asyncio.sleep(0.2)
        attempts += len(reader.new())
    while await conn.fetchval("SELECT count(*) FROM dag_run WHERE state NOT IN ('success', 'failed')"):
        if time.monotonic() > until:
            break
        await asyncio.sleep(0.2)
    return series, attempts


class _Reader:
    """Reads the records that bodies have added since the last time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def new(self) -> list[record.Record]:
        found = []
        for file in sorted(self._folder.iterdir()):
            with file.open("rb") as stream:
                stream.seek(self._read.get(file, 0))
                whole = stream.read().rpartition(b"\n")[0]
            if whole:
                self._read[file] = self._read.get(file, 0) + len(whole) + 1
                found += record.parse(whole.decode().splitlines())
        return found


def _processes(pid: int) -> Sample:
    """Of `serve`: memory of the scheduler and of all processes; descriptors, threads and processes."""
    processes = measure.descendants(pid)
    files = threads = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            files, threads = files + process.num_fds(), threads + process.num_threads()
    return {
        "memory of the scheduler (MB)": measure.proportional(processes[:1]) / 1e6,
        "memory of all processes (MB)": measure.proportional(processes) / 1e6,
        "descriptors": files,
        "threads": threads,
        "processes": len(processes),
    }


async def _tables(conn: asyncpg.Connection) -> Sample:
    """Sizes of the large tables and of their indexes, and their dead rows."""
    rows = await conn.fetch(
        "SELECT s.relname, pg_table_size(s.relid) AS rows, pg_indexes_size(s.relid) AS indexes, n_dead_tup AS dead"
        "  FROM pg_stat_user_tables AS s WHERE s.relname = ANY($1::text[])",
        list(_LARGE),
    )
    whole = await conn.fetchval("SELECT pg_database_size(current_database())")
    found: dict[str, float] = {"database (MB)": whole / 1e6}
    for row in rows:
        found[f"{row['relname']}: table (MB)"] = row["rows"] / 1e6
        found[f"{row['relname']}: indexes (MB)"] = row["indexes"] / 1e6
        found[f"{row['relname']}: dead rows (thousands)"] = row["dead"] / 1e3
    return found


def _size(folder: Path) -> float:
    """Megabytes of all files of a folder; files that vanish meanwhile do not count."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(at) / name).stat().st_blocks * 512
    return total / 1e6


def _verdicts(series: Sequence[Sample]) -> Iterator[Figure]:
    """For each series its level after the warm-up, and by how many percent of it the series grew from there on."""
    settled = series[int(len(series) * _WARM_UP) :]
    for what in settled[0]:
        values = [sample[what] for sample in settled]
        name, _, unit = what.partition(" (")
        yield Figure(name, median(values), unit.rstrip(")"))
        yield Figure(f"{name}: growth after the warm-up", growth(values), "%", most=MOST_GROWTH)


def growth(values: Sequence[float]) -> float:
    """By how many percent of their median the values grew from the first to the last, by the median of all slopes.

    The median of the slopes between all pairs (Theil and Sen) does not follow single high values, such as the size of a
    table just before a vacuum. 0 for a series that is mostly 0.
    """
    level = median(values)
    if level <= 0:
        return 0.0
    pairs = ((a, b) for b in range(len(values)) for a in range(b))
    slope = median([(values[b] - values[a]) / (b - a) for a, b in pairs] or [0.0])
    return slope * (len(values) - 1) / level * 100
