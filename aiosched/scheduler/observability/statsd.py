"""Figures for StatsD, under Airflow's names, so that dashboards made for Airflow keep working.

Lives here: the names, and sending by UDP, which never waits for the receiver. metrics_snapshot.py collects the
figures. Counters are sent as the increase since the last time, timers as the median and the 99th percentile.
Pool figures cover the whole fleet, all others this scheduler only. Names that Airflow does not have:
`pool.used_slots`, `task.lag`, `scheduler.commit_duration`, `scheduler.loop_lag`, `scheduler.dags_in_quarantine`,
`scheduler.quarantines`, `scheduler.restarted_loops`. Source: docs/operations.md, "StatsD".
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from aiosched.config import MetricsSettings
from aiosched.db.people.pools import Pool, list_pools
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_retryable
from aiosched.db.statements.ownership import fleet_figures

Figures = Mapping[str, Any]

logger: logging.Logger = logging.getLogger(__name__)

_LARGEST: Final = 1_400  # bytes of a datagram: fits into one packet everywhere
_COUNTERS: Final = {
    "lost_attempts": "scheduler.orphaned_tasks.cleared",
    "quarantines": "scheduler.quarantines",
    "restarted_loops": "scheduler.restarted_loops",
}
_OUTCOMES: Final = {"success": "ti_successes", "failed": "ti_failures"}
_TIMERS: Final = {
    "critical_section": "scheduler.critical_section_duration",
    "schedule_delay": "dagrun.schedule_delay",
    "task_lag": "task.lag",
    "journal_commit": "scheduler.commit_duration",
    "loop_lag": "scheduler.loop_lag",
}
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]")


def lines(
    now: Figures, before: Figures, pools: Sequence[Pool], fleet: Sequence[Figures], *, prefix: str = "aiosched"
) -> Iterator[str]:
    """The lines to send, from the figures now and last time (empty at first), the pools, and the fleet's figures."""
    for name, value in (*_of_scheduler(now, before), *_of_pools(pools, fleet)):
        yield f"{prefix}.{name}:{value}" if prefix else f"{name}:{value}"


def _of_pools(pools: Sequence[Pool], fleet: Sequence[Figures]) -> Iterator[tuple[str, str]]:
    starving = 0
    for pool in pools:
        name, full = _UNFIT.sub("_", pool.name), pool.open is not None and pool.open <= 0
        waiting = sum(figures.get("waiting", {}).get(pool.name, 0) for figures in fleet)
        held = [figures.get("pools", {}).get(pool.name, {}) for figures in fleet]
        starving += waiting if full else 0
        yield f"pool.open_slots.{name}", _gauge(-1 if pool.open is None else pool.open)
        yield f"pool.used_slots.{name}", _gauge(pool.used)
        yield f"pool.queued_slots.{name}", _gauge(sum(one.get("queued", 0) for one in held))
        yield f"pool.running_slots.{name}", _gauge(sum(one.get("running", 0) for one in held))
        yield f"pool.starving_tasks.{name}", _gauge(waiting if full else 0)
    yield "scheduler.tasks.starving", _gauge(starving)


def _of_scheduler(now: Figures, before: Figures) -> Iterator[tuple[str, str]]:
    yield "scheduler_heartbeat", "1|c"
    tasks = now.get("tasks", {})
    yield "executor.open_slots", _gauge(sum(room["open"] for room in now.get("executor", {}).values()))
    blocked = [room for room in now.get("executor", {}).values() if "times_blocked" in room]
    yield "executor.blocked_workers", _gauge(sum(len(room["blocked"]) for room in blocked))
    times = sum(room["times_blocked"] for room in blocked)
    if (more := times - sum(room.get("times_blocked", 0) for room in before.get("executor", {}).values())) > 0:
        yield "executor.blocked", f"{more}|c"
    yield "executor.queued_tasks", _gauge(tasks.get("queued", 0))
    yield "executor.running_tasks", _gauge(tasks.get("running", 0))
    yield "triggers.running", _gauge(tasks.get("deferred", 0))
    yield "dagrun.running", _gauge(now.get("runs", 0))
    yield "scheduler.dags_in_quarantine", _gauge(now.get("dags_in_quarantine", 0))
    yield "scheduler.tasks.executable", _gauge(tasks.get("scheduled", 0))
    if (parsing := now.get("parsing")) is not None:
        yield "dagbag_size", _gauge(parsing["dags"])
        yield "dag_processing.import_errors", _gauge(parsing["errors"])
        yield "dag_processing.total_parse_time", _gauge(round(parsing["seconds"], 3))
    for sources, key in ((_COUNTERS, "counters"), (_OUTCOMES, "finished")):
        for source, name in sources.items():
            more = now.get(key, {}).get(source, 0) - before.get(key, {}).get(source, 0)
            if more > 0:
                yield name, f"{more}|c"
    for source, name in _TIMERS.items():
        yield from ((name, f"{value * 1000:.3f}|ms") for value in _values(now, before, source))


def _gauge(value: float) -> str:
    return f"{value}|g"


def _values(now: Figures, before: Figures, name: str) -> Iterator[float]:
    """The median and the 99th percentile (upper bounds of their buckets) of the values since the last time."""
    new = now.get("histograms", {}).get(name)
    if new is None:
        return
    old = before.get("histograms", {}).get(name, {"buckets": [0] * len(new["buckets"])})
    counts = [a - b for a, b in zip(new["buckets"], old["buckets"], strict=True)]
    bounds = (*new["bounds"], new["bounds"][-1])
    total = sum(counts)
    for share in (0.5, 0.99) if total > 0 else ():
        below = 0
        for bound, count in zip(bounds, counts, strict=True):
            below += count
            if below >= share * total:
                yield bound
                break


def datagrams(sent: Iterator[str]) -> Iterator[bytes]:
    """The lines packed into datagrams, each small enough for one packet."""
    packed = b""
    for line in sent:
        each = line.encode()
        if packed and len(packed) + 1 + len(each) > _LARGEST:
            yield packed
            packed = b""
        packed = packed + b"\n" + each if packed else each
    if packed:
        yield packed


class _Errors(asyncio.DatagramProtocol):
    """Logs once that StatsD cannot be reached, or that the figures cannot be collected."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._reported = False

    def error_received(self, exc: Exception) -> None:
        self.report(exc)

    def report(self, error: Exception) -> None:
        if not self._reported:
            self._reported = True
            if isinstance(error, OSError) or is_retryable(error):
                logger.warning("StatsD at %s cannot be reached: %s", self._where, error)
            else:
                logger.error("the figures for StatsD at %s cannot be collected", self._where, exc_info=error)


async def emit(settings: MetricsSettings, figures: Callable[[], Figures], db: Callable[[], Database]) -> None:
    """Send the figures every `statsd_interval` seconds, until cancelled. Metrics never end a scheduler."""
    assert settings.statsd_host is not None
    errors = _Errors(f"{settings.statsd_host}:{settings.statsd_port}")
    address = (settings.statsd_host, settings.statsd_port)
    before: Figures = {}
    transport: asyncio.DatagramTransport | None = None
    try:
        while True:
            try:
                if transport is None or transport.is_closing():
                    loop = asyncio.get_running_loop()
                    transport, _ = await loop.create_datagram_endpoint(lambda: errors, remote_addr=address)
                now = figures()
                fleet = await fleet_figures(db())
                sent = lines(now, before, await list_pools(db()), fleet, prefix=settings.statsd_prefix)
                for datagram in datagrams(sent):
                    transport.sendto(datagram)
                before = now
            except Exception as error:
                errors.report(error)
            await asyncio.sleep(settings.statsd_interval)
    finally:
        if transport is not None:
            transport.close()
