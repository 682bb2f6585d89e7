"""Removing old history: db/retention.py."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aiosched.db import retention
from aiosched.db.engine import Database
from aiosched.db.retention import clean, count_old
from tests.cli.records import NOON, add_dag, add_run, add_task, insert

DAY = timedelta(days=1)
LIMIT = NOON - DAY


async def old_run(db: Database, version: int, run_id: str, *, dag_id: str = "d", **columns: Any) -> int:
    """A run with two tasks, a try and a value, that ended two days ago."""
    columns = {"state": "success", "end_date": NOON - 2 * DAY} | columns
    run = await add_run(db, dag_id, version, run_id, **columns)
    for index in (0, 1):
        await add_task(db, run, index, "success", try_number=2)
    async with db.acquire() as conn:
        key = {"run_id": run, "task_index": 0, "map_index": -1}
        await insert(conn, "task_try", key | {"try_number": 1, "state": "failed"})
        await insert(conn, "xcom", key | {"key": "k", "value": {}})
    return run


async def runs(db: Database) -> list[str]:
    async with db.acquire() as conn:
        return [row["run_id"] for row in await conn.fetch("SELECT run_id FROM dag_run ORDER BY id")]


async def rows(db: Database, table: str) -> int:
    async with db.acquire() as conn:
        return int(await conn.fetchval(f"SELECT count(*) FROM {table}"))


async def test_a_run_goes_with_all_that_belongs_to_it(db: Database) -> None:
    version = await add_dag(db, "d")
    await old_run(db, version, "old")
    await old_run(db, version, "new", end_date=NOON)
    expected = await count_old(db, LIMIT)

    removed = await clean(db, LIMIT)

    assert (removed.runs, removed.task_instances, removed.tries, removed.xcoms) == (1, 2, 1, 1)
    assert removed == expected
    assert await runs(db) == ["new"]
    assert [await rows(db, table) for table in ("task_instance", "task_try", "xcom")] == [2, 1, 1]
    assert (await clean(db, LIMIT)).total == 0


@pytest.mark.parametrize("state", ["queued", "running"])
async def test_an_unfinished_run_stays_however_old(db: Database, state: str) -> None:
    await old_run(db, await add_dag(db, "d"), "r", state=state, end_date=None, run_after=NOON - 100 * DAY)

    assert (await count_old(db, LIMIT)).runs == 0
    assert (await clean(db, LIMIT)).runs == 0


async def test_a_run_without_an_end_is_as_old_as_it_was_due(db: Database) -> None:
    version = await add_dag(db, "d")
    await old_run(db, version, "old", state="failed", end_date=None, run_after=NOON - 2 * DAY)
    await old_run(db, version, "new", state="failed", end_date=None, run_after=NOON)

    await clean(db, LIMIT)

    assert await runs(db) == ["new"]


async def test_the_newest_automated_run_of_each_dag_stays_for_its_schedule_goes_on_from_it(db: Database) -> None:
    for dag_id in ("d", "e"):
        version = await add_dag(db, dag_id)
        for day in (5, 4, 3):
            date = NOON - day * DAY
            await old_run(db, version, f"{dag_id}{day}", dag_id=dag_id, run_type="scheduled", logical_date=date)
        await old_run(db, version, f"{dag_id}_by_hand", dag_id=dag_id, logical_date=NOON - DAY)

    await clean(db, LIMIT)

    assert await runs(db) == ["d3", "e3"]


async def test_a_run_whose_callbacks_have_not_run_yet_stays(db: Database) -> None:
    version = await add_dag(db, "d")
    for name, given_up_at in (("waits", None), ("given_up", NOON)):
        run = await old_run(db, version, name)
        async with db.acquire() as conn:
            row = {"partition": 0, "kind": "dag_failure", "dag_id": "d", "run_id": run, "given_up_at": given_up_at}
            await insert(conn, "callback_outbox", row)

    await clean(db, LIMIT)

    assert await runs(db) == ["waits"]
    assert await rows(db, "callback_outbox") == 1


async def test_it_goes_in_batches_and_tells_of_each(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "RUNS_PER_BATCH", 2)
    version = await add_dag(db, "d")
    for number in range(5):
        await old_run(db, version, f"r{number}")
    heard: list[int] = []

    first = await clean(db, LIMIT, batches=1)
    await clean(db, LIMIT, progress=lambda removed: heard.append(removed.runs))

    assert first.runs == 2
    assert heard[:2] == [2, 3]
    assert await runs(db) == []


async def test_answered_requests_finished_backfills_and_dead_schedulers_go_too(db: Database) -> None:
    old, new = NOON - 2 * DAY, NOON

    async def two(table: str, row: dict[str, Any], column: str) -> None:
        async with db.acquire() as conn:
            for at in (old, new):
                await insert(conn, table, row | {column: at})

    command = {"partition": 0, "verb": "pause", "requested_by": "me"}
    await two("command", command | {"state": "applied"}, "created_at")
    await two("command", command | {"state": "waiting"}, "created_at")
    dates = {"from_date": old, "to_date": old}
    await two("backfill", {"dag_id": "d", "partition": 0} | dates, "completed_at")
    scheduler = {"name": "s", "hostname": "h", "pid": 1, "version": "1", "executor": "x", "slots": 1}
    await two("scheduler", scheduler, "lease_expires_at")

    expected = await count_old(db, LIMIT)
    removed = await clean(db, LIMIT)

    assert removed == expected
    assert (removed.commands, removed.backfills, removed.schedulers) == (1, 1, 1)
    assert [await rows(db, table) for table in ("command", "backfill", "scheduler")] == [3, 1, 1]


async def test_asset_events_that_a_dag_still_has_to_hear_of_stay(db: Database) -> None:
    async with db.acquire() as conn:
        for name in ("heard", "waits"):
            asset = await insert(conn, "asset", {"name": name, "uri": name}, returning="id")
            for at in (NOON - 3 * DAY, NOON - 2 * DAY, NOON):
                await insert(conn, "asset_event", {"asset_id": asset, "timestamp": at})
        queued = {"dag_id": "d", "asset_id": asset, "partition": 1, "newest_at": NOON, "first_at": NOON - 2 * DAY}
        await insert(conn, "asset_queue", queued)

    removed = await clean(db, LIMIT)

    assert removed.asset_events == 3
    assert await rows(db, "asset_event") == 3


async def test_a_scheduler_removes_what_belongs_to_its_partitions(db: Database) -> None:
    for dag_id, partition in (("d", 3), ("e", 4)):
        version = await add_dag(db, dag_id)
        await old_run(db, version, dag_id, dag_id=dag_id, partition=partition)

    await clean(db, LIMIT, partitions=[4])

    assert await runs(db) == ["d"]


async def test_a_run_that_is_being_cleared_stays(db: Database) -> None:
    version = await add_dag(db, "d")
    run = await old_run(db, version, "r")
    async with db.transaction() as conn:
        await conn.execute("UPDATE dag_run SET state = 'queued' WHERE id = $1", run)

        assert (await clean(db, LIMIT)).runs == 0

    assert (await clean(db, LIMIT)).runs == 0
    assert await rows(db, "task_instance") == 2
