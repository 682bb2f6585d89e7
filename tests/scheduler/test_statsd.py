"""Figures for StatsD: Airflow's names, only what is new, by UDP that never stops anybody."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from aiosched import DAG, task
from aiosched.config import MetricsSettings, Settings
from aiosched.db.people.pools import Pool
from aiosched.db.server.engine import Database
from aiosched.scheduler import Scheduler
from aiosched.scheduler.observability import statsd
from aiosched.scheduler.observability.statsd import datagrams, emit, lines
from tests.patience import PATIENCE

POOLS = [Pool("default_pool", 8, 3, False, None), Pool("etl jobs", 2, 2, False, None), Pool("any", -1, 0, False, None)]


def figures(commits: int = 0) -> dict[str, Any]:
    return {
        "tasks": {"queued": 1, "running": 2, "scheduled": 7, "deferred": 4},
        "executor": {"local": {"open": 5, "blocked": [{}, {}], "times_blocked": commits}, "other": {"open": 1}},
        "runs": 9,
        "dags_in_quarantine": 3,
        "waiting": {"etl jobs": 6, "default_pool": 1},
        "pools": {"etl jobs": {"queued": 1, "running": 1}},
        "parsing": {"dags": 3, "errors": 1, "seconds": 0.25},
        "finished": {"success": commits, "failed": 0},
        "counters": {"lost_attempts": 2, "quarantines": 4, "restarted_loops": 1},
        "histograms": {"critical_section": {"bounds": [0.1, 0.2], "buckets": [commits, 0, 0]}},
    }


def sent(now: dict[str, Any], before: dict[str, Any], **options: Any) -> set[str]:
    return set(lines(now, before, POOLS, [figures(), figures()], **options))


def test_figures_have_airflows_names() -> None:
    assert sent(figures(5), {}, prefix="") == {
        "scheduler_heartbeat:1|c",
        "executor.open_slots:6|g",
        "executor.blocked_workers:2|g",
        "executor.blocked:5|c",
        "executor.queued_tasks:1|g",
        "executor.running_tasks:2|g",
        "triggers.running:4|g",
        "dagrun.running:9|g",
        "scheduler.dags_in_quarantine:3|g",
        "scheduler.quarantines:4|c",
        "scheduler.restarted_loops:1|c",
        "scheduler.tasks.executable:7|g",
        "scheduler.tasks.starving:12|g",
        "pool.open_slots.default_pool:5|g",
        "pool.used_slots.default_pool:3|g",
        "pool.queued_slots.default_pool:0|g",
        "pool.running_slots.default_pool:0|g",
        "pool.starving_tasks.default_pool:0|g",
        "pool.open_slots.etl_jobs:0|g",
        "pool.used_slots.etl_jobs:2|g",
        "pool.queued_slots.etl_jobs:2|g",
        "pool.running_slots.etl_jobs:2|g",
        "pool.starving_tasks.etl_jobs:12|g",
        "pool.open_slots.any:-1|g",
        "pool.used_slots.any:0|g",
        "pool.queued_slots.any:0|g",
        "pool.running_slots.any:0|g",
        "pool.starving_tasks.any:0|g",
        "dagbag_size:3|g",
        "dag_processing.import_errors:1|g",
        "dag_processing.total_parse_time:0.25|g",
        "scheduler.orphaned_tasks.cleared:2|c",
        "ti_successes:5|c",
        "scheduler.critical_section_duration:100.000|ms",
    }


def test_counters_and_timers_are_what_is_new() -> None:
    again = sent(figures(5), figures(5))
    more = sent(figures(8), figures(5))

    assert not any(word in line for line in again for word in ("ti_successes", "critical", "orphaned", "blocked:"))
    assert "aiosched.executor.blocked:3|c" in more
    assert {"aiosched.ti_successes:3|c", "aiosched.scheduler.critical_section_duration:100.000|ms"} <= more


def test_a_scheduler_that_has_nothing_yet_sends_what_it_has() -> None:
    found = set(lines({}, {}, [], [], prefix="x"))

    assert "x.executor.open_slots:0|g" in found
    assert [line for line in found if not line.endswith(":0|g")] == ["x.scheduler_heartbeat:1|c"]


def test_datagrams_fit_into_one_packet() -> None:
    packed = list(datagrams(f"name{number}:1|c" for number in range(1000)))

    assert max(map(len, packed)) <= 1400
    assert b"\n".join(packed).split(b"\n") == [f"name{number}:1|c".encode() for number in range(1000)]
    assert list(datagrams(iter(()))) == []


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        yield sock


async def test_a_scheduler_sends_them_by_udp(dsn: str, listener: socket.socket) -> None:
    @task
    async def body() -> None: ...

    with DAG("sales", schedule=None) as dag:
        body()
    told = MetricsSettings(statsd_host="127.0.0.1", statsd_port=listener.getsockname()[1], statsd_interval=0.01)
    settings = Settings(metrics=told)
    seen: set[str] = set()

    async with Scheduler(dsn=dsn, dags=[dag], settings=settings) as scheduler:
        await scheduler.trigger("sales")
        await scheduler.wait_idle()
        async with asyncio.timeout(PATIENCE):
            while "aiosched.ti_successes:1|c" not in seen:
                datagram = await asyncio.get_running_loop().sock_recv(listener, 65_536)
                seen.update(datagram.decode().splitlines())

    assert "aiosched.scheduler_heartbeat:1|c" in seen
    assert any(line.startswith("aiosched.pool.open_slots.default_pool:") for line in seen)


async def test_nobody_who_listens_is_told_once(
    db: Database, listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    port = listener.getsockname()[1]
    listener.close()
    settings = MetricsSettings(statsd_host="127.0.0.1", statsd_port=port, statsd_interval=0.01)
    times = asyncio.Event()
    count = 0

    def look() -> dict[str, Any]:
        nonlocal count
        count += 1
        if count == 5:
            times.set()
        return {}

    with caplog.at_level(logging.WARNING):
        sending = asyncio.create_task(emit(settings, look, lambda: db))
        await times.wait()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    assert [message for message in caplog.messages if "StatsD" in message] == [
        f"StatsD at 127.0.0.1:{port} cannot be reached: [Errno 111] Connection refused"
    ]


async def test_an_unknown_host_does_not_stop_it(
    db: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = MetricsSettings(statsd_host="no.such.host.invalid", statsd_interval=0.01)
    told = asyncio.Event()
    report = statsd._Errors.report

    def received(self: statsd._Errors, error: Exception) -> None:
        report(self, error)
        told.set()

    monkeypatch.setattr(statsd._Errors, "report", received)

    sending = asyncio.create_task(emit(settings, dict, lambda: db))
    await told.wait()
    assert not sending.done()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)

    assert "StatsD at no.such.host.invalid:8125 cannot be reached" in caplog.text


async def test_figures_that_raise_do_not_stop_it(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    again = asyncio.Event()
    count = 0

    def figures() -> dict[str, Any]:
        nonlocal count
        count += 1
        if count == 3:
            again.set()
        raise ZeroDivisionError("no slots")

    settings = MetricsSettings(statsd_host="127.0.0.1", statsd_interval=0.01)
    sending = asyncio.create_task(emit(settings, figures, lambda: db))
    await asyncio.wait((sending, asyncio.ensure_future(again.wait())), return_when=asyncio.FIRST_COMPLETED)
    still_there = not sending.done()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)

    assert still_there
    assert caplog.text.count("cannot be collected") == 1
