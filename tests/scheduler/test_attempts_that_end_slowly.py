"""An attempt that was told to end may take its time: the next one of its task instance waits, wherever they run."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.instances import Effects
from aiosched.core.values.ids import PARTITIONS, partition_of
from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.scheduler.attempts.ending_attempts import EndingAttempts
from tests.scheduler.harness import Running, chain, running
from tests.scheduler.scripted_executor import DeafExecutor


async def cancel_and_clear(it: Running) -> None:
    await it.ask("cancel_run", "d", run_id="r")
    await it.ask("clear", "d", run_ids=["r"])
    await it.settled()


async def test_a_new_owner_waits_for_an_attempt_that_it_has_cancelled_in_another_scheduler(
    dsn: str, clock: FakeClock
) -> None:
    """Simulated seed 788: the partition had moved, and the run was cleared 0.2 s after it was cancelled."""
    async with running(dsn, clock, chain("d", 1), executor=DeafExecutor(clock)) as first:
        await first.trigger("d", "r")
        attempt = await first.attempt("t0")
        first.executor.start_running(attempt)
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)

            await cancel_and_clear(second)

            await first.until(lambda: first.executor.cancelled == [attempt.key], "the attempt to be stopped")
            assert await second.states("r") == {"t0": "queued"}
            assert not second.executor.submitted
            first.executor.report(attempt, Outcome.FAILED, reason="was stopped on request")
            await second.finish("t0")
            assert [each.key.try_number for each in second.executor.submitted] == [2]
            assert await second.runs("d") == {"r": "success"}
            await second.assert_consistent()


async def test_it_waits_no_longer_when_that_scheduler_has_left(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 1), executor=DeafExecutor(clock)) as first:
        await first.trigger("d", "r")
        await first.attempt("t0")
        gone = first.incarnation
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            await cancel_and_clear(second)
            assert not second.executor.submitted

            await second.execute("DELETE FROM partition_lease WHERE incarnation = $1", gone)
            await second.execute("DELETE FROM scheduler WHERE incarnation = $1", gone)

            await second.finish("t0")
            assert await second.runs("d") == {"r": "success"}


async def test_it_waits_no_longer_than_that_scheduler_may_take(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, chain("d", 1), executor=DeafExecutor(clock)) as first:
        await first.trigger("d", "r")
        await first.attempt("t0")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            await cancel_and_clear(second)
            assert not second.executor.submitted

            clock.advance(91)

            await second.finish("t0")
            assert await second.runs("d") == {"r": "success"}
            assert "was told to end, and its scheduler has not reported that it has" in caplog.text


async def test_a_partition_stays_until_an_attempt_that_was_told_to_end_has_ended(dsn: str, clock: FakeClock) -> None:
    """Its new owner would not know that the next attempt has to wait."""
    async with running(dsn, clock, chain("d", 1), executor=DeafExecutor(clock)) as first:
        await first.trigger("d", "r")
        attempt = await first.attempt("t0")
        await first.ask("cancel_run", "d", run_id="r")
        await first.until(lambda: first.executor.cancelled, "the attempt to be stopped")
        async with running(dsn, clock, settle=False) as second:
            first.begin_to_drain()
            await second.until(lambda: len(second.session.cache.partitions) == PARTITIONS - 1, "the others to move")

            first.executor.report(attempt, Outcome.FAILED, reason="was stopped on request")

            await second.until(lambda: len(second.session.cache.partitions) == PARTITIONS, "the last one to move")
            await second.ask("clear", "d", run_ids=["r"])
            await second.finish("t0")
            assert await second.runs("d") == {"r": "success"}


def test_an_attempt_whose_end_is_reported_already_is_not_waited_for() -> None:
    ending = EndingAttempts()
    a, b, c = (AttemptKey(7, task, -1, 1) for task in range(3))
    board: Any = SimpleNamespace(run=SimpleNamespace(dag_id="d"), effects=Effects(cancelled={a: 3, b: 3, c: 4}))
    reported = Report(key=b, outcome=Outcome.FAILED, at=datetime(2026, 1, 1, tzinfo=UTC))

    ending.cancelled(board, (), {3}, [reported], now=100.0)

    assert a[:3] in ending
    assert len(ending) == 1  # and scheduler 4 is gone
    assert ending.partitions() == {partition_of("d")}
    assert ending.schedulers() == {3}
    assert ending.give_up(100.0 + ending.patience) == []
    assert ending.give_up(101.0 + ending.patience) == [a]
