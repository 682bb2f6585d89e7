"""Clearing what is under way, and requests that meet changes and crashes.

Source: the semantics reference, sections 28.2 and 2.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec
from aiosched.core.requests import instance_changes
from aiosched.core.run.board import Board
from aiosched.core.values.messages import Attempt, Outcome
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.errors import Refused, StaleRows
from aiosched.scheduler.memory.cache import OwnedDag, StateCache
from aiosched.scheduler.memory.decision_context import DecisionContext
from aiosched.scheduler.runs import stored_runs
from tests.scheduler.harness import Running, chain, dag, running, task
from tests.scheduler.scripted_executor import DeafExecutor
from tests.scheduler.test_clearing_requests import finished_run, tries

# -- attempts under way (28.2, 2.3) -------------------------------------------------------------


async def running_attempt(it: Running) -> Attempt:
    await it.trigger("d", "r")
    attempt = await it.attempt("a")
    it.executor.start_running(attempt)
    await it.settled()
    return attempt


async def test_the_next_try_begins_when_an_attempt_that_was_only_queued_has_ended(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), executor=DeafExecutor(clock)) as it:
        await it.trigger("d", "r")
        first = await it.attempt("a")  # it may have begun, but has not said so yet

        await it.ask("clear", "d", run_ids=["r"])
        await it.until(lambda: it.executor.cancelled, "the end of the first attempt to be asked for")
        await it.settled()

        assert (await it.states("r"), await tries(it, "a")) == ({"a": "queued"}, (2, 1))
        assert list(it.executor.running) == [first.key]
        it.executor.lose(first)
        await it.until(lambda: first.key not in it.executor.running and it.executor.running, "the next attempt")
        assert (await it.attempt("a")).key.try_number == 2
        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_the_next_try_begins_when_an_attempt_that_was_marked_has_ended(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), executor=DeafExecutor(clock)) as it:
        first = await running_attempt(it)
        await it.ask("mark_tasks", "d", run_ids=["r"], task_ids=["a"], state="failed")
        await it.ask("clear", "d", run_ids=["r"])
        await it.settled()

        assert await it.states("r") == {"a": "queued"}
        assert list(it.executor.running) == [first.key]
        await it.leave_and_come_back()
        assert list(it.executor.running) == [first.key]
        it.executor.succeed(first)
        await it.until(lambda: first.key not in it.executor.running and it.executor.running, "the next attempt")
        assert (await it.attempt("a")).key.try_number == 2
        await it.finish("a")
        await it.assert_consistent()


async def test_an_attempt_that_waits_for_the_one_before_counts_for_the_parallelism(dsn: str, clock: FakeClock) -> None:
    specs = [dag("d"), dag("e", task("b"), task("c"))]
    async with running(dsn, clock, *specs, executor=DeafExecutor(clock), parallelism=2) as it:
        await it.trigger("d", "r")
        first = await it.attempt("a")
        await it.ask("clear", "d", run_ids=["r"])
        await it.settled()
        await it.trigger("e", "r")
        assert list(it.executor.running) == [first.key]

        it.executor.lose(first)
        await it.until(lambda: len(it.executor.running) == 2, "two attempts")
        await it.settled()
        assert len(it.executor.running) == 2
        await it.finish_all()
        assert (await it.runs("d"), await it.runs("e")) == ({"r": "success"}, {"r": "success"})


async def test_a_running_task_is_restarting_until_its_attempt_has_ended(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), executor=DeafExecutor(clock)) as it:
        attempt = await running_attempt(it)

        await it.ask("clear", "d", run_ids=["r"])

        assert await it.states("r") == {"a": "restarting"}
        assert it.executor.cancelled == [attempt.key]
        await it.assert_consistent()
        it.executor.lose(attempt)
        await it.settled()
        assert (await it.attempt("a")).key.try_number == 2
        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}
        assert await it.fetch("SELECT used FROM pool WHERE name = 'default_pool'") == [(0,)]
        await it.assert_consistent()


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.LOST, Outcome.FAILED, Outcome.SKIPPED], ids=str)
async def test_however_the_attempt_of_a_restarting_task_ends_the_task_runs_again(
    dsn: str, clock: FakeClock, outcome: Outcome
) -> None:
    async with running(dsn, clock, dag("d"), executor=DeafExecutor(clock)) as it:
        attempt = await running_attempt(it)
        await it.ask("clear", "d", run_ids=["r"])

        it.executor.report(attempt, outcome)
        await it.settled()
        await it.advance(1)
        await it.finish("a")

        assert await tries(it, "a") == (2, 1)
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_a_queued_attempt_is_cancelled_and_the_task_queued_anew(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        attempt = await it.attempt("a")

        await it.ask("clear", "d", run_ids=["r"])

        assert it.executor.cancelled == [attempt.key]
        assert (await it.attempt("a")).key.try_number == 2
        await it.assert_consistent()


async def test_what_a_cleared_attempt_reports_afterwards_is_stale(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), executor=DeafExecutor(clock)) as it:
        await it.trigger("d", "r")
        first = await it.attempt("a")
        await it.ask("clear", "d", run_ids=["r"])

        it.executor.fail(first, "too late")
        await it.settled()

        assert await it.states("r") == {"a": "queued"}
        assert it.scheduler.metrics.stale_reports == 1


async def test_a_task_that_waits_for_its_retry_is_cleared_and_runs_at_once(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a", retries=1, retry_delay=3600.0))) as it:
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("a"))
        await it.settled()
        assert await it.states("r") == {"a": "up_for_retry"}

        await it.ask("clear", "d", run_ids=["r"])

        assert (await it.attempt("a")).key.try_number == 2
        assert await tries(it, "a") == (2, 2)
        await it.assert_consistent()


async def test_a_task_that_waits_for_a_slot_is_cleared_and_waits_on(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"), max_active_tasks=1)) as it:
        await it.trigger("d", "r")
        waiting = "b" if it.executor.find("a") else "a"

        await it.ask("clear", "d", run_ids=["r"], task_ids=[waiting])

        assert (await it.states("r"))[waiting] == "scheduled"
        await it.assert_consistent()
        await it.finish_all()
        assert await it.runs("d") == {"r": "success"}


# -- races and crashes --------------------------------------------------------------------------


async def test_a_run_whose_end_is_not_stored_yet_is_cleared_after_it(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        for turn in range(20):
            await it.trigger("d", f"r{turn}")
            attempt = await it.attempt("a")
            request = asyncio.create_task(it.request("clear", "d", {"run_ids": [f"r{turn}"]}))
            for _ in range(turn):
                await asyncio.sleep(0.0005)
            if attempt.key in it.executor.running:  # else the clear came first and has cancelled it
                it.executor.succeed(attempt)
            await request
            await it.assert_consistent()
            await it.finish_all()
            assert (await it.runs("d"))[f"r{turn}"] == "success"
            await it.assert_consistent()


async def test_a_run_that_just_starts_may_be_cleared(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", max_active_runs=3)) as it:
        requests = []
        for number in range(10):
            await it.scheduler.trigger("d", run_id=f"r{number}")
            requests.append(asyncio.create_task(it.request("clear", "d", {"run_ids": [f"r{number}"]})))
        await asyncio.gather(*requests)

        await it.assert_consistent()
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}


async def test_a_request_left_while_no_scheduler_lived_is_applied_before_anything_starts(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        await it.finish("t0")
    async with db.acquire() as conn:
        await inbox.send_request(conn, verb="clear", dag_id="d", args={"run_ids": ["r"]}, requested_by="tester")

    async with running(dsn, clock) as it:
        assert it.executor.order() == ["t0"]
        await it.finish_all()
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_a_request_that_a_crash_interrupted_is_applied_again_without_harm(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: list[str] = []

    def fail_once(self: DecisionContext, dag: OwnedDag, boards: Iterable[Board]) -> None:
        if not broken:
            broken.append("between the transaction and memory")
            raise StaleRows("injected")
        settle(self, dag, boards)

    settle = DecisionContext.settle
    monkeypatch.setattr(DecisionContext, "settle", fail_once)
    async with running(dsn, clock, dag("d", max_active_runs=2)) as it:
        await finished_run(it, run_id="over")
        await it.trigger("d", "runs")
        it.executor.start_running(await it.attempt("a", "runs"))

        await it.request("clear", "d", {"run_ids": ["over", "runs"]})

        assert broken
        await it.assert_consistent()
        await it.finish_all()
        assert await it.runs("d") == {"over": "success", "runs": "success"}
        assert [await tries(it, "a", run) for run in ("over", "runs")] == [(2, 1), (2, 1)]
        await it.assert_consistent()


async def test_a_report_that_nobody_needs_by_a_decision_that_is_lost_is_applied_again(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        attempt = await it.attempt("a")
        session = it.session
        async with session.env.journal.quiet():  # nothing is stored meanwhile
            asked = asyncio.create_task(it.scheduler.cancel("d", "r"))
            await it.until(lambda: not session.cache.boards, "the cancellation in memory")
            it.executor.fail(attempt)
            await it.until(lambda: session.env.metrics.stale_reports, "the report of the task to be dropped")
            monkeypatch.setattr(StateCache, "collect_board", _broken)
        await it.until(lambda: it.scheduler.session is not session, "the quarantine of the DAG")
        monkeypatch.undo()
        with pytest.raises(Refused, match="is in quarantine"):
            await asked
        await it.scheduler.release("d")
        await it.settled()

        assert [tuple(each.key) for each in it.executor.submitted] == [tuple(attempt.key)], "it began once"
        assert (await it.runs("d"))["r"] == "failed"
        await it.assert_consistent()


def _broken(*_: object) -> None:
    raise RuntimeError("injected")


async def test_clearing_many_runs_of_many_tasks_takes_a_few_transactions(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_runs, "INSTANCES_PER_TRANSACTION", 50)
    monkeypatch.setattr(instance_changes, "SHOWN", 30)
    spec: DagSpec = dag("d", *(task(f"t{i}") for i in range(5)), max_active_runs=1, max_active_tasks=5)
    async with running(dsn, clock, spec) as it:
        for number in range(20):
            await it.scheduler.trigger("d", run_id=f"r{number}")
        await it.settled()
        await it.execute("UPDATE task_instance SET state = 'success', try_number = 1 WHERE state IS NULL")
        await it.execute("UPDATE dag_run SET state = 'success', start_date = now() WHERE state = 'queued'")
        queued = it.session.cache.dags["d"].runs.queued
        for run in list(queued):
            queued.remove(run)

        answer = await it.ask("clear", "d")

        assert (answer["count"], len(answer["runs"]), len(answer["instances"])) == (100, 20, 30)
        states = await it.fetch("SELECT state, count(*) FROM dag_run GROUP BY 1 ORDER BY 1")
        assert list(map(tuple, states)) == [("queued", 19), ("running", 1)]
        await it.assert_consistent()


async def test_a_clear_waits_for_the_commit_of_an_end_that_is_under_way(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        attempt = await it.attempt("a")
        async with it.session.env.journal.quiet():  # nothing is committed meanwhile
            it.executor.succeed(attempt)
            await it.until(lambda: it.session.cache.unstored.pending.effects.finished, "the run to end in memory")
            request = asyncio.create_task(it.request("clear", "d", {"run_ids": ["r"]}))
            await it.until(it.session.locks.ownership.locked, "the request to be taken up")
            for _ in range(50):
                await asyncio.sleep(0)
            assert not request.done()
            assert await it.runs("d") == {"r": "running"}
        await request

        await it.finish("a")
        assert await tries(it, "a") == (2, 1)
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_an_answer_that_is_committed_while_the_inbox_is_read_is_not_given_twice(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = inbox.waiting_requests

    async def read_slowly(*args: Any, **kwargs: Any) -> list[inbox.WaitingRequest]:
        found = await read(*args, **kwargs)
        await it.until(lambda: not it.session.cache.unstored.answers())  # now it is out of date
        return found

    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        first = await it.attempt("a")
        monkeypatch.setattr(inbox, "waiting_requests", read_slowly)

        await it.ask("clear", "d", run_ids=["r"])
        await it.settled()

        assert it.executor.cancelled == [first.key]
        assert (await it.attempt("a")).key.try_number == 2
