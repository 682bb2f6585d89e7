"""The instruments: statements, WAL, durable commits, processor time, memory.

Linux only: peak memory is read from /proc. Nothing here samples while the shape runs, so that measuring
does not change what is measured; every figure is a difference of two readings or a kernel's high-water mark.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import asyncpg
import psutil
from asyncpg.protocol import Protocol

# Each of these protocol messages makes the server execute something. Parsing alone is not counted.
_EXECUTING = ("query", "bind_execute", "bind_execute_many", "execute", "copy_in", "copy_out")


@dataclass
class StatementCounter:
    """How many statements this thread had executed, whichever library asked. Others have databases of their own."""

    count: int = 0


@contextmanager
def count_statements() -> Iterator[StatementCounter]:
    """Count in the driver, because the embedded server has no pg_stat_statements. Not reentrant."""
    counter = StatementCounter()
    originals = {name: getattr(Protocol, name) for name in _EXECUTING}
    for name, original in originals.items():
        setattr(Protocol, name, _counting(original, counter, batched=name == "bind_execute_many"))
    try:
        yield counter
    finally:
        for name, original in originals.items():
            setattr(Protocol, name, original)


def _counting(original: Callable[..., Any], counter: StatementCounter, *, batched: bool) -> Callable[..., Any]:
    thread = threading.get_ident()

    @wraps(original)
    def call(self: Protocol, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return original(self, *args, **kwargs)
        batch = (kwargs.get("args") or (args[1] if len(args) > 1 else ())) if batched else ()
        counter.count += len(batch) if batched and hasattr(batch, "__len__") else 1
        return original(self, *args, **kwargs)

    return call


async def wal_position(conn: asyncpg.Connection) -> int:
    """Bytes of write-ahead log written since the cluster was made."""
    return int(await conn.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"))


async def durable_commits(conn: asyncpg.Connection, *, times: int = 200) -> list[float]:
    """How many seconds each of `times` inserts of one row took until it was safe on disk."""
    await conn.execute("CREATE TABLE IF NOT EXISTS benchmark_commit (id int)")
    insert = await conn.prepare("INSERT INTO benchmark_commit VALUES ($1)")
    took = []
    for number in range(times):
        before = time.perf_counter()
        await insert.fetch(number)
        took.append(time.perf_counter() - before)
    await conn.execute("DROP TABLE benchmark_commit")
    return took


@dataclass(frozen=True)
class TableUse:
    """What happened to the tables since they were made."""

    updates: int  # of task instances
    hot_updates: int  # those of them that touched no index
    scans: dict[str, int]  # sequential scans, by table
    dead: int  # rows of task instances that wait for vacuum
    live: int

    def hot_share_since(self, before: TableUse) -> float:
        """The share of heap-only updates; 1 without any update."""
        updates = self.updates - before.updates
        return (self.hot_updates - before.hot_updates) / updates if updates else 1.0


_LARGE = ("task_instance", "dag_run", "task_try", "xcom")


async def table_use(conn: asyncpg.Connection) -> TableUse:
    """Read it when no other session is connected: a session publishes its counts when it ends, at the latest."""
    await conn.execute("SELECT pg_stat_force_next_flush()")  # and ours at the end of this very statement
    rows = await conn.fetch(
        "SELECT relname, n_tup_upd, n_tup_hot_upd, seq_scan, n_dead_tup, n_live_tup FROM pg_stat_user_tables "
        "WHERE relname = ANY($1::text[])",
        list(_LARGE),
    )
    found = {row["relname"]: row for row in rows}
    instances = found["task_instance"]
    scans = {name: found[name]["seq_scan"] for name in _LARGE}
    return TableUse(
        instances["n_tup_upd"], instances["n_tup_hot_upd"], scans, instances["n_dead_tup"], instances["n_live_tup"]
    )


async def wait_alone(conn: asyncpg.Connection, timeout: float = 10.0) -> None:
    """Wait until no other client is connected to this database. Raises TimeoutError."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    async with asyncio.timeout(timeout):
        while await conn.fetchval(f"{others} AND backend_type = 'client backend'"):  # noqa: ASYNC110  # PostgreSQL's
            await asyncio.sleep(0.02)


async def durability(conn: asyncpg.Connection) -> str:
    """The settings that make a commit durable, as the server has them."""
    names = ("fsync", "synchronous_commit", "full_page_writes")
    return " ".join([f"{name}={await conn.fetchval(f'SHOW {name}')}" for name in names])


@dataclass(frozen=True)
class Usage:
    """Of one group of processes: seconds of processor time, and the sum of their peak resident sets in bytes."""

    cpu_seconds: float
    peak_bytes: int

    def since(self, before: Usage) -> Usage:
        return Usage(self.cpu_seconds - before.cpu_seconds, self.peak_bytes)


@dataclass(frozen=True)
class Usages:
    """The three groups: this process, what it started (workers and parsers), the server."""

    scheduler: Usage
    workers: Usage
    postgres: Usage

    def since(self, before: Usages) -> Usages:
        return Usages(
            self.scheduler.since(before.scheduler),
            self.workers.since(before.workers),
            self.postgres.since(before.postgres),
        )


async def usages(conn: asyncpg.Connection) -> Usages:
    """What the three groups of processes have used up to now. `conn` must lead to a server on this machine."""
    backend = psutil.Process(await conn.fetchval("SELECT pg_backend_pid()"))
    postmaster = backend.parent()
    if postmaster is None:
        raise RuntimeError(f"PostgreSQL's backend {backend.pid} has no parent: does the server run on this machine?")
    servers = [postmaster, *postmaster.children(recursive=True)]
    this = psutil.Process()
    known = {process.pid for process in servers}
    workers = [process for process in this.children(recursive=True) if process.pid not in known]
    return Usages(usage_of([this], reaped=False), usage_of(workers), usage_of(servers))


def usage_of(processes: list[psutil.Process], *, reaped: bool = True) -> Usage:
    """The sum over `processes`; with `reaped` also what children that have ended had used."""
    seconds, peak = 0.0, 0
    for process in processes:
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            times = process.cpu_times()
            seconds += times.user + times.system
            if reaped:
                seconds += times.children_user + times.children_system
            peak += _peak_resident(process.pid)
    return Usage(seconds, peak)


def _peak_resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0  # a process that is ending has given its memory back already


def reset_peak() -> None:
    """Let this process's high-water mark of memory begin again."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """This process's high-water mark, in bytes."""
    return _peak_resident(os.getpid())


def resident() -> int:
    """What this process has in memory now, in bytes."""
    return int(psutil.Process().memory_info().rss)


def processor_seconds(pid: int) -> float:
    """User and system time of one process up to now; 0 for one that has gone."""
    with suppress(psutil.NoSuchProcess):
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)
    return 0.0


def descendants(pid: int, *, without: Collection[str] = ("postgres",)) -> list[psutil.Process]:
    """A process and all that it started, apart from programs of the names `without` and what those started."""
    found = []
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.name() not in without:
            found.append(process)
            for child in process.children():
                found += descendants(child.pid, without=without)
    return found


def proportional(processes: Collection[psutil.Process]) -> int:
    """The memory of some processes in bytes, in which a page that several share counts once in all."""
    total = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError, PermissionError):
            for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


@dataclass
class Stall:
    """The longest time for which the event loop did not turn, in seconds.

    On a busy machine that is also the time for which others had the processor: `busiest` is what this thread computed.
    """

    longest: float = 0.0
    busiest: float = 0.0

    def forget(self) -> None:
        """Begin again."""
        self.longest = self.busiest = 0.0


@asynccontextmanager
async def watch_loop(every: float = 0.01) -> AsyncIterator[Stall]:
    """Measure by a coroutine that wakes `every` so many seconds how late it comes."""
    stall = Stall()

    async def tick() -> None:
        loop = asyncio.get_running_loop()
        while True:
            before, own = loop.time(), time.thread_time()
            await asyncio.sleep(every)
            stall.longest = max(stall.longest, loop.time() - before - every)
            stall.busiest = max(stall.busiest, time.thread_time() - own)

    task = asyncio.create_task(tick(), name="watch the loop")
    try:
        yield stall
    finally:
        task.cancel()


def machine() -> str:
    """The machine in one line."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown processor",
    )
    usable = len(os.sched_getaffinity(0))
    memory = psutil.virtual_memory().total / 2**30
    return f"{usable} cores of {model}, {memory:.0f} GiB, Linux {os.uname().release}"
