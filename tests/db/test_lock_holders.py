"""Who holds a lock that a session of aiosched waits for."""

from __future__ import annotations

from aiosched.db.queries.lock_holders import LockHolder, list_lock_holders
from aiosched.db.server.engine import Database
from tests.db.locks import holding, waiting


async def test_the_holder_of_a_table_is_named_with_what_waits_for_it(db: Database) -> None:
    async with (
        holding(db.dsn, "LOCK TABLE task_instance IN ACCESS EXCLUSIVE MODE") as held,
        waiting(db.dsn, "aiosched journal", "SELECT FROM task_instance"),
        db.acquire() as conn,
    ):
        (holder,) = await list_lock_holders(conn, seconds=0)

        assert holder.open_seconds is not None
        assert holder.waited_seconds is not None
        assert holder.open_seconds >= holder.waited_seconds >= 0
        assert (holder.pid, holder.program, holder.username, holder.state) == (
            held.get_server_pid(),
            "psql",
            "postgres",
            "idle in transaction",
        )
        assert (holder.relation, holder.waiting) == ("task_instance", "aiosched journal")
        assert await list_lock_holders(conn, seconds=3600) == []


async def test_the_holder_of_a_row_is_named_with_its_table(db: Database) -> None:
    change = "UPDATE pool SET slots = 1"
    async with (
        holding(db.dsn, change) as held,
        waiting(db.dsn, "aiosched", change),
        db.acquire() as conn,
    ):
        (holder,) = await list_lock_holders(conn, seconds=0)

    assert (holder.pid, holder.relation) == (held.get_server_pid(), "pool")


async def test_a_session_of_aiosched_that_waits_itself_is_no_holder(db: Database) -> None:
    async with (
        holding(db.dsn, "LOCK TABLE pool IN SHARE MODE") as held,
        waiting(db.dsn, "aiosched journal", "TRUNCATE pool CASCADE"),
        waiting(db.dsn, "aiosched lease", "SELECT FROM pool", 2),
        db.acquire() as conn,
    ):
        (holder,) = await list_lock_holders(conn, seconds=0)

    assert (holder.pid, holder.waiting) == (held.get_server_pid(), "aiosched journal")


async def test_what_only_others_wait_for_is_none_of_our_business(db: Database) -> None:
    async with (
        holding(db.dsn, "LOCK TABLE pool IN SHARE MODE"),
        waiting(db.dsn, "psql", "UPDATE pool SET slots = 1"),
        db.acquire() as conn,
    ):
        assert await list_lock_holders(conn, seconds=0) == []


async def test_who_has_locked_a_table_is_named_although_nobody_waits(db: Database) -> None:
    async with holding(db.dsn, "LOCK TABLE variable IN ACCESS EXCLUSIVE MODE") as held, db.acquire() as conn:
        (holder,) = await list_lock_holders(conn, seconds=0)

        assert (holder.pid, holder.relation, holder.waiting) == (held.get_server_pid(), "variable", None)
        assert holder.waited_seconds is None
        assert str(holder).endswith(" has locked variable")
        assert await list_lock_holders(conn, seconds=3600) == []


async def test_a_locked_table_of_somebody_else_is_none_of_our_business_either(db: Database) -> None:
    async with holding(db.dsn, "CREATE TABLE theirs (x int)"), db.acquire() as conn:
        assert await list_lock_holders(conn, seconds=0) == []


def test_a_holder_in_words() -> None:
    seen = LockHolder(47, "psql", "ann", "idle in transaction", 40.0, "dag", "aiosched journal", 35.0)
    hardly_seen = LockHolder(48, "", "bob", None, None, None, "aiosched journal", 35.0)

    assert str(seen) == (
        "session 47 (psql, user ann, idle in transaction, transaction open for 40.0 s) "
        "keeps aiosched journal waiting for a lock on dag, for 35.0 s now"
    )
    assert seen.release == "end its transaction, or SELECT pg_terminate_backend(47)"
    assert str(hardly_seen) == "session 48 (user bob) keeps aiosched journal waiting for a lock, for 35.0 s now"
