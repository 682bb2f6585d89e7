"""The instruments: statements, WAL, durable commits, processor time, memory.

Linux only: peak memory is read from /proc. Nothing here samples while the shape runs, so that measuring
does not change what is measured; every figure is a difference of two readings or a kernel's high-water mark.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
    """How many statements this process had executed, whichever library asked."""

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
    @wraps(original)
    def call(self: Protocol, *args: Any, **kwargs: Any) -> Any:
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
    return Usages(_usage([this], reaped=False), _usage(workers), _usage(servers))


def _usage(processes: list[psutil.Process], *, reaped: bool = True) -> Usage:
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
