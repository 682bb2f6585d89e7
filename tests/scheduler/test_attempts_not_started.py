"""Attempts that do not begin: stuck in an executor's queue (20.4), or without their DAG (22.6).

Source: the semantics reference, sections 20.4 and 22.6.
"""

from __future__ import annotations

from datetime import timedelta

from aiosched.clock import FakeClock
from aiosched.core.values.messages import Outcome
from tests.scheduler.harness import NEW_YEAR, Running, dag, running, task
from tests.scheduler.scripted_executor import DeafExecutor

NEVER = "not started within 600 s of being queued (scheduler.task_queued_timeout)"
ROUND = 600.001  # seconds: the timeout is strict


async def facts(it: Running, task_id: str = "a") -> tuple[object, ...]:
    row = await it.instance(task_id, "r")
    return row["state"], row["try_number"], row["reason"]


# -- stuck in the queue -----------------------------------------------------------------------


async def test_an_attempt_that_never_starts_is_queued_again_twice_and_then_fails(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("a", retries=5, has_failure_callback=True), task("after", after="a"))
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        first = await it.attempt("a")

        await it.advance(600)
        assert it.executor.cancelled == []  # strictly later

        for number in (1, 2):
            await it.advance(0.001 if number == 1 else ROUND)
            again = await it.attempt("a")
            assert it.executor.cancelled == [first.key] * number
            assert again.key == first.key  # the same try
            assert (await it.instance("a", "r"))["queued_at"] == clock.now()
            await it.assert_consistent()

        await it.advance(ROUND)

        remedy = ", 3 times: make sure that the workers of its executor run, then clear the task"
        assert await facts(it) == ("failed", 1, NEVER + remedy)  # retries are not honoured
        assert (await it.instance("a", "r"))["start_date"] is None
        assert await it.runs("d") == {"r": "failed"}
        call = (await it.callback()).callback
        assert call is not None
        assert (call.kind, call.task_id, call.reason) == ("task_failure", "a", NEVER + remedy)


async def test_while_it_finds_no_room_again_the_reason_says_what_happened(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await it.attempt("a")
        it.executor.slots = 0

        await it.advance(ROUND)

        assert await facts(it) == ("scheduled", 1, NEVER + "; queued again, 1 of 2")
        (pool,) = await it.fetch("SELECT used FROM pool")
        assert pool["used"] == 0
        await it.assert_consistent()


async def test_an_attempt_that_has_started_is_left_alone_however_long_it_runs(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        await it.trigger("d", "r")
        it.executor.start_running(await it.attempt("a"))
        await it.settled()

        await it.advance(7 * ROUND)  # b, which did not start, is stuck

        assert [key.task_index for key in it.executor.cancelled] == [1]
        await it.finish("a", "b")
        assert await it.runs("d") == {"r": "success"}


async def test_only_what_still_waits_is_looked_at_and_when_it_is_due(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b", after="a"))) as it:
        await it.trigger("d", "r")
        await it.advance(400)
        await it.finish("a")
        b = await it.attempt("b")

        await it.advance(300)  # the look that a's claim had asked for finds nothing overdue
        assert it.executor.cancelled == []
        await it.advance(300.001)

        assert it.executor.cancelled == [b.key]


async def test_what_starts_just_when_it_is_revoked_is_lost_and_costs_no_retry(dsn: str, clock: FakeClock) -> None:
    executor = DeafExecutor(clock)
    async with running(dsn, clock, dag("d"), executor=executor) as it:
        await it.trigger("d", "r")
        a = await it.attempt("a")
        await it.advance(ROUND)
        executor.start_running(a)
        executor.report(a, Outcome.FAILED, reason="was stopped on request", started_at=clock.now())
        await it.settled()

        assert (await it.attempt("a")).key.try_number == 2
        row = await it.instance("a", "r")
        assert (row["max_tries"], row["losses"]) == (1, 1)


async def test_a_result_that_arrives_after_the_revocation_counts(dsn: str, clock: FakeClock) -> None:
    executor = DeafExecutor(clock)
    async with running(dsn, clock, dag("d"), executor=executor) as it:
        await it.trigger("d", "r")
        a = await it.attempt("a")
        await it.advance(ROUND)

        executor.succeed(a)
        await it.settled()

        assert await it.runs("d") == {"r": "success"}
        assert not it.session.env.attempts.stuck_attempts.revoked


async def test_an_executor_that_does_not_answer_the_revocation_is_not_waited_for(dsn: str, clock: FakeClock) -> None:
    executor = DeafExecutor(clock)
    async with running(dsn, clock, dag("d"), executor=executor) as it:
        await it.trigger("d", "r")
        a = await it.attempt("a")
        await it.advance(ROUND)
        assert await facts(it) == ("queued", 1, None)

        executor.running.clear()
        await it.advance(10.001)

        assert (await it.attempt("a")).key == a.key
        assert len(executor.submitted) == 2


async def test_a_doubt_about_the_database_does_not_forget_who_is_stuck(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        await it.trigger("d", "r")
        a = await it.attempt("a")
        await it.advance(ROUND)
        await it.execute("UPDATE task_instance SET state = 'running' WHERE task_index = 1")
        await it.finish("b")
        assert it.scheduler.metrics.recoveries == 1

        await it.advance(ROUND)
        await it.advance(ROUND)

        assert it.executor.cancelled.count(a.key) == 3
        assert await it.states("r") == {"a": "failed", "b": "success"}


async def test_a_setting_of_no_retries_fails_the_first_time(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), task_queued_timeout=30.0, num_stuck_in_queued_retries=0) as it:
        await it.trigger("d", "r")
        await it.attempt("a")

        await it.advance(30.001)

        state, _, reason = await facts(it)
        assert state == "failed"
        assert str(reason).startswith(
            "not started within 30 s of being queued (scheduler.task_queued_timeout), 1 times"
        )


# -- without its DAG --------------------------------------------------------------------------


async def without_dag(it: Running, reason: str = "d.py cannot be imported: SyntaxError") -> None:
    attempt = await it.attempt("a")
    it.executor.report(attempt, Outcome.FAILED, reason=reason, dag_missing=True, started_at=it.clock.now())
    await it.settled()


async def test_a_task_whose_dag_cannot_be_loaded_is_called_again_three_times_and_then_fails(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", task("a", has_failure_callback=True))) as it:
        await it.trigger("d", "r")
        for number in (1, 2, 3):
            await without_dag(it)
            again = f"d.py cannot be imported: SyntaxError; tried again in 60 s, {number} of 3"
            assert await facts(it) == ("up_for_reschedule", 1, again)
            assert (await it.instance("a", "r"))["next_at"] == NEW_YEAR + timedelta(minutes=number)
            await it.advance(60)

        await without_dag(it)

        state, tries, reason = await facts(it)
        assert (state, tries) == ("failed", 1)
        assert reason == (
            "d.py cannot be imported: SyntaxError (tried 4 times, 60 s apart): "
            "fix it where the workers read it, then clear the task"
        )
        assert (await it.callback()).callback is not None
        await it.assert_consistent()


async def test_a_dag_that_comes_back_costs_the_task_nothing(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a", retries=1, retry_delay=1.0))) as it:
        await it.trigger("d", "r")
        for _ in range(2):
            await without_dag(it)
            await it.advance(60)

        it.executor.fail(await it.attempt("a"))  # its own retry is still there
        await it.advance(2)

        assert (await it.attempt("a")).key.try_number == 2
        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}
        assert not it.session.env.attempts.stuck_attempts._missing


async def test_after_that_the_retries_of_the_task_count_and_each_try_looks_anew(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("a", retries=1, retry_delay=1.0))
    async with running(dsn, clock, spec, missing_dag_retries=1, missing_dag_retry_delay=5.0) as it:
        await it.trigger("d", "r")
        states = []
        for seconds in (5, 2, 5, 0):
            await without_dag(it)
            states.append((await facts(it))[:2])
            await it.advance(seconds)

        assert states == [("up_for_reschedule", 1), ("up_for_retry", 1), ("up_for_reschedule", 2), ("failed", 2)]


async def test_without_retries_a_missing_dag_fails_at_once(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), missing_dag_retries=0) as it:
        await it.trigger("d", "r")
        await without_dag(it)

        remedy = "fix it where the workers read it, then clear the task"
        assert await facts(it) == ("failed", 1, f"d.py cannot be imported: SyntaxError: {remedy}")


async def test_a_finished_run_leaves_nothing_behind(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await without_dag(it)

        await it.ask("cancel_run", "d", run_id="r")

        assert not it.session.env.attempts.stuck_attempts._missing
