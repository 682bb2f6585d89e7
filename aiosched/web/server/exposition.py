"""The metrics for Prometheus: those of every scheduler of the fleet, and those of the database.

A scheduler stores its metrics with each heartbeat (every third of `scheduler.lease`), so any web server can answer for
the whole fleet; the label `scheduler` distinguishes them. Base units, prefix `aiosched_`. Source: docs/operations.md,
"Metrics".
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from aiosched.db.people.pools import Pool, list_pools
from aiosched.db.queries.quarantine_queries import count_quarantined
from aiosched.db.queries.schedulers import SchedulerRow, count_on_engines, list_schedulers
from aiosched.db.queries.status import ParsingSummary, parsing_summary
from aiosched.db.server.engine import Database
from aiosched.db.statements.parsers import ParserRow, list_parsers

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_HISTOGRAMS: Final = {
    "journal_commit": ("journal_commit_seconds", "time of a commit of the journal"),
    "journal_batch": ("journal_batch_size", "task instances in one commit"),
    "critical_section": ("critical_section_seconds", "time of one pass of the critical section"),
    "task_lag": ("task_lag_seconds", "from a task's last dependency to its start"),
    "schedule_delay": ("dagrun_schedule_delay_seconds", "from the instant a run may start to its start"),
    "loop_lag": ("loop_lag_seconds", "how late the event loop comes to a call"),
}


async def exposition(db: Database, more: Iterable[Metric] = ()) -> bytes:
    """The text of `/metrics`, and `more`; raises DatabaseError and its subclasses if the database cannot be read."""
    schedulers = await list_schedulers(db)
    pools = await list_pools(db)
    parsing = await parsing_summary(db)
    quarantined = await count_quarantined(db)
    on_engines = await count_on_engines(db)
    async with db.acquire() as conn:
        parsers = await list_parsers(conn)
    registry = CollectorRegistry(auto_describe=False)
    found = [
        *_of_schedulers(schedulers),
        *_of_pools(pools, schedulers),
        *_of_parsing(parsing),
        *_of_parsers(parsers),
        _of_quarantine(quarantined),
        _of_engines(on_engines),
        *more,
    ]
    registry.register(_Found(found))
    return generate_latest(registry)


class _Found(Collector):
    """Collects metrics that have been computed already."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _gauge(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"aiosched_{name}", words, labels=labels)


def _of_schedulers(rows: Sequence[SchedulerRow]) -> Iterator[Metric]:
    heartbeat = _gauge("scheduler_heartbeat_timestamp_seconds", "when its lease was renewed last", "scheduler")
    alive = _gauge("scheduler_alive", "1 while it holds its lease", "scheduler")
    partitions = _gauge("scheduler_partitions", "partitions that it owns", "scheduler")
    slots = _gauge("executor_open_slots", "attempts that its executors would take", "scheduler", "executor", "kind")
    blocked = _gauge("executor_blocked_workers", "workers whose event loop a task blocks", "scheduler", "executor")
    words = "times that a task blocked the event loop of a worker"
    times = CounterMetricFamily("aiosched_executor_blocked", words, labels=("scheduler", "executor"))
    workers = _gauge("engine_workers", "workers of an engine that answer", "scheduler", "executor")
    words = "jobs that wait in a queue of an engine"
    waiting = _gauge("engine_queue_length", words, "scheduler", "executor", "queue")
    tasks = _gauge("tasks", "task instances by state", "scheduler", "state")
    runs = _gauge("dagruns_running", "runs that it holds in memory", "scheduler")
    ended = CounterMetricFamily("aiosched_task_finished", "attempts by outcome", labels=("scheduler", "state"))
    counters: dict[str, CounterMetricFamily] = {}
    histograms: dict[str, HistogramMetricFamily] = {}
    now = time.time()
    for row in rows:
        heartbeat.add_metric([row.name], now - row.lease_age)
        alive.add_metric([row.name], int(row.alive))
        partitions.add_metric([row.name], row.partitions)
        figures = row.figures or {}
        runs.add_metric([row.name], figures.get("runs", 0))
        for state, count in figures.get("tasks", {}).items():
            tasks.add_metric([row.name, state], count)
        for state, count in figures.get("finished", {}).items():
            ended.add_metric([row.name, state], count)
        for executor, room in figures.get("executor", {}).items():
            slots.add_metric([row.name, executor, "plain"], room["open"])
            slots.add_metric([row.name, executor, "async"], room["open_async"])
            if "times_blocked" in room:
                blocked.add_metric([row.name, executor], len(room["blocked"]))
                times.add_metric([row.name, executor], room["times_blocked"])
            if (engine := room.get("engine")) is not None:
                workers.add_metric([row.name, executor], engine["workers"])
                for queue, length in engine["queues"].items():
                    waiting.add_metric([row.name, executor, queue], length)
        for name, count in figures.get("counters", {}).items():
            family = counters.get(name)
            if family is None:
                words = name.replace("_", " ")
                family = counters[name] = CounterMetricFamily(f"aiosched_{name}", words, labels=("scheduler",))
            family.add_metric([row.name], count)
        _add_histograms(histograms, row.name, figures.get("histograms", {}))
    yield from (heartbeat, alive, partitions, slots, blocked, times, workers, waiting, tasks, runs, ended)
    yield from counters.values()
    yield from histograms.values()


def _add_histograms(
    families: dict[str, HistogramMetricFamily], scheduler: str, found: Mapping[str, Mapping[str, Any]]
) -> None:
    for key, value in found.items():
        name, words = _HISTOGRAMS.get(key, (key, key.replace("_", " ")))
        family = families.get(key)
        if family is None:
            family = families[key] = HistogramMetricFamily(f"aiosched_{name}", words, labels=("scheduler",))
        total, buckets = 0, []
        for bound, count in zip((*value["bounds"], math.inf), value["buckets"], strict=True):
            total += count
            buckets.append(("+Inf" if bound == math.inf else f"{bound:g}", total))
        family.add_metric([scheduler], buckets, value["sum"])


def _of_pools(pools: Sequence[Pool], rows: Sequence[SchedulerRow]) -> Iterator[Metric]:
    slots = _gauge("pool_slots", "slots of a pool by kind; -1 is without limit", "pool", "kind")
    waiting = _gauge("tasks_waiting", "task instances that wait for a slot of the pool", "pool")
    starving = _gauge("tasks_starving", "the same while the pool has no open slot", "pool")
    for pool in pools:
        count = sum((row.figures or {}).get("waiting", {}).get(pool.name, 0) for row in rows if row.alive)
        unlimited = pool.slots < 0
        full = not unlimited and pool.used >= pool.slots
        slots.add_metric([pool.name, "total"], pool.slots)
        slots.add_metric([pool.name, "used"], pool.used)
        slots.add_metric([pool.name, "open"], -1 if unlimited else pool.slots - pool.used)
        waiting.add_metric([pool.name], count)
        starving.add_metric([pool.name], count if full else 0)
    yield from (slots, waiting, starving)


def _of_parsing(summary: ParsingSummary) -> Iterator[Metric]:
    for name, words, value in (
        ("import_errors", "DAG files that cannot be read", summary.errors),
        ("dag_files", "DAG files", summary.files),
        ("dags", "DAGs that are in a file", summary.dags),
        ("parse_seconds", "time of the last parse of all files together", summary.seconds),
    ):
        family = _gauge(name, words)
        family.add_metric([], value)
        yield family


def _of_parsers(rows: Sequence[ParserRow]) -> Iterator[Metric]:
    """Those that run alone. Of several of a name that read the same, the one that started last has taken the place."""
    labels = ("parser", "reads")
    heartbeat = _gauge("parser_heartbeat_timestamp_seconds", "when a parser that runs alone was heard of last", *labels)
    alive = _gauge("parser_alive", "1 while it is heard of", *labels)
    for (name, reads), row in {(row.name, row.reads): row for row in rows}.items():
        heartbeat.add_metric([name, reads], time.time() - row.silent_for)
        alive.add_metric([name, reads], int(row.alive))
    yield from (heartbeat, alive)


def _of_engines(counts: Mapping[tuple[str, str], int]) -> Metric:
    words = "attempts on an engine: waiting for a worker, running, or silent for longer than their worker's lease"
    family = _gauge("engine_attempts", words, "executor", "state")
    for (executor, state), number in counts.items():
        family.add_metric([executor, state], number)
    return family


def _of_quarantine(number: int) -> Metric:
    family = _gauge("dags_in_quarantine", "DAGs of the whole fleet of which nothing is decided for now")
    family.add_metric([], number)
    return family


def of_replica(*, behind: float | None, is_read: bool, answered: int, repeated: int) -> Iterator[Metric]:
    """Of the replica of this web server: how far it is behind, in seconds, and the requests that it was asked for."""
    lag = _gauge("replica_lag_seconds", "how far the replica of this web server is behind, at most")
    if behind is not None:
        lag.add_metric([], behind)
    used = _gauge("replica_read", "1 while pages are read from the replica of this web server")
    used.add_metric([], int(is_read))
    words = "requests that the replica was asked for: answered by it, or then by the primary"
    asked = CounterMetricFamily("aiosched_replica_requests", words, labels=("answered_by",))
    asked.add_metric(["replica"], answered)
    asked.add_metric(["primary"], repeated)
    yield from (lag, used, asked)
