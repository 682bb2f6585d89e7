"""Callbacks that the scheduler decides on: the semantics reference, sections 16.2 (4), 23.1, 23.2, 34 (14), 35 (18)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from types import ModuleType
from typing import Any, Literal

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DeadlineSpec
from aiosched.core.values.ids import PARTITIONS, partition_of
from aiosched.core.values.messages import Attempt, CallbackCall, Outcome, SkipDecision
from aiosched.db.statements import outbox as outbox_statements
from aiosched.scheduler.effects import deadlines
from aiosched.scheduler.loops.callbacks import poll_outbox
from aiosched.scheduler.partitions.ownership import give_back
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, Running, dag, running, task

CALLBACKS: dict[str, Any] = {"has_success_callback": True, "has_failure_callback": True}


async def call(it: Running) -> CallbackCall:
    """The callback that runs now."""
    found = (await it.callback()).callback
    assert found is not None
    return found


async def end_callback(it: Running, outcome: Outcome = Outcome.SUCCESS, **details: Any) -> CallbackCall:
    attempt = await it.callback()
    it.executor.report(attempt, outcome, **details)
    await it.settled()
    assert attempt.callback is not None
    return attempt.callback


async def outbox(it: Running) -> list[tuple[Any, ...]]:
    rows = await it.fetch("SELECT kind, attempts, given_up_at IS NOT NULL, error FROM callback_outbox ORDER BY id")
    return [tuple(row) for row in rows]


# -- DAG callbacks ----------------------------------------------------------------------------


async def test_a_success_asks_once_and_shows_the_successful_task_that_ended_last(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"), **CALLBACKS)) as it:
        await it.trigger("d", "r")
        await it.finish("b")
        await it.advance(1)
        await it.finish("a")

        callback = await call(it)

        assert (callback.kind, callback.reason, callback.task_id) == ("dag_success", "success", "a")
        attempt = await it.callback()
        assert (attempt.key[1:], attempt.run.run_id) == ((-1, -1, callback.id), "r")
        assert await outbox(it) == [("dag_success", 1, False, None)]
        await end_callback(it)
        assert await outbox(it) == []
        assert len(it.executor.without_slot) == 1
        await it.assert_consistent()


async def test_a_timed_out_run_shows_the_unfinished_task_that_started_last(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("a"), task("b"), task("c", after="a"), dagrun_timeout=60.0, **CALLBACKS)
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        it.executor.start_running(await it.attempt("b"))
        await it.advance(1)
        it.executor.start_running(await it.attempt("a"))
        await it.advance(60)

        callback = await call(it)

        assert (callback.kind, callback.reason, callback.task_id) == ("dag_failure", "timed_out", "a")


async def test_the_request_is_stored_in_the_commit_that_ends_the_run(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it:
        await it.execute("ALTER TABLE callback_outbox ADD CHECK (kind <> 'dag_success')")  # it cannot be stored
        await it.trigger("d", "r")
        it.executor.succeed(await it.attempt("a"))
        await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine of the DAG")
        await it.settled()

        assert await it.runs("d") == {"r": "running"}
        assert await outbox(it) == []


# -- callbacks of tries that no worker could tell -----------------------------------------------


@pytest.mark.parametrize("retries", [0, 5])
async def test_a_task_that_is_lost_three_times_asks_for_its_failure_callback_once(
    dsn: str, clock: FakeClock, retries: int
) -> None:
    """Section 34, decisions 14 and 17."""
    spec = dag("d", task("a", retries=retries, has_failure_callback=True, has_retry_callback=True))
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        for _ in range(3):
            assert it.executor.without_slot == []
            it.executor.lose(await it.attempt("a"), "killed by SIGKILL")
            await it.settled()

        callback = await call(it)

        assert (callback.kind, callback.task_id, callback.try_number) == ("task_failure", "a", 3)
        assert callback.reason == "lost 3 times in a row: killed by SIGKILL"
        assert len(await outbox(it)) == 1


@pytest.mark.parametrize(("retries", "kind"), [(0, "task_failure"), (1, "task_retry")])
async def test_a_failure_that_only_the_executor_could_tell_asks_for_the_callback_of_its_kind(
    dsn: str, clock: FakeClock, retries: int, kind: str
) -> None:
    spec = dag("d", task("a", retries=retries, has_failure_callback=True, has_retry_callback=True))
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        it.executor.report(await it.attempt("a"), Outcome.FAILED, reason="exit code 3", unattended=True)

        callback = await call(it)

        assert (callback.kind, callback.reason, callback.try_number) == (kind, "exit code 3", 1)


async def test_a_failure_that_its_worker_told_asks_for_nothing(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("a", retries=1, has_failure_callback=True, has_retry_callback=True))
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("a"))
        await it.advance(301)
        it.executor.fail(await it.attempt("a"))
        await it.settled()

        assert it.executor.without_slot == []
        assert await it.runs("d") == {"r": "failed"}


async def test_a_branch_to_an_unknown_task_is_a_failure_that_the_scheduler_decides(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("a", can_skip_downstream=True, has_failure_callback=True), task("b", after="a"))
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        it.executor.succeed(await it.attempt("a"), skip=SkipDecision(followed=("nowhere",)))

        callback = await call(it)

        assert callback.kind == "task_failure"
        assert "nowhere" in str(callback.reason)


# -- delivery ---------------------------------------------------------------------------------


async def test_a_callback_that_raises_has_run(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it:
        await it.trigger("d", "r")
        await it.finish("a")

        await end_callback(it, Outcome.FAILED, reason="notify raised KeyError: 'x'")

        assert len(it.executor.without_slot) == 1
        assert await outbox(it) == []


async def test_a_lost_callback_is_delivered_three_times_in_all_and_its_row_stays(dsn: str, clock: FakeClock) -> None:
    """Section 34, decision 14."""
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it:
        await it.trigger("d", "r")
        await it.finish("a")

        ids = {(await end_callback(it, Outcome.LOST, reason=f"killed {n}")).id for n in range(3)}

        assert len(ids) == 1
        assert len(it.executor.without_slot) == 3
        assert await outbox(it) == [("dag_success", 3, True, "killed 2")]
        assert it.scheduler.metrics.lost_attempts == 0

    async with running(dsn, clock) as again:
        assert again.executor.without_slot == []


async def test_a_callback_that_ran_when_its_scheduler_stopped_is_delivered_again(dsn: str, clock: FakeClock) -> None:
    """Section 34, decision 14."""
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it:
        await it.trigger("d", "r")
        await it.finish("a")
        first = await call(it)

    async with running(dsn, clock) as again:
        assert await call(again) == first
        await end_callback(again)
        assert await outbox(again) == []


async def test_a_callback_that_takes_its_scheduler_down_is_given_up(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it:
        await it.trigger("d", "r")
        await it.finish("a")
        await it.execute("UPDATE callback_outbox SET attempts = 3")
        it.executor.callbacks.clear()  # nothing is said of it, as after a crash

    async with running(dsn, clock) as again:
        assert again.executor.without_slot == []
        assert await outbox(again) == [("dag_success", 3, True, "its scheduler ended while it ran")]


async def test_a_crash_between_the_request_and_its_delivery_loses_nothing(dsn: str, clock: FakeClock) -> None:
    """Section 34, decision 14."""
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it:
        it.session.membership.draining = True  # nothing is handed out any more
        it.session.membership.draining = False
        await it.trigger("d", "r")
        attempt = await it.attempt("a")
        it.session.membership.draining = True
        it.executor.succeed(attempt)
        await it.until(lambda: it.session.outbox.waiting, "the request")
        assert await outbox(it) == [("dag_success", 0, False, None)]

    async with running(dsn, clock) as again:
        assert (await call(again)).kind == "dag_success"


async def test_a_report_that_could_not_be_stored_is_stored_later_without_running_again(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it:
        await it.trigger("d", "r")
        await it.finish("a")
        attempt = await it.callback()
        await it.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'aiosched journal'"
            " AND datname = current_database()"
        )
        it.executor.report(attempt, Outcome.SUCCESS)
        await it.until(lambda: not it.session.env.attempts.callbacks.by_id, "the report to be stored")
        await it.settled()

        assert await outbox(it) == []
        assert len(it.executor.without_slot) == 1


async def test_at_most_a_few_callbacks_run_at_once_oldest_first_and_none_holds_a_slot(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", **CALLBACKS), parallelism=1) as it:
        for number in range(6):
            await it.trigger("d", f"r{number}")
        for number in range(6):
            await it.finish("a", run_id=f"r{number}")

        assert [a.run.run_id for a in it.executor.without_slot] == ["r0", "r1", "r2"]
        await end_callback(it)
        assert [a.run.run_id for a in it.executor.without_slot] == ["r0", "r1", "r2", "r3"]
        while it.executor.callbacks:
            await end_callback(it)
        assert len(it.executor.without_slot) == 6
        assert await outbox(it) == []


async def test_a_request_whose_run_was_deleted_goes_with_it(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it:
        await it.trigger("d", "r")
        await it.finish("a")
        it.executor.callbacks.clear()
        await it.execute("DELETE FROM task_instance")
        await it.execute("DELETE FROM dag_run")

    async with running(dsn, clock) as again:
        assert again.executor.without_slot == []
        assert await outbox(again) == []


async def test_every_finishing_of_a_run_asks_once(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it:
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("a"))
        await it.settled()
        await end_callback(it)
        await it.ask("clear", "d", run_ids=["r"])
        await it.finish("a")
        await end_callback(it)

        assert [a.callback.kind for a in it.executor.without_slot if a.callback] == ["dag_failure", "dag_success"]


# -- partitions that leave meanwhile ----------------------------------------------------------


class OwnedLock(asyncio.Lock):
    """A lock that knows which task holds it."""

    owner: asyncio.Task[Any] | None = None

    async def acquire(self) -> Literal[True]:
        await super().acquire()
        self.owner = asyncio.current_task()
        return True

    def release(self) -> None:
        self.owner = None
        super().release()


@pytest.mark.slow
@pytest.mark.parametrize(("module", "statement"), [(outbox_statements, "begin_deliveries"), (deadlines, "mark_missed")])
async def test_a_partition_stays_while_callbacks_of_it_are_asked_for_or_handed_out(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, module: ModuleType, statement: str
) -> None:
    """Its next owner would deliver them as well."""
    async with running(dsn, clock, dag("d", deadlines=(DeadlineSpec(reference="queued_at", interval=60.0),))) as it:
        session, original = it.session, getattr(module, statement)
        ownership_lock = session.locks.ownership = OwnedLock()
        leaving: list[asyncio.Task[None]] = []
        owned: list[bool] = []

        async def leave() -> None:
            async with ownership_lock:
                await give_back(session, range(PARTITIONS))

        async def carried_out(*args: Any, **options: Any) -> Any:
            found = await original(*args, **options)
            if not leaving:
                leaving.append(asyncio.create_task(leave()))
                if ownership_lock.owner is not asyncio.current_task():  # else they leave when we are done
                    await leaving[0]
            return found

        def handed_out(attempts: Sequence[Attempt]) -> None:
            owned.extend(partition_of("d") in session.cache.partitions for one in attempts if one.callback)

        monkeypatch.setattr(module, statement, carried_out)
        it.executor.on_submit = handed_out
        await it.trigger("d", "r")
        clock.advance(61)
        it.scheduler.wake_loops()

        await it.callback()
        await leaving[0]
        await it.until(lambda: len(session.cache.partitions) == PARTITIONS, "the partitions to come back")
        await end_callback(it)

        assert owned == [True]
        assert await outbox(it) == []
        await it.assert_consistent()


async def test_while_there_is_nothing_to_deliver_nobody_is_waited_for(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it, asyncio.timeout(PATIENCE), it.session.locks.ownership:
        assert await poll_outbox(it.session) is None


# -- runs that fail one after the other: 9.3 --------------------------------------------------


async def fail_run(it: Running, run_id: str) -> None:
    it.clock.at += timedelta(seconds=1)
    await it.trigger("d", run_id)
    it.executor.fail(await it.attempt("a", run_id))
    await it.settled()


async def test_a_dag_pauses_when_its_newest_runs_have_all_failed(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", max_consecutive_failed_dag_runs=2)) as it:
        await fail_run(it, "one")
        clock.at += timedelta(seconds=1)
        await it.trigger("d", "two")
        await it.finish("a")
        await fail_run(it, "three")
        assert await it.fetch("SELECT is_paused FROM dag") == [(False,)]

        await fail_run(it, "four")

        assert await it.fetch("SELECT is_paused FROM dag") == [(True,)]
        assert it.session.cache.dags["d"].row.is_paused
        (audit,) = await it.fetch("SELECT * FROM request WHERE verb = 'pause'")
        assert (audit["dag_id"], audit["requested_by"], audit["state"]) == ("d", "scheduler", "applied")
        assert audit["reason"] == "its newest 2 runs failed (max_consecutive_failed_dag_runs)"
        await it.trigger("d", "five")
        assert (await it.runs("d"))["five"] == "queued"


async def test_fewer_runs_than_the_limit_pause_nothing_and_newest_is_by_run_after(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", max_consecutive_failed_dag_runs=3)) as it:
        await it.trigger("d", "good", run_after=NEW_YEAR)
        await it.finish("a")
        for number, run_id in enumerate(("one", "two"), 1):
            await it.trigger("d", run_id, run_after=NEW_YEAR - timedelta(days=number))
            it.executor.fail(await it.attempt("a", run_id))
            await it.settled()
        await fail_run(it, "three")

        assert await it.fetch("SELECT is_paused FROM dag") == [(False,)]


async def test_runs_that_a_user_fails_do_not_pause_their_dag(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", max_consecutive_failed_dag_runs=1)) as it:
        await it.trigger("d", "r")
        await it.ask("cancel_run", "d", run_id="r")

        assert await it.fetch("SELECT is_paused FROM dag") == [(False,)]


async def test_a_dag_that_was_let_go_again_stays_so_until_the_next_failure(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", max_consecutive_failed_dag_runs=1)) as it:
        await fail_run(it, "one")
        await it.ask("unpause", "d")

    async with running(dsn, clock) as again:
        assert await again.fetch("SELECT is_paused FROM dag") == [(False,)]
        await fail_run(again, "two")
        assert await again.fetch("SELECT is_paused FROM dag") == [(True,)]


async def test_callbacks_of_one_dag_that_hang_leave_a_place_to_others(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("hangs", **CALLBACKS), dag("other", **CALLBACKS)) as it:
        for number in range(6):
            await it.trigger("hangs", f"r{number}")
            await it.finish("a", dag_id="hangs")
        assert [attempt.run.dag_id for attempt in it.executor.callbacks.values()] == ["hangs"] * 3

        await it.trigger("other", "r")
        await it.finish("a", dag_id="other")

        (theirs,) = [attempt for attempt in it.executor.callbacks.values() if attempt.run.dag_id == "other"]
        it.executor.succeed(theirs)
        await it.settled()
        left = await it.fetch("SELECT dag_id, count(*) FROM callback_outbox GROUP BY 1")
        assert [tuple(row) for row in left] == [("hangs", 6)]
        for _ in range(6):
            await end_callback(it)
        assert await outbox(it) == []
        await it.assert_consistent()


async def test_waiting_callbacks_are_read_in_pages(dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_statements, "PAGE", 2)
    async with running(dsn, clock, dag("d", **CALLBACKS)) as it:
        for number in range(5):
            await it.trigger("d", f"r{number}")
            await it.finish("a")
    async with running(dsn, clock) as it:
        for _ in range(5):
            await end_callback(it)

        assert await outbox(it) == []
