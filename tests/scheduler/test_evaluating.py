"""What follows from reports and from the clock: the semantics reference, sections 9.2 to 9.4, 21.1 and 22.2."""

from __future__ import annotations

from datetime import timedelta

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec
from tests.scheduler.harness import NEW_YEAR, chain, dag, running, task


async def test_a_linear_run_goes_from_task_to_task_to_its_success(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("linear", 3)) as it:
        await it.trigger("linear", "r")
        await it.finish("t0", "t1", "t2")

        assert it.executor.order() == ["t0", "t1", "t2"]
        assert await it.states("r") == {"t0": "success", "t1": "success", "t2": "success"}
        assert await it.runs("linear") == {"r": "success"}
        await it.assert_consistent()


async def test_the_success_of_a_task_and_the_claim_of_the_next_are_one_commit(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("linear", 3)) as it:
        await it.trigger("linear", "r")
        before = it.scheduler.metrics.journal_commit.count

        await it.finish("t0")

        assert it.scheduler.metrics.journal_commit.count == before + 1
        assert await it.states("r") == {"t0": "success", "t1": "queued", "t2": None}


async def test_instances_and_the_run_keep_the_instants_of_the_injected_clock(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await it.advance(5)
        it.executor.start_running(await it.attempt("a"))
        await it.advance(7)
        await it.finish("a")

        a = await it.instance("a", "r")
        assert (a["scheduled_at"], a["queued_at"]) == (NEW_YEAR, NEW_YEAR)
        assert (a["start_date"], a["end_date"]) == (NEW_YEAR + timedelta(seconds=5), NEW_YEAR + timedelta(seconds=12))
        assert a["queued_by"] == it.incarnation
        (run,) = await it.fetch("SELECT queued_at, start_date, end_date, created_by FROM dag_run")
        assert tuple(run) == (NEW_YEAR, NEW_YEAR, NEW_YEAR + timedelta(seconds=12), it.incarnation)


async def test_a_start_is_stored_even_when_nothing_else_happens(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        it.executor.start_running(await it.attempt("a"))

        commits = it.scheduler.metrics.journal_commit.count
        await it.until(lambda: it.scheduler.metrics.journal_commit.count > commits, "the start to be stored")

        assert await it.states("r") == {"a": "running"}
        await it.assert_consistent()


async def test_a_failure_settles_what_depends_on_it_and_fails_the_run(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("linear", 3)) as it:
        await it.trigger("linear", "r")
        it.executor.fail(await it.attempt("t0"), "no such table")
        await it.settled()

        assert await it.states("r") == {"t0": "failed", "t1": "upstream_failed", "t2": "upstream_failed"}
        assert (await it.instance("t0", "r"))["reason"] == "no such table"
        assert await it.fetch("SELECT state, reason FROM dag_run") == [("failed", "task_failure")]
        (finished,) = await it.fetch("SELECT try_number, state, reason FROM task_try")
        assert tuple(finished) == (1, "failed", "no such table")
        await it.assert_consistent()


async def test_a_run_without_tasks_succeeds_at_once(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, DagSpec(dag_id="d")) as it:
        await it.trigger("d", "r", logical_date=NEW_YEAR)

        assert await it.runs("d") == {"r": "success"}


# -- retries ----------------------------------------------------------------------------------


async def test_a_retry_starts_strictly_later_than_its_delay(dsn: str, clock: FakeClock) -> None:
    """Section 22.1."""
    async with running(dsn, clock, dag("d", task("a", retries=1, retry_delay=60.0))) as it:
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("a"))
        await it.settled()
        assert await it.states("r") == {"a": "up_for_retry"}
        assert (await it.instance("a", "r"))["next_at"] == NEW_YEAR + timedelta(seconds=60)

        await it.advance(60)
        assert it.executor.find("a") is None
        await it.advance(0.000001)
        second = await it.attempt("a")

        assert second.key.try_number == 2
        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}
        assert await it.fetch("SELECT try_number, state FROM task_try") == [(1, "failed")]
        await it.assert_consistent()


async def test_a_retry_that_waits_survives_a_restart(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a", retries=1, retry_delay=60.0))) as it:
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("a"))
        await it.settled()

    async with running(dsn, clock) as it:
        assert it.executor.submitted == []
        await it.advance(61)
        await it.finish("a")

        assert await it.runs("d") == {"r": "success"}


async def test_a_new_try_begins_without_the_values_of_the_one_before(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a", retries=1, retry_delay=1.0))) as it:
        await it.trigger("d", "r")
        first = await it.attempt("a")
        await it.execute(
            "INSERT INTO xcom (run_id, task_index, map_index, key, value) VALUES ($1, 0, -1, 'old', '1')", first.key.run
        )
        it.executor.fail(first)
        await it.settled()
        await it.advance(2)
        it.executor.succeed(await it.attempt("a"), value=[1, 2])
        await it.settled()

        assert await it.fetch("SELECT key, value FROM xcom") == [("return_value", "[1,2]")]


# -- reschedule -------------------------------------------------------------------------------


async def test_a_rescheduled_task_gives_its_slot_back_and_is_called_again_with_the_same_try(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", task("sensor"))) as it:
        await it.trigger("d", "r")
        it.executor.reschedule(await it.attempt("sensor"), NEW_YEAR + timedelta(seconds=30))
        await it.settled()
        assert await it.states("r") == {"sensor": "up_for_reschedule"}
        assert await it.fetch("SELECT used FROM pool WHERE name = 'default_pool'") == [(0,)]

        await it.advance(29)
        assert it.executor.find("sensor") is None
        await it.advance(1)
        again = await it.attempt("sensor")

        assert again.key.try_number == 1
        assert again.first_started == NEW_YEAR
        await it.finish("sensor")
        assert await it.runs("d") == {"r": "success"}


# -- dagrun_timeout ---------------------------------------------------------------------------


async def test_a_run_that_exceeds_its_timeout_fails_and_its_tasks_are_stopped(dsn: str, clock: FakeClock) -> None:
    """Section 21.1."""
    spec = chain("slow", 2, dagrun_timeout=60.0)
    async with running(dsn, clock, spec) as it:
        await it.trigger("slow", "r")
        attempt = await it.attempt("t0")
        await it.advance(60)
        assert await it.runs("slow") == {"r": "running"}  # strictly later

        await it.advance(0.001)

        assert await it.fetch("SELECT state, reason FROM dag_run") == [("failed", "timed_out")]
        assert await it.states("r") == {"t0": "skipped", "t1": "skipped"}
        assert it.executor.cancelled == [attempt.key]
        await it.assert_consistent()


async def test_a_timeout_counts_from_the_start_of_the_run_over_restarts(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("slow", 2, dagrun_timeout=60.0)) as it:
        await it.trigger("slow", "r")
    clock.advance(61)

    async with running(dsn, clock) as it:
        assert await it.fetch("SELECT state, reason FROM dag_run") == [("failed", "timed_out")]


# -- the end of runs --------------------------------------------------------------------------


async def test_listeners_hear_of_a_run_after_the_commit_that_made_it_so(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await it.advance(3)
        await it.finish("a")

        assert [(e.kind, e.state, e.seconds, e.done, e.total) for e in it.events] == [
            ("run_started", "running", None, 0, 1),
            ("run_finished", "success", 3.0, 1, 1),
        ]


async def test_whoever_waits_for_a_run_is_told_its_end(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        handle = await it.trigger("d", "r")
        assert await handle.state() == "running"
        it.executor.succeed(await it.attempt("a"))

        assert await handle.wait(10) == "success"


async def test_the_third_loss_in_a_row_fails_the_task_and_says_why(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a", retries=9))) as it:
        await it.trigger("d", "r")
        for _ in range(3):
            it.executor.lose(await it.attempt("a"), "killed by signal 9")
            await it.settled()

        assert await it.states("r") == {"a": "failed"}
        assert (await it.instance("a", "r"))["reason"] == "lost 3 times in a row: killed by signal 9"
        assert await it.fetch("SELECT try_number, state FROM task_try ORDER BY 1") == [
            (1, "lost"),
            (2, "lost"),
            (3, "failed"),
        ]
        await it.assert_consistent()
