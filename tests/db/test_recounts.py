"""Counting again: the statements of db/upkeep/recounts.py, and reading in pages, on the oldest servers too."""

from __future__ import annotations

import pytest

from aiosched.core.values.messages import XComRef
from aiosched.db.server.engine import Database
from aiosched.db.statements import runs
from aiosched.db.statements.reports import read_reports, senders
from aiosched.db.upkeep import recounts


async def _version(db: Database, spec: str) -> None:
    async with db.transaction() as conn:
        await conn.execute("INSERT INTO dag (dag_id, partition) VALUES ('d', 1)")
        await conn.execute(
            "INSERT INTO dag_version (dag_id, number, content_hash, spec) VALUES ('d', 1, 'x', $1::json)", spec
        )


async def _run(db: Database, run_id: str, state: str, *instances: str) -> int:
    async with db.transaction() as conn:
        key: int = await conn.fetchval(
            """INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after)
               SELECT 'd', $1, 1, max(id), 'manual', 'cli', $2, now() FROM dag_version RETURNING id""",
            run_id,
            state,
        )
        await conn.executemany(
            "INSERT INTO task_instance (run_id, task_index, map_index, state) VALUES ($1, $2, -1, $3)",
            [(key, index, instance) for index, instance in enumerate(instances)],
        )
        return key


async def test_what_holds_slots_is_counted_by_task(db: Database) -> None:
    await _version(db, '{"tasks": [{"task_id": "a"}, {"task_id": "b", "pool": "p", "pool_slots": 3}, {}]}')
    one = await _run(db, "one", "running", "running", "queued", "scheduled")
    two = await _run(db, "two", "running", "success", "deferred", "deferred")
    async with db.transaction() as conn:
        await conn.execute(
            """INSERT INTO deferred_trigger (run_id, task_index, map_index, classpath, kwargs, next_method, holds_pool)
               VALUES ($1, 1, -1, 'c', '{}', 'm', true), ($1, 2, -1, 'c', '{}', 'm', false)""",
            two,
        )
        held = await recounts.count_held(conn)
        ((version, _), *_) = held.holders
        pools = await recounts.pools_of_tasks(conn, [(version, 0), (version, 1), (version, 7)])

    assert one < two
    assert held.used == {"default_pool": 0}
    assert held.holders == {(version, 0): 1, (version, 1): 2}
    assert pools == {(version, 0): ("default_pool", 1), (version, 1): ("p", 3)}


async def test_orphans_are_deleted_page_by_page(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recounts, "MOST_RUNS", 4)
    monkeypatch.setattr(recounts, "MOST_ROWS", 3)
    await _version(db, '{"tasks": []}')
    kept = await _run(db, "one", "success", "success")
    async with db.transaction() as conn:
        await conn.execute(
            """INSERT INTO task_instance (run_id, task_index, map_index)
               SELECT $1 + run, task, -1 FROM generate_series(1, 5) AS run, generate_series(1, 2) AS task""",
            kept,
        )

        found, after = [], -1
        for _ in range(6):
            step = await recounts.delete_orphans(conn, "task_instance", after=after)
            found.append(step)
            after = after if step.rows == 3 or step.last is None else step.last

        assert [step.rows for step in found] == [3, 3, 3, 1, 0, 0]
        assert await conn.fetchval("SELECT array_agg(run_id) FROM task_instance") == [kept]


async def test_older_servers_understand_the_statements(older_db: Database) -> None:
    async with older_db.transaction() as conn:
        assert (await recounts.count_held(conn)).used == {"default_pool": 0}
        assert await recounts.pools_of_tasks(conn, [(1, 0)]) == {}
        assert await recounts.lock_all_pools(conn) == {"default_pool"}
        await recounts.set_used(conn, {"default_pool": 0})
        await recounts.add_pools(conn, {"p": 1})
        await recounts.add_leases(conn, [1])
        for table in recounts.OF_RUNS:
            assert await recounts.delete_orphans(conn, table, after=-1) == (0, None, 0, 0)
        assert await read_reports(conn, [1], but=[1], but_runs=[1]) == ([], [], False)
        assert await senders(conn, [1], but=[1]) == set()
        assert await runs.get_xcoms(conn, 1, [(0, XComRef("a"))]) == [[]]
