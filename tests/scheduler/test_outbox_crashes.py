"""Crashes between any two steps of a deferral and of a callback: events are kept, callbacks asked for exactly once.

The semantics reference, sections 25.2, 34 (14) and 35 (12, 18).
"""

from __future__ import annotations

import asyncpg
import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DeadlineSpec
from aiosched.core.values.messages import Outcome
from aiosched.scheduler.effects import after_commit
from aiosched.scheduler.journal.journal import Transaction
from aiosched.scheduler.memory.changes import Changes, Committed
from tests.scheduler.harness import Running, dag, running, task

SPEC = dag(
    "d",
    task("a"),
    task("b", after="a", retries=0, has_failure_callback=True),
    task("c", after="b", trigger_rule="all_done"),
    has_success_callback=True,
    deadlines=(DeadlineSpec(reference="queued_at", interval=-1.0),),
)
WANTED = [("d", "dag_success", "a"), ("d", "deadline", None), ("d", "task_failure", "b")]


def _one_step(it: Running, ran: list[tuple[str, str, str | None]]) -> bool:
    """Let something that is under way end: `a` defers and goes on, `b` dies without a word, all else succeeds."""
    executor = it.executor
    for trigger in executor.triggers.values():
        executor.fire(trigger, "event")
        return True
    for callback in executor.callbacks.values():
        executor.report(callback, Outcome.SUCCESS)
        assert callback.callback is not None
        ran.append((callback.run.dag_id, callback.callback.kind, callback.callback.task_id))
        return True
    for attempt in executor.running.values():
        if attempt.task_id == "a" and attempt.resume is None:
            executor.defer(attempt)
        elif attempt.task_id == "b":
            executor.report(attempt, Outcome.FAILED, reason="gone", unattended=True)
        else:
            executor.succeed(attempt)
        return True
    return False


async def play(it: Running, ran: list[tuple[str, str, str | None]], *, steps: int = 100) -> None:
    await it.settled()
    while steps and _one_step(it, ran):
        steps -= 1
        await it.settled()


async def assert_all_is_well(it: Running, ran: list[tuple[str, str, str | None]]) -> None:
    await it.assert_consistent()
    assert await it.runs("d") == {"r": "success"}
    assert await it.states("r") == {"a": "success", "b": "failed", "c": "success"}
    assert await it.fetch("SELECT * FROM callback_outbox") == []
    assert await it.fetch("SELECT missed FROM deadline") == [(True,)]
    assert await it.fetch("SELECT * FROM deferred_trigger") == []
    assert await it.fetch("SELECT count(*) FROM xcom") == [(0,)]
    assert sorted(set(ran), key=str) == sorted(WANTED, key=str)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("steps", range(9))
async def test_a_restart_after_any_step(dsn: str, clock: FakeClock, steps: int) -> None:
    ran: list[tuple[str, str, str | None]] = []
    async with running(dsn, clock, SPEC) as it:
        await it.trigger("d", "r")
        clock.advance(1)
        it.scheduler.wake_loops()
        await play(it, ran, steps=steps)

    async with running(dsn, clock) as again:
        await play(again, ran)
        await assert_all_is_well(again, ran)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
async def test_a_connection_that_breaks_around_any_commit(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, moment: str, number: int
) -> None:
    ran: list[tuple[str, str, str | None]] = []
    async with running(dsn, clock, SPEC) as it:
        await it.trigger("d", "r")
        clock.advance(1)
        it.scheduler.wake_loops()
        _break_at(monkeypatch, moment, number)
        await play(it, ran)

        await assert_all_is_well(it, ran)
        assert len(ran) == 3, "nothing was lost with a worker, so each ran once"


def _break_at(monkeypatch: pytest.MonkeyPatch, moment: str, number: int) -> None:
    count = 0

    def counted() -> None:
        nonlocal count
        count += 1
        if count == number:
            raise asyncpg.ConnectionDoesNotExistError("the test cut the connection")

    whole = Transaction.write

    async def write(transaction: Transaction, batch: Changes) -> Committed:
        committed = await whole(transaction, batch)
        if not batch.is_empty:
            counted()
        return committed

    if moment == "after the commit":
        monkeypatch.setattr(after_commit, "EFFECTS", (lambda *_: counted(), *after_commit.EFFECTS))
    else:
        monkeypatch.setattr(Transaction, "write", write)
