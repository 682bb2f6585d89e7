"""Durable deferral. Source: the semantics reference, sections 25.1 to 25.5; limits from 18.1 and 18.3."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.messages import Attempt, Outcome
from tests.scheduler.harness import NEW_YEAR, Running, ScriptedExecutor, dag, running, task


async def deferred(it: Running, task_id: str = "a", run_id: str = "r", **options: Any) -> Attempt:
    """Let the running attempt of a task defer; returns its trigger, handed out."""
    it.executor.defer(await it.attempt(task_id, run_id), **options)
    await it.settled()
    return await it.trigger_of(task_id, run_id)


async def deferrals(it: Running) -> int:
    return int((await it.fetch("SELECT count(*) FROM deferred_trigger"))[0][0])


async def test_a_task_defers_and_goes_on_with_the_event_in_the_same_try(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        first = await it.attempt("a")
        assert first.resume is None
        await it.advance(5)
        trigger = await deferred(it, value=1)
        assert await it.states("r") == {"a": "deferred"}
        assert (trigger.trigger.classpath, trigger.trigger.kwargs) == ("triggers.Wait", '{"n": 1}')  # type: ignore[union-attr]

        await it.advance(7)
        it.executor.fire(trigger, {"x": 2})
        resumed = await it.attempt("a")

        assert resumed.key == first.key
        assert resumed.resume is not None
        assert (resumed.resume.next_method, resumed.resume.next_kwargs) == ("go_on", '{"a": 1}')
        assert resumed.resume.event == '{"x":2}'
        assert resumed.first_started == NEW_YEAR + timedelta(seconds=5)
        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}
        a = await it.instance("a", "r")
        assert (a["try_number"], a["start_date"]) == (1, NEW_YEAR + timedelta(seconds=5))
        assert await it.fetch("SELECT value FROM xcom") == [("1",)]
        assert await deferrals(it) == 0
        await it.assert_consistent()


async def test_a_deferral_with_its_trigger_is_one_commit(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        before = it.scheduler.metrics.journal_commit.count

        await deferred(it)

        assert it.scheduler.metrics.journal_commit.count == before + 1
        assert await it.fetch("SELECT classpath, event, error FROM deferred_trigger") == [("triggers.Wait", None, None)]
        await it.assert_consistent()


async def test_a_task_may_defer_many_times_in_one_try(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        for number in range(3):
            it.executor.fire(await deferred(it), number)
            assert (await it.attempt("a")).resume.event == str(number)  # type: ignore[union-attr]
        await it.finish("a")

        assert [attempt.key.try_number for attempt in it.executor.submitted] == [1, 1, 1, 1]
        assert await it.fetch("SELECT try_number, until > since FROM deferral") == [(1, True)] * 3
        await it.assert_consistent()


async def test_when_a_try_was_deferred_is_kept_also_where_its_end_came_first(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await deferred(it)
        await it.ask("mark_tasks", "d", run_ids=["r"], task_ids=["a"], state="success")
        await it.settled()

        assert await deferrals(it) == 0
        assert await it.fetch("SELECT try_number, until FROM deferral") == [(1, None)]
        await it.assert_consistent()


# -- what ends a deferral ---------------------------------------------------------------------


async def test_only_the_first_event_counts(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        trigger = await deferred(it)
        it.executor.fire(trigger, 1)
        it.executor.triggers[trigger.key] = trigger  # it runs a second time, elsewhere
        it.session.env.attempts.triggers.add(trigger.key)
        it.executor.fire(trigger, 2)
        await it.settled()

        assert (await it.attempt("a")).resume.event == "1"  # type: ignore[union-attr]
        assert it.scheduler.metrics.stale_reports == 1
        await it.assert_consistent()


@pytest.mark.parametrize("reason", ["RuntimeError: broken", None])
async def test_a_trigger_that_fails_lets_its_task_fail_in_a_worker(
    dsn: str, clock: FakeClock, reason: str | None
) -> None:
    async with running(dsn, clock, dag("d", task("a", retries=1))) as it:
        await it.trigger("d", "r")
        it.executor.report(await deferred(it), Outcome.FAILED, reason=reason)
        resumed = await it.attempt("a")

        assert resumed.resume is not None
        assert resumed.resume.error == (reason or "the trigger ended without an event")
        assert not resumed.resume.timed_out
        it.executor.fail(resumed)
        await it.settled()
        assert await it.states("r") == {"a": "up_for_retry"}
        await it.advance(301)
        assert (await it.attempt("a")).resume is None, "the next try begins at the beginning"
        await it.assert_consistent()


async def test_a_deferral_times_out_strictly_after_its_timeout(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        trigger = await deferred(it, timeout=60.0)
        await it.advance(60)
        assert await it.states("r") == {"a": "deferred"}

        await it.advance(0.001)
        resumed = await it.attempt("a")

        assert resumed.resume is not None
        assert resumed.resume.timed_out
        assert resumed.resume.error == "Trigger timeout: no event within 60 s"
        assert it.executor.cancelled == [trigger.key]
        assert not it.executor.triggers
        await it.assert_consistent()


@pytest.mark.parametrize("timeout", [1e300, float("inf"), float("nan")])
async def test_a_timeout_beyond_the_calendar_is_none(dsn: str, clock: FakeClock, timeout: float) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")

        it.executor.fire(await deferred(it, timeout=timeout))

        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}


async def test_a_trigger_that_dies_with_its_process_runs_again_and_costs_nothing(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        it.executor.lose(await deferred(it))
        it.executor.lose(await it.trigger_of("a"))
        it.executor.fire(await it.trigger_of("a"), "at last")

        assert (await it.attempt("a")).resume.event == '"at last"'  # type: ignore[union-attr]
        assert it.scheduler.metrics.lost_attempts == 0
        assert (await it.instance("a", "r"))["losses"] == 0


async def test_a_trigger_that_dies_again_and_again_fails_its_task(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        it.executor.lose(await deferred(it), "killed by SIGSEGV")
        it.executor.lose(await it.trigger_of("a"), "killed by SIGSEGV")
        it.executor.lose(await it.trigger_of("a"), "killed by SIGSEGV")

        resumed = await it.attempt("a")

        assert resumed.resume is not None
        assert resumed.resume.error == "the trigger was lost 3 times in a row: killed by SIGSEGV"


async def test_the_end_of_the_run_stops_its_triggers(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", dagrun_timeout=100.0)) as it:
        await it.trigger("d", "timed_out")
        late = await deferred(it, run_id="timed_out")
        await it.advance(101)
        await it.trigger("d", "cancelled")
        unwanted = await deferred(it, run_id="cancelled")
        await it.ask("cancel_run", "d", run_id="cancelled")

        assert it.executor.cancelled == [late.key, unwanted.key]
        assert await it.states("timed_out") == {"a": "skipped"}
        assert await it.states("cancelled") == {"a": "failed"}
        assert await deferrals(it) == 0
        await it.assert_consistent()


# -- limits -----------------------------------------------------------------------------------


async def test_a_pool_that_includes_deferred_tasks_counts_them(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("a", pool="etl", pool_slots=2), task("b", pool="etl"))
    async with running(dsn, clock, spec) as it:
        await it.execute("INSERT INTO pool (name, slots, include_deferred) VALUES ('etl', 2, true)")
        await it.trigger("d", "r")

        trigger = await deferred(it)

        assert it.executor.find("b") is None
        assert await it.fetch("SELECT used FROM pool WHERE name = 'etl'") == [(2,)]
        await it.assert_consistent()
        it.executor.fire(trigger)
        await it.finish_all()
        assert await it.fetch("SELECT used FROM pool WHERE name = 'etl'") == [(0,)]
        await it.assert_consistent()


async def test_a_pool_that_changes_its_mind_does_so_for_tasks_that_defer_from_then_on(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", task("a", pool="etl"))) as it:
        await it.execute("INSERT INTO pool (name, slots, include_deferred) VALUES ('etl', 9, true)")
        await it.trigger("d", "one")
        first = await deferred(it, run_id="one")
        await it.execute("UPDATE pool SET include_deferred = false WHERE name = 'etl'")
        it.session.env.journal.forget_pools()
        await it.trigger("d", "two")
        second = await deferred(it, run_id="two")

        assert await it.fetch("SELECT used FROM pool WHERE name = 'etl'") == [(1,)]
        await it.assert_consistent()
        for trigger in (first, second):
            it.executor.fire(trigger)
        await it.finish_all()
        assert await it.fetch("SELECT used FROM pool WHERE name = 'etl'") == [(0,)]


# -- restarts ---------------------------------------------------------------------------------


async def test_a_stop_is_no_loss_of_a_trigger(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        it.executor.lose(await deferred(it))
        it.executor.lose(await it.trigger_of("a"))
        await it.trigger_of("a")

    async with running(dsn, clock) as again:
        assert (await again.instance("a", "r"))["state"] == "deferred"
        again.executor.fire(await again.trigger_of("a"))
        await again.finish("a")
        assert await again.runs("d") == {"r": "success"}


async def test_after_a_restart_triggers_run_again_and_timeouts_still_count(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        await it.trigger("d", "r")
        await deferred(it, "a", timeout=60.0)
        await deferred(it, "b")

    async with running(dsn, clock) as again:
        await again.assert_consistent()
        assert sorted(t.task_id for t in again.executor.triggers.values()) == ["a", "b"]
        assert (await again.trigger_of("b")).trigger.kwargs == '{"n": 1}'  # type: ignore[union-attr]
        assert again.scheduler.metrics.lost_attempts == 0
        await again.advance(61)
        assert (await again.attempt("a")).resume.timed_out  # type: ignore[union-attr]
        again.executor.fire(await again.trigger_of("b"), 7)
        assert (await again.attempt("b")).resume.event == "7"  # type: ignore[union-attr]
        await again.finish("a", "b")
        assert await again.runs("d") == {"r": "success"}
        await again.assert_consistent()


async def test_a_restart_between_the_event_and_the_slot_keeps_the_event(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"), max_active_tasks=1)) as it:
        await it.trigger("d", "r")
        trigger = await deferred(it)
        await it.attempt("b")
        it.executor.fire(trigger, "kept")
        await it.settled()
        assert await it.states("r") == {"a": "scheduled", "b": "queued"}

    async with running(dsn, clock) as again:
        assert not again.executor.triggers
        while (attempt := again.executor.find("a")) is None:
            await again.finish("b")
        assert attempt.resume is not None
        assert (attempt.key.try_number, attempt.resume.event) == (1, '"kept"')
        await again.finish_all()
        assert await again.runs("d") == {"r": "success"}
        await again.assert_consistent()


async def test_a_stop_leaves_deferred_tasks_as_they_are(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await deferred(it)
        await it.scheduler.drain(5.0)

    async with running(dsn, clock) as again:
        a = await again.instance("a", "r")
        assert (a["state"], a["losses"], a["try_number"]) == ("deferred", 0, 1)
        assert await again.fetch("SELECT event, error FROM deferred_trigger") == [(None, None)]


async def test_an_event_that_was_not_stored_is_applied_again_after_a_failed_commit(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        trigger = await deferred(it)
        await it.execute("UPDATE task_instance SET reason = 'somebody was here', try_number = 2")
        it.executor.fire(trigger, "again")
        await it.until(lambda: it.scheduler.metrics.recoveries == 1, "the commit to fail")
        await it.settled()
        # the row is of another try now, so the event is nobody's, and the trigger of that try runs
        assert await it.states("r") == {"a": "deferred"}
        assert [key.try_number for key in it.executor.triggers] == [-2]
        await it.assert_consistent()


async def test_a_lost_connection_between_event_and_commit_neither_loses_nor_doubles_it(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        trigger = await deferred(it)
        await it.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'aiosched journal'"
            " AND datname = current_database()"
        )
        it.executor.fire(trigger, "once")

        resumed = await it.attempt("a")

        assert resumed.resume is not None
        assert resumed.resume.event == '"once"'
        assert len(it.executor.without_slot) == 1
        await it.finish("a")
        assert len(it.executor.submitted) == 2
        await it.assert_consistent()


async def test_a_lost_attempt_that_had_gone_on_begins_at_the_beginning(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        it.executor.fire(await deferred(it))
        it.executor.lose(await it.attempt("a"))
        await it.settled()

        again = await it.attempt("a")

        assert (again.key.try_number, again.resume) == (2, None)
        assert await deferrals(it) == 0
        await it.assert_consistent()


async def test_a_deferral_whose_row_vanished_fails_its_task_and_holds_nothing_up(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await deferred(it)
        await it.execute("DELETE FROM deferred_trigger")

    async with running(dsn, clock) as again:
        resumed = await again.attempt("a")
        assert resumed.resume is not None
        assert resumed.resume.error == "what it waited for is not stored"
        await again.assert_consistent()


async def test_thousands_of_deferred_tasks_cost_a_few_statements(dsn: str, clock: FakeClock) -> None:
    many = 1_000
    spec = dag("d", *(task(f"t{i}") for i in range(many)), max_active_tasks=many)
    executor = ScriptedExecutor(clock)
    executor.script = lambda it, attempt: it.defer(attempt) if attempt.resume is None else it.succeed(attempt)
    async with running(dsn, clock, spec, executor=executor) as it:
        await it.execute("UPDATE pool SET slots = -1")
        it.session.env.journal.forget_pools()
        await it.trigger("d", "r")
        await it.until(lambda: len(executor.triggers) == many, "all to wait")
        await it.settled()
        before = it.scheduler.metrics.journal_commit.count
        await it.advance(600)
        assert it.scheduler.metrics.journal_commit.count == before, "waiting costs nothing"

        for trigger in list(executor.triggers.values()):
            executor.fire(trigger)
        await it.settled()

        assert await it.runs("d") == {"r": "success"}
        assert it.scheduler.metrics.journal_commit.count - before < 50
        await it.assert_consistent()
