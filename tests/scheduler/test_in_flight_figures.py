"""Counts of attempts in flight: scheduler/session/session.py."""

from __future__ import annotations

import pytest

from aiosched.clock import FakeClock
from aiosched.scheduler.observability.metrics_snapshot import figures_of
from aiosched.scheduler.session import session
from aiosched.scheduler.session.session import InFlight
from tests.scheduler.harness import Running, dag, running, task


def counted(it: Running, counts: InFlight, clock: FakeClock) -> tuple[int, int]:
    counts.count(it.session.env.attempts, it.session.cache, clock.monotonic())
    return counts.queued, counts.running


async def test_attempts_are_counted_by_state_and_their_slots_by_pool(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b", pool_slots=3))) as it:
        await it.trigger("d", "r")
        it.executor.start_running(await it.attempt("a"))
        await it.settled()
        counts = InFlight()

        assert counted(it, counts, clock) == (1, 1)
        assert counts.pools == {"default_pool": {"queued": 3, "running": 1}}
        assert counts.oldest_queued is not None
        await it.finish_all()
        assert counted(it, counts, clock) == (0, 0)
        assert not counts.pools


async def test_very_many_are_counted_less_often(dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "A_SECOND", 2)
    async with running(dsn, clock, dag("d", *(task(f"t{number}") for number in range(10)))) as it:
        await it.trigger("d", "r")
        counts = InFlight()
        assert counted(it, counts, clock) == (10, 0)
        it.executor.start_running(await it.attempt("t0"))
        await it.settled()

        assert counted(it, counts, clock) == (10, 0)
        clock.advance(4.0)
        assert counted(it, counts, clock) == (9, 1)


async def test_what_waits_in_vain_is_told_with_the_reason_that_why_gives(dsn: str, clock: FakeClock) -> None:
    tasks = task("small", pool="etl"), task("large", pool="etl", pool_slots=5), task("lost", pool="gone")
    async with running(dsn, clock, dag("d", *tasks, task("strange", executor="dask"))) as it:
        await it.execute("INSERT INTO pool (name, slots) VALUES ('etl', 3)")
        await it.trigger("d", "r")
        rows = await it.fetch("SELECT task_index, reason FROM task_instance WHERE state = 'scheduled'")
        reasons = {row["task_index"]: row["reason"] for row in rows}

        said = figures_of(it.session, it.scheduler.metrics, None)["in_vain"]

        assert sorted(said) == [
            ["executor", "dask", reasons[3], 1],
            ["pool", "etl", reasons[1], 1],
            ["pool", "gone", reasons[2], 1],
        ]
