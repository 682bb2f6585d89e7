"""Claims for engines: states, pools, rows of attempts and the reports behind them are one statement."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo
from aiosched.db.engines.attempts import NewAttempt, decode_attempt, new_attempt
from aiosched.db.engines.claims import Claimed, write_with_attempts
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements import journal
from aiosched.db.statements.journal import InstanceChange, PoolRow
from aiosched.errors import FencedOut, StaleRows

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEYS = [AttemptKey(1, task, -1, 1) for task in range(2)]


@pytest.fixture
async def conn(db: Database) -> AsyncIterator[DatabaseConnection]:
    """A journal's connection. There are scheduler 1, run 1 with two instances, a pool of 3 slots and two reports."""
    connection = await db.connect()
    await connection.execute(
        """
        INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at)
             VALUES ('s', 'h', 1, '0', 'inline', 1, now() + interval '1 hour');
        INSERT INTO dag_version (dag_id, number, content_hash, spec) VALUES ('d', 1, 'x', '{}');
        INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after)
             VALUES ('d', 'r', 0, 1, 'manual', 'test', 'running', now());
        INSERT INTO task_instance (run_id, task_index, map_index) VALUES (1, 0, -1), (1, 1, -1);
        INSERT INTO task_report (partition, run_id, task_index, map_index, try_number, outcome, body)
             VALUES (0, 1, 7, -1, 1, 'success', '{}'), (0, 1, 8, -1, 1, 'success', '{}');
        INSERT INTO pool (name, slots) VALUES ('etl', 3)
        """
    )
    await connection.execute(journal.PLANNER)
    yield connection
    await connection.close()


def attempt(key: AttemptKey) -> NewAttempt:
    run = RunInfo(key=1, dag_id="d", run_id="r", run_type="manual", run_after=NOON)
    return new_attempt(0, "engine", Attempt(key=key, run=run, task_id="t", is_async=False, max_tries=0))


async def claim(conn: DatabaseConnection, *keys: AttemptKey, by: int = 1, old: str | None = None) -> Claimed:
    changes = [
        InstanceChange(*key[:3], old, 0, "queued", 1, 2, 0, 1, NOON, NOON, None, None, None, None) for key in keys
    ]
    pools = {"etl": len(keys)}
    return await write_with_attempts(conn, by, changes, [], pools, attempts=list(map(attempt, keys)), applied=[1])


async def left(conn: DatabaseConnection, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await conn.fetch(f"SELECT * FROM {table} ORDER BY id")]


async def test_all_of_it_is_stored_together(conn: DatabaseConnection) -> None:
    claimed = await claim(conn, *KEYS)

    assert claimed[:2] == ({"etl": PoolRow(3, 2)}, {KEYS[0]: 1, KEYS[1]: 2})
    stored = await conn.fetch("SELECT id, partition, executor, attempt, queued_by, worker FROM engine_attempt")
    assert [tuple(row)[:3] + tuple(row)[4:] for row in stored] == [(1, 0, "engine", 1, None), (2, 0, "engine", 1, None)]
    assert [decode_attempt(row["attempt"]).key for row in stored] == KEYS
    assert await conn.fetchval("SELECT array_agg(id) FROM task_report") == [2]
    assert await conn.fetchval("SELECT count(*) FROM task_instance WHERE state = 'queued'") == 2


async def test_what_is_left_of_an_earlier_call_becomes_the_row_of_the_next_one_with_another_id(
    conn: DatabaseConnection,
) -> None:
    await claim(conn, KEYS[0])
    await conn.execute("UPDATE engine_attempt SET worker = 'w', begun_at = now(), alive_until = now(), stop_grace = 1")
    await conn.execute("UPDATE task_instance SET state = NULL, try_number = 0")

    claimed = await claim(conn, *KEYS)

    assert sorted(claimed.ids) == KEYS
    assert 1 not in claimed.ids.values()
    begun = "SELECT count(*) FROM engine_attempt WHERE coalesce(worker, begun_at::text, alive_until::text) IS NOT NULL"
    assert await conn.fetchval(begun) == 0
    assert await conn.fetchval("SELECT count(*) FROM engine_attempt WHERE stop_grace IS NULL AND NOT is_announced") == 2


@pytest.mark.parametrize(("by", "old", "error"), [(2, None, FencedOut), (1, "running", StaleRows)])
async def test_nothing_is_stored_if_the_batch_is_refused(
    conn: DatabaseConnection, by: int, old: str | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await claim(conn, *KEYS, by=by, old=old)

    assert await left(conn, "engine_attempt") == []
    assert len(await left(conn, "task_report")) == 2
    assert await conn.fetchval("SELECT used FROM pool WHERE name = 'etl'") == 0
