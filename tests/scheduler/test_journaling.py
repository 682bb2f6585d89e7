"""Commit, then act; and what happens when a commit cannot be had.

Source: docs/architecture.md, "The journal" and "Ownership and fencing".

Guarantees 1, 2, 4 and 5 of the semantics reference, section 16.2.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.ids import PARTITIONS
from aiosched.core.values.messages import Attempt, AttemptKey, Outcome
from aiosched.db.server.engine import Database
from aiosched.db.statements.ownership import take_over
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, Running, ScriptedExecutor, chain, dag, running, succeeding, task


def read_elsewhere(dsn: str, query: str, *args: Any) -> list[Any]:
    """What another session sees, from inside a callback of the scheduler's loop."""
    found: list[Any] = []

    async def read() -> None:
        conn = await asyncpg.connect(dsn)
        try:
            found.extend(await conn.fetch(query, *args))
        finally:
            await conn.close()

    thread = threading.Thread(target=lambda: asyncio.run(read()))
    thread.start()
    thread.join()
    return found


def has_come_back(it: Running, old: int) -> bool:
    """There is a new incarnation, with its partitions: until then it has nothing to do."""
    return it.incarnation != old and len(it.session.cache.partitions) == PARTITIONS


async def test_an_attempt_is_handed_out_only_after_its_claim_is_in_the_database(dsn: str, clock: FakeClock) -> None:
    executor = ScriptedExecutor(clock, script=succeeding)
    seen: list[tuple[Any, ...]] = []

    def look(attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            key = attempt.key
            rows = read_elsewhere(
                dsn,
                "SELECT state, try_number FROM task_instance WHERE run_id = $1 AND task_index = $2",
                key.run,
                key.task_index,
            )
            seen.extend(map(tuple, rows))

    executor.on_submit = look
    async with running(dsn, clock, chain("d", 3), executor=executor) as it:
        await it.trigger("d", "r")
        await it.finish_all()

    assert seen == [("queued", 1)] * 3


async def test_listeners_hear_of_an_end_that_others_can_see(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        seen: list[str] = []

        def listen(event: Any) -> None:
            seen.extend(row[0] for row in read_elsewhere(dsn, "SELECT state FROM dag_run"))

        it.session.env.observers.listener = listen
        await it.trigger("d", "r")
        await it.finish("a")

        assert seen == ["running", "success"]


# -- rows that are not as expected ------------------------------------------------------------


async def test_a_row_that_somebody_changed_makes_the_scheduler_read_again(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        await it.execute("UPDATE task_instance SET state = 'running' WHERE task_index = 0")

        await it.finish("t0", "t1")

        assert it.scheduler.metrics.recoveries == 1
        assert await it.runs("d") == {"r": "success"}
        assert it.executor.order() == ["t0", "t1"]
        await it.assert_consistent()


async def test_what_somebody_decided_in_the_rows_is_accepted(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        await it.execute("UPDATE task_instance SET state = 'success' WHERE task_index = 0")
        await it.execute("UPDATE pool SET used = 0")

        await it.finish("t0", "t1")

        assert await it.states("r") == {"t0": "success", "t1": "success"}
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_reports_that_were_not_stored_are_applied_again(dsn: str, clock: FakeClock) -> None:
    """Source: the semantics reference, sections 19.3 and 34 (decision 11)."""
    async with running(dsn, clock, dag("d", *(task(f"t{i}") for i in range(6)))) as it:
        await it.trigger("d", "r")
        await it.execute("UPDATE task_instance SET try_number = 1, state = 'running' WHERE task_index = 3")
        for attempt in list(it.executor.running.values()):
            it.executor.succeed(attempt, value=attempt.task_id)
        await it.settled()

        assert it.scheduler.metrics.recoveries == 1
        assert await it.runs("d") == {"r": "success"}
        assert len(it.executor.submitted) == 6
        assert len(await it.fetch("SELECT 1 FROM xcom")) == 6
        await it.assert_consistent()


async def test_failures_that_were_not_stored_are_applied_again_and_count_once(dsn: str, clock: FakeClock) -> None:
    """Source: the semantics reference, sections 19.3 and 34 (decision 11)."""
    async with running(dsn, clock, dag("d", task("a", retries=1, retry_delay=1.0))) as it:
        await it.trigger("d", "r")
        await it.execute("UPDATE task_instance SET state = 'running'")
        it.executor.fail(await it.attempt("a"))
        await it.settled()
        assert await it.states("r") == {"a": "up_for_retry"}
        await it.advance(2)
        await it.finish("a")

        assert await it.runs("d") == {"r": "success"}
        assert [a.key.try_number for a in it.executor.submitted] == [1, 2]


async def test_attempts_that_run_meanwhile_go_on_when_everything_is_read_again(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"), task("c", after=("a", "b")))) as it:
        await it.trigger("d", "r")
        it.executor.start_running(await it.attempt("b"))
        await it.execute("UPDATE task_instance SET reason = 'x', state = 'running' WHERE task_index = 0")
        await it.finish("a", "b", "c")

        assert it.executor.order()[2:] == ["c"]
        assert it.scheduler.metrics.recoveries == 1
        assert it.scheduler.metrics.lost_attempts == 0
        await it.assert_consistent()


async def test_an_attempt_whose_end_was_decided_in_the_rows_is_stopped_when_everything_is_read_again(
    dsn: str, clock: FakeClock
) -> None:
    """So it is after a commit that was not confirmed and had ended it."""
    async with running(dsn, clock, dag("d", task("a"), task("b"), task("c"))) as it:
        await it.trigger("d", "r")
        ended = await it.attempt("a")
        await it.execute("UPDATE task_instance SET state = 'failed' WHERE task_index = 0")
        await it.execute("UPDATE pool SET used = used - 1")
        await it.execute("UPDATE task_instance SET state = 'running' WHERE task_index = 1")

        await it.finish("b")

        assert it.scheduler.metrics.recoveries == 1
        assert it.executor.cancelled == [ended.key]
        await it.finish("c")
        assert await it.states("r") == {"a": "failed", "b": "success", "c": "success"}


# -- connections that are cut -----------------------------------------------------------------


async def cut(db: Database, who: str) -> int:
    """Cut the scheduler's connections with this application name; how many there were."""
    rows = await db.fetch(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = $1",
        who,
    )
    return len(rows)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("who", ["aiosched journal", "aiosched notifications", "aiosched"])
async def test_a_connection_that_is_cut_at_rest_is_made_again(dsn: str, clock: FakeClock, who: str) -> None:
    async with running(dsn, clock, chain("d", 3)) as it:
        await it.trigger("d", "r")
        await it.finish("t0")

        assert await cut(it.db, who) >= 1
        await it.finish("t1", "t2")
        await it.trigger("d", "s")
        await it.finish_all()

        assert await it.runs("d") == {"r": "success", "s": "success"}
        assert it.executor.order() == ["t0", "t1", "t2"] * 2
        await it.assert_consistent()


@pytest.mark.slow  # other tests cut one connection
async def test_connections_that_are_cut_again_and_again_under_load_lose_nothing(dsn: str, clock: FakeClock) -> None:
    specs = [chain(f"d{i}", 6, max_active_runs=50) for i in range(5)]
    async with running(dsn, clock, *specs, executor=ScriptedExecutor(clock, script=succeeding)) as it:
        for spec in specs:
            for number in range(6):
                await it.scheduler.trigger(spec.dag_id, run_id=f"r{number}")
            await cut(it.db, "aiosched journal")
        await it.settled()
        await it.scheduler.wait_idle()

        assert await it.fetch("SELECT state, count(*) FROM dag_run GROUP BY 1") == [("success", 30)]
        assert len(it.executor.submitted) == len({a.key for a in it.executor.submitted}) == 180
        await it.assert_consistent()


async def test_the_lease_survives_a_cut_connection(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        before = it.incarnation
        assert await cut(it.db, "aiosched lease") == 1
        it.scheduler.look_at_fleet()

        async def locked() -> bool:
            return bool(await it.fetch("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = $1", before))

        async with asyncio.timeout(PATIENCE):
            while not await locked():
                await it.settled()
        await it.finish("t0", "t1")

        assert it.incarnation == before
        assert await it.runs("d") == {"r": "success"}


# -- fenced out -------------------------------------------------------------------------------


async def take_over_from(db: Database, incarnation: int) -> None:
    """Take a scheduler over as a peer would that believes it to be dead."""
    async with db.transaction() as conn:
        expire = "UPDATE scheduler SET lease_expires_at = now() - interval '1 second' WHERE incarnation = $1"
        await conn.execute(expire, incarnation)
        assert await take_over(conn, incarnation, process_gone=False)


async def test_a_scheduler_that_was_taken_over_stores_nothing_more_and_begins_anew(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        old, attempt = it.incarnation, await it.attempt("t0")
        await take_over_from(it.db, old)

        it.executor.succeed(attempt)  # nobody may store this
        await it.until(lambda: it.scheduler.session and has_come_back(it, old), "a new incarnation")
        await it.settled()

        again = await it.attempt("t0")
        assert again.key == attempt.key._replace(try_number=2)
        assert await it.fetch("SELECT state, queued_by FROM task_try") == [("lost", old)]
        await it.finish("t0", "t1")
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_a_scheduler_that_was_taken_over_ends_its_attempts(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a", retries=0))) as it:
        await it.trigger("d", "r")
        old, attempt = it.incarnation, await it.attempt("a")
        await take_over_from(it.db, old)

        await it.until(lambda: attempt.key in it.executor.cancelled, "the end of the attempt")
        await it.until(lambda: has_come_back(it, old), "a new incarnation")
        await it.finish("a")

        assert await it.runs("d") == {"r": "success"}


async def test_a_late_report_of_an_abandoned_attempt_is_dropped(dsn: str, clock: FakeClock) -> None:
    class Slow(ScriptedExecutor):
        async def cancel(self, attempt: AttemptKey, grace: float) -> None:
            self.cancelled.append(attempt)

    async with running(dsn, clock, dag("d"), executor=Slow(clock)) as it:
        await it.trigger("d", "r")
        old, attempt = it.incarnation, await it.attempt("a")
        await take_over_from(it.db, old)
        await it.until(lambda: has_come_back(it, old), "a new incarnation")
        it.executor.report(attempt, Outcome.FAILED, reason="was stopped on request")
        await it.settled()

        again = await it.attempt("a")
        assert again.key.try_number == 2
        assert await it.states("r") == {"a": "queued"}


async def test_claims_stop_when_the_lease_cannot_be_trusted_any_more(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        old, lease = it.incarnation, it.scheduler._incarnation._lease  # type: ignore[union-attr]
        looks = threading.Event()  # else its thread may notice, and end the incarnation, before the claim is stored
        lease._loop.call_soon_threadsafe(looks.wait, PATIENCE)  # type: ignore[union-attr]
        lease._trusted_until = 1.0  # long past

        it.executor.succeed(await it.attempt("t0"))
        async with asyncio.timeout(PATIENCE):
            while await it.states("r") != {"t0": "success", "t1": "queued"}:
                it.still_alive()
        assert it.executor.order() == ["t0"]
        looks.set()
        await it.until(lambda: has_come_back(it, old), "a new incarnation")
        await it.settled()
        await it.finish("t1")

        assert await it.runs("d") == {"r": "success"}
        claimed = [a for a in it.executor.submitted if a.task_id == "t1"]
        assert [a.key.try_number for a in claimed] == [2]  # the first claim was stored and never handed out
        await it.assert_consistent()


# -- the cost of it ---------------------------------------------------------------------------


async def test_a_hundred_linear_runs_of_ten_tasks_cost_at_most_three_tenths_of_a_statement_a_task(
    dsn: str, clock: FakeClock
) -> None:
    spec = chain(
        "d",
        10,
        schedule=timedelta(hours=1),
        start_date=NEW_YEAR,
        catchup=True,
        max_active_runs=100,
        max_active_tasks=1000,
    )
    executor = ScriptedExecutor(clock, script=succeeding)
    async with running(dsn, clock, spec, executor=executor, count_statements=True) as it:
        statements = it.scheduler.db.statements
        assert statements is not None
        before = statements.total
        await it.advance(100 * 3600)
        await it.scheduler.wait_idle()

        assert await it.fetch("SELECT state, count(*) FROM dag_run GROUP BY 1") == [("success", 100)]
        assert len(executor.submitted) == 1000
        assert (statements.total - before) / 1000 <= 0.3
