"""The statements of the hot transaction: fenced, guarded, all or nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiosched.core.run.board import FinishedTry
from aiosched.core.values.instants import FIRST, LAST
from aiosched.core.values.messages import AttemptKey
from aiosched.core.values.states import TaskState
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import DRIVER_ERRORS, is_connection_failure
from aiosched.db.statements import journal, ownership
from aiosched.db.statements.journal import InstanceChange, PoolRow, RunChange, XComRow
from aiosched.errors import FencedOut, StaleRows
from tests.db.waiting import until_a_lock_is_awaited, until_true

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def change(task: int, old: str | None, new: str | None, *, old_try: int = 0, new_try: int = 1) -> InstanceChange:
    return InstanceChange(
        1, task, -1, old, old_try, new, new_try, 2, 0, 1, NOON, NOON, None, None, None, f"now {new}"
    )  # fmt: skip


def run_ends(old: str = "running") -> RunChange:
    return RunChange(1, old, "success", NOON, NOON, NOON, None)


@pytest.fixture(params=[journal.FEW, -1], ids=["few", "any number"])
async def conn(
    db: Database, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[DatabaseConnection]:
    """A journal's connection. There are scheduler 1, run 1 with three instances and the pool `etl` of 3 slots.

    Each test that has it is made with the statements for a few rows, and with those for any number.
    """
    monkeypatch.setattr(journal, "FEW", request.param)
    connection = await db.connect()
    await connection.execute(
        """
        INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at)
             VALUES ('s', 'h', 1, '0', 'inline', 1, now() + interval '1 hour');
        INSERT INTO dag_version (dag_id, number, content_hash, spec) VALUES ('d', 1, 'x', '{}');
        INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after)
             VALUES ('d', 'r', 0, 1, 'manual', 'test', 'running', now());
        INSERT INTO task_instance (run_id, task_index, map_index) VALUES (1, 0, -1), (1, 1, -1), (1, 2, -1);
        INSERT INTO pool (name, slots) VALUES ('etl', 3)
        """
    )
    await connection.execute(journal.PLANNER)
    yield connection
    await connection.close()


async def states(conn: DatabaseConnection) -> list[str | None]:
    return [row[0] for row in await conn.fetch("SELECT state FROM task_instance ORDER BY task_index")]


async def used(conn: DatabaseConnection, pool: str = "etl") -> int:
    number: int = await conn.fetchval("SELECT used FROM pool WHERE name = $1", pool)
    return number


async def test_a_batch_stores_instances_runs_and_pool_use_together(conn: DatabaseConnection) -> None:
    batch = [change(0, None, "queued"), change(1, None, "scheduled")]

    moved, number = await journal.write(conn, 1, batch, [run_ends()], {"etl": 2})

    assert moved == {"etl": PoolRow(3, 2)}
    assert await conn.fetchval("SELECT pg_xact_status($1::text::xid8)", str(number)) in ("committed", "in progress")
    row = await conn.fetchrow("SELECT * FROM task_instance WHERE task_index = 0")
    assert (row["state"], row["try_number"], row["max_tries"], row["queued_by"]) == ("queued", 1, 2, 1)
    assert (row["scheduled_at"], row["queued_at"], row["reason"]) == (NOON, NOON, "now queued")
    assert await states(conn) == ["queued", "scheduled", None]
    assert await conn.fetchval("SELECT state FROM dag_run") == "success"


@pytest.mark.parametrize(
    ("instances", "runs", "pools"),
    [
        ([change(1, "running", "success")], [], {}),
        ([change(1, None, "queued", old_try=1)], [], {}),
        ([change(9, None, "queued")], [], {}),
        ([], [run_ends("queued")], {}),
        ([], [], {"etl": 4}),
        ([], [], {"ghost": 1}),
    ],
    ids=["another state", "another try", "no such instance", "another run state", "too many slots", "no such pool"],
)
async def test_one_row_that_is_not_as_expected_makes_the_whole_batch_void(
    conn: DatabaseConnection, instances: list[InstanceChange], runs: list[RunChange], pools: dict[str, int]
) -> None:
    with pytest.raises(StaleRows, match="not as expected"):
        await journal.write(conn, 1, [change(0, None, "queued"), *instances], runs, {"default_pool": 1, **pools})

    assert await states(conn) == [None, None, None]
    assert (await used(conn), await used(conn, "default_pool")) == (0, 0)
    assert await conn.fetchval("SELECT state FROM dag_run") == "running"


async def test_slots_given_back_are_taken_in_the_same_batch(conn: DatabaseConnection) -> None:
    await journal.write(conn, 1, [], [], {"etl": 3})

    await journal.write(conn, 1, [], [], {"etl": 0})

    assert await used(conn) == 3


async def test_a_pool_that_shrank_may_be_left_and_not_entered_and_an_infinite_one_has_no_limit(
    conn: DatabaseConnection,
) -> None:
    await journal.write(conn, 1, [], [], {"etl": 3})
    await conn.execute("UPDATE pool SET slots = 1 WHERE name = 'etl'")

    await journal.write(conn, 1, [], [], {"etl": -1})
    with pytest.raises(StaleRows):
        await journal.write(conn, 1, [], [], {"etl": 1})
    await conn.execute("UPDATE pool SET slots = -1 WHERE name = 'etl'")
    await journal.write(conn, 1, [], [], {"etl": 1000})

    assert await used(conn) == 1002


async def test_a_scheduler_that_was_taken_over_changes_nothing(conn: DatabaseConnection, db: Database) -> None:
    async with db.acquire() as other:
        assert await ownership.take_over(other, 1, process_gone=True)

    with pytest.raises(FencedOut, match="incarnation 1"):
        await journal.write(conn, 1, [change(0, None, "queued")], [], {"etl": 1})

    assert await states(conn) == [None, None, None]
    assert await used(conn) == 0


async def test_a_batch_that_meets_a_take_over_in_progress_waits_and_is_void(
    conn: DatabaseConnection, db: Database
) -> None:
    async with db.acquire() as other:
        take_over = other.transaction()
        await take_over.__aenter__()
        await other.execute("SELECT 1 FROM scheduler WHERE incarnation = 1 FOR UPDATE")
        writing = asyncio.create_task(journal.write(conn, 1, [change(0, None, "queued")], [], {"etl": 1}))
        async with db.acquire() as third:
            await until_a_lock_is_awaited(third)
        assert not writing.done()
        await other.execute("DELETE FROM scheduler WHERE incarnation = 1")
        await take_over.__aexit__(None, None, None)

        with pytest.raises(FencedOut):
            await writing
    assert await states(conn) == [None, None, None]


@pytest.mark.fresh_database
@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        (journal.WRITE, ("task_instance", "dag_run", "pool")),
        (journal.WRITE_INSTANCES, ("task_instance",)),
        (journal.write_few(journal.FEW, 1, 1), ("task_instance", "dag_run", "pool")),
    ],
    ids=["any batch", "nothing but instances", "few"],
)
async def test_a_hot_batch_goes_by_keys_however_the_statistics_look(
    conn: DatabaseConnection, statement: str, tables: tuple[str, ...]
) -> None:
    await conn.execute("INSERT INTO task_instance SELECT n, 0, -1 FROM generate_series(2, 3000) AS n; ANALYZE")
    parameters = max(map(int, re.findall(r"\$(\d+)", statement)))
    await conn.execute(f"PREPARE hot AS {statement}")

    rows = await conn.fetch(f"EXPLAIN EXECUTE hot ({', '.join(['NULL'] * parameters)})")

    plan = "\n".join(row[0] for row in rows)
    for table in tables:
        assert f"Index Scan using pk_{table} on {table}" in plan, plan
        assert f"Seq Scan on {table} " not in plan, plan


INSTANTS = st.none() | st.datetimes(timezones=st.just(UTC)) | st.sampled_from([FIRST, LAST])
TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
STATES = st.sampled_from([None, *sorted(set(TaskState) - {TaskState.NONE})])
CHANGES = st.builds(
    InstanceChange,
    *(st.just(1), st.just(0), st.just(-1), st.none(), st.just(0), STATES, st.integers(0, 2**15 - 1)),
    *(st.integers(0, 2**15 - 1), st.integers(0, 2**15 - 1), st.none() | st.integers(0, 2**63 - 1)),
    *(*[INSTANTS] * 5, TEXTS, st.booleans()),
)
ENDS = st.builds(
    RunChange, st.just(1), st.just("running"), st.sampled_from(["success", "failed"]), *[INSTANTS] * 3, TEXTS,
    st.integers(0, 2**15 - 1),
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(change=CHANGES, run=ENDS, delta=st.integers(-3, 3))
async def test_a_few_rows_are_stored_as_any_number_of_them(
    conn: DatabaseConnection, change: InstanceChange, run: RunChange, delta: int
) -> None:
    """Both ways to pass values leave the same rows and give the same answer."""
    found = []
    for few in (journal.FEW, -1):
        await conn.execute("BEGIN; UPDATE pool SET used = 3, slots = 9 WHERE name = 'etl'")
        try:
            with patch.object(journal, "FEW", few):
                moved, _ = await journal.write(conn, 1, [change], [run], {"etl": delta})
            instances, runs = (
                await conn.fetch("SELECT * FROM task_instance WHERE task_index = 0"),
                await conn.fetch("SELECT * FROM dag_run"),
            )
            found.append((moved, list(map(tuple, (*instances, *runs)))))
        finally:
            await conn.execute("ROLLBACK")
    assert found[0] == found[1]


@pytest.mark.fresh_database
async def test_updates_of_instances_are_heap_only(conn: DatabaseConnection) -> None:
    for number in range(20):
        old = None if number == 0 else "scheduled"
        await journal.write(conn, 1, [change(0, old, "scheduled", old_try=number, new_try=number + 1)], [], {})

    await conn.execute("SELECT pg_stat_force_next_flush()")
    row = await conn.fetchrow(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'task_instance'"
    )
    assert row["n_tup_upd"] == row["n_tup_hot_upd"] == 20


# -- pools ------------------------------------------------------------------------------------


async def test_pools_are_read_and_missing_ones_are_absent(conn: DatabaseConnection) -> None:
    found = await journal.read_pools(conn, ["ghost", "etl", "default_pool"], lock=False)

    assert found == {"etl": PoolRow(3, 0), "default_pool": PoolRow(128, 0)}


async def test_demands_are_read_without_a_lock_too(conn: DatabaseConnection) -> None:
    await conn.execute("""UPDATE pool SET demands = '{"7": [null, 1, 0, 1, 1, 1]}' WHERE name = 'etl'""")

    (pool,) = (await journal.read_pools(conn, ["etl"], lock=False)).values()

    assert pool.demands == '{"7": [null, 1, 0, 1, 1, 1]}'


async def test_locked_pools_wait_for_each_other(conn: DatabaseConnection, db: Database) -> None:
    await journal.begin(conn, 1)
    await journal.read_pools(conn, ["etl"], lock=True)
    async with db.transaction() as other:
        waiting = asyncio.create_task(journal.read_pools(other, ["etl"], lock=True))
        await until_a_lock_is_awaited(conn)
        await journal.write(conn, 1, [], [], {"etl": 3})

        await conn.execute("COMMIT")

        seen = await waiting
        assert seen["etl"][:2] == (3, 3)


async def test_locked_pools_say_what_time_it_is_when_they_are_locked(conn: DatabaseConnection, db: Database) -> None:
    await journal.begin(conn, 1)
    await journal.read_pools(conn, ["etl"], lock=True)
    async with db.transaction() as other:
        waiting = asyncio.create_task(journal.read_pools(other, ["default_pool", "etl"], lock=True))
        await until_a_lock_is_awaited(conn)
        let_go = await conn.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")

        await conn.execute("COMMIT")

        seen = await waiting
        assert seen["default_pool"].read_at >= let_go
        assert seen["etl"].read_at >= let_go


# -- tries and values -------------------------------------------------------------------------


def finished(number: int, state: str = "failed") -> FinishedTry:
    return FinishedTry(AttemptKey(1, 0, -1, number), state, 1, NOON, NOON, NOON, "boom", "Traceback …", "host", 42)


async def test_finished_tries_are_kept_once(conn: DatabaseConnection) -> None:
    await journal.insert_tries(conn, [finished(1), finished(2, "lost")])
    await journal.insert_tries(conn, [finished(2, "failed")])

    rows = await conn.fetch("SELECT try_number, state, reason, details, hostname, pid FROM task_try ORDER BY 1")
    assert list(map(tuple, rows)) == [
        (1, "failed", "boom", "Traceback …", "host", 42),
        (2, "lost", "boom", "Traceback …", "host", 42),
    ]


async def test_the_last_value_of_a_key_wins_and_those_of_earlier_tries_are_forgotten(conn: DatabaseConnection) -> None:
    await journal.upsert_xcoms(conn, [XComRow(1, 0, -1, "k", "1"), XComRow(1, 0, -1, "k", "2")])
    await journal.upsert_xcoms(conn, [XComRow(1, 0, -1, "k", "3"), XComRow(1, 1, -1, "k", '"other"')])
    assert list(map(tuple, await conn.fetch("SELECT task_index, value FROM xcom ORDER BY 1"))) == [
        (0, "3"),
        (1, '"other"'),
    ]

    await journal.delete_xcoms(conn, [(1, 0, -1)])

    assert await conn.fetch("SELECT value FROM xcom") == [('"other"',)]


# -- settling ---------------------------------------------------------------------------------


async def test_a_server_process_that_is_asked_to_end_does_and_its_transaction_is_void(
    conn: DatabaseConnection, db: Database
) -> None:
    backend = await journal.who_am_i(conn)
    await journal.begin(conn, 1)
    await journal.write(conn, 1, [change(0, None, "queued")], [], {})

    async with db.acquire() as other:
        assert await journal.end_backend(other, backend)
        await until_true(other, f"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = {backend.pid}")

        assert not await journal.end_backend(other, backend)
        assert await states(other) == [None, None, None]
    with pytest.raises((OSError, *DRIVER_ERRORS)) as caught:
        await conn.fetchval("SELECT 1")  # which error depends on how much of the end the driver has read by then
    assert is_connection_failure(caught.value)
