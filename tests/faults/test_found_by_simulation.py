"""What simulated fleets and crashes have brought to light, each on the real database."""

from __future__ import annotations

import asyncio

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.states import TaskState
from aiosched.db.server.engine import IDLE_IN_TRANSACTION, Database
from aiosched.db.statements import inbox
from aiosched.db.statements.ownership import LOCK_CLASS, read_fleet
from aiosched.scheduler.partitions.drift import DriftSweep
from tests.faults.injection import When, faults, once
from tests.scheduler.harness import dag, running


async def test_a_run_that_was_cancelled_and_cleared_while_no_scheduler_lived_runs_again(
    dsn: str, clock: FakeClock
) -> None:
    """The clear waits until the cancelled run is stored, and must not wait for a loop that waits for the clear."""
    async with running(dsn, clock, dag("d"), retention=True) as it:
        await it.trigger("d", "r")
    async with await Database.open(dsn, application_name="test") as db, db.acquire() as conn:
        for verb, args in (("cancel_run", {"run_id": "r"}), ("clear", {"run_ids": ["r"]})):
            await inbox.send_request(conn, verb=verb, dag_id="d", args=args, requested_by="test")

    async with running(dsn, clock, retention=True) as it:
        assert await it.fetch("SELECT verb FROM request WHERE state <> 'applied'") == []
        await it.finish_all()
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_an_attempt_that_has_begun_is_known_to_run_after_a_doubt_though_its_row_may_not_tell(
    dsn: str, clock: FakeClock
) -> None:
    """Starts are stored with the next commit: a clear must stop the attempt before the next one begins."""
    async with running(dsn, clock, dag("d"), retention=True) as it:
        await it.trigger("d", "r")
        attempt = await it.attempt("a")
        it.executor.start_running(attempt)
        doubted = it.session
        await it.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'aiosched notifications'"
        )
        await it.until(lambda: it.session is not doubted and it.session.locks.loaded.is_set(), "another session")
        (board,) = it.session.cache.boards.values()
        assert [instance.state for instance in board] == [TaskState.RUNNING]

        await it.ask("clear", "d", run_ids=["r"])

        assert it.executor.cancelled == [attempt.key]  # this ended it, and only then its next try was handed out
        assert [a.key.try_number for a in it.executor.submitted] == [1, 2]
        await it.finish_all()
        assert await it.runs("d") == {"r": "success"}


@pytest.mark.parametrize("waits", [False, True])
async def test_what_was_cancelled_in_a_commit_whose_answer_never_came_is_stopped_all_the_same(
    dsn: str, clock: FakeClock, waits: bool
) -> None:
    """An attempt, or the trigger of a task that waits."""
    with faults() as injected:
        async with running(dsn, clock, dag("d"), retention=True) as it:
            await it.trigger("d", "r")
            attempt = await it.attempt("a")
            if waits:
                it.executor.defer(attempt)
                attempt = await it.trigger_of("a")
            doubted = it.session
            injected.fail = once("COMMIT", "after")

            async with it.db.acquire() as conn:
                args = {"run_id": "r"}
                await inbox.send_request(conn, verb="cancel_run", dag_id="d", args=args, requested_by="test")

            await it.until(lambda: it.executor.cancelled, "the attempt to be stopped")
            await it.settled()
            assert it.session is not doubted
            assert it.executor.cancelled == [attempt.key]
            assert it.session.env.attempts.triggers == set()
            assert await it.runs("d") == {"r": "failed"}
            await it.assert_consistent()


async def test_pools_that_are_locked_later_are_locked_by_name_all_the_same(dsn: str, clock: FakeClock) -> None:
    """Else two schedulers wait for each other: news during the lock may touch a pool that comes before the others."""
    sent: list[str] = []

    def note(number: int, statement: str) -> When | None:
        sent.append(" ".join(statement.split()))
        return None

    with faults() as injected:
        async with running(dsn, clock, dag("d"), retention=True) as it:
            await it.execute("INSERT INTO pool (name, slots) VALUES ('small', 1)")
            injected.fail = note
            async with it.session.env.side_journal.batch(shared=True) as transaction:
                await transaction.check_pools(["small"])
                await transaction.lock_pools()
                await transaction.check_pools(["default_pool"])
                known = list(transaction.pools)
            injected.fail = lambda *_: None

    words = [statement.split()[0] for statement in sent if not statement.startswith("SET")]
    assert words[-6:] == ["BEGIN;", "SELECT", "ROLLBACK", "BEGIN;", "SELECT", "COMMIT"]
    assert sorted(known) == ["default_pool", "small"]


async def test_a_sweep_for_differences_finds_nothing_when_the_last_run_ends_while_it_waits(
    dsn: str, clock: FakeClock
) -> None:
    """It waits for the journal, which may just store that end."""
    async with running(dsn, clock, dag("d"), retention=True) as it:
        await it.trigger("d", "r")
        session = it.session
        async with session.env.journal.batch(shared=False):
            sweeping = asyncio.create_task(DriftSweep().step(session))
            await asyncio.sleep(0)
            board = session.cache.boards.copy()
            session.cache.boards.clear()

        await sweeping

        session.cache.boards.update(board)
        await it.finish_all()
        assert await it.runs("d") == {"r": "success"}


async def test_after_a_doubt_a_look_from_before_it_says_nothing_about_who_owns_what(dsn: str, clock: FakeClock) -> None:
    """What was under way at the doubt may have given partitions away."""
    async with running(dsn, clock, retention=True) as it, it.db.acquire() as conn:
        before = await read_fleet(conn)
        other = await conn.fetchval(
            "INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at)"
            " VALUES ('other', 'h', 1, '0', 'inline', 1, now() + interval '1 hour') RETURNING incarnation"
        )
        await conn.execute("SELECT pg_advisory_lock($1::int, $2::int)", LOCK_CLASS, other)
        await conn.execute("UPDATE partition_lease SET incarnation = $1 WHERE partition = 7", other)
        life = it.scheduler._incarnation
        assert life is not None
        known, doubted = life._on_session, it.session
        life._on_session = lambda session: (known(session), life.receive_view(before))[0]

        await it.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'aiosched notifications'"
        )
        await it.until(lambda: it.session is not doubted and it.session.locks.loaded.is_set(), "another session")

        assert 7 not in it.session.cache.partitions
        await conn.execute("SELECT pg_advisory_unlock_all()")


@pytest.mark.parametrize("own", [True, False])
async def test_a_process_that_was_stopped_in_a_transaction_does_not_keep_its_locks(db: Database, own: bool) -> None:
    """Peers wait for the row of a scheduler to take it over."""
    if own:
        conn = await db.connect()
        timeout = await conn.fetchval("SHOW idle_in_transaction_session_timeout")
        await conn.close()
    else:
        timeout = await db.fetchval("SHOW idle_in_transaction_session_timeout")

    assert timeout == IDLE_IN_TRANSACTION
