"""Removing old history: db/upkeep/retention.py."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from aiosched.db.server.engine import Database
from aiosched.db.upkeep import retention
from aiosched.db.upkeep.retention import NotRemoved, RunName, clean, count_old
from tests.cli.records import NOON, add_dag, add_run, add_task, insert
from tests.db.waiting import until_true

DAY = timedelta(days=1)
LIMIT = NOON - DAY
SOMEBODY_WAITS = """
    SELECT count(*) > 0 FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
     WHERE NOT l.granted AND a.datname = current_database()
"""


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
    return [row["run_id"] for row in await db.fetch("SELECT run_id FROM dag_run ORDER BY id")]


async def rows(db: Database, table: str) -> int:
    return int(await db.fetchval(f"SELECT count(*) FROM {table}"))


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


@pytest.mark.parametrize("run_type", ["scheduled", "backfill"])  # of a run of the schedule that a backfill took over
async def test_the_newest_run_of_each_schedule_stays_for_it_goes_on_from_there(db: Database, run_type: str) -> None:
    for dag_id in ("d", "e"):
        version = await add_dag(db, dag_id)
        for day in (5, 4, 3):
            made = {"run_type": run_type, "triggered_by": "timetable", "logical_date": NOON - day * DAY}
            await old_run(db, version, f"{dag_id}{day}", dag_id=dag_id, **made)
        backfill = {"run_type": "backfill", "triggered_by": "backfill", "logical_date": NOON - 2 * DAY}
        await old_run(db, version, f"{dag_id}_backfill", dag_id=dag_id, **backfill)
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


_YOUNG = """
    INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after, end_date)
    SELECT 'd', 'young' || n, 0, $1, 'manual', 'test', 'success', $2, $2::timestamptz + n * interval '1 second'
      FROM generate_series(1, 10000) AS n
"""


@pytest.mark.parametrize("statement", ["TAKE_ENDED", "TAKE_ENDLESS"])
async def test_looking_for_old_runs_does_not_read_the_young_ones(db: Database, statement: str) -> None:
    version = await add_dag(db, "d")
    async with db.transaction() as conn:
        await conn.execute(_YOUNG, version, NOON)
        await conn.execute("ANALYZE dag_run")
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        await conn.execute(
            f"PREPARE look (timestamptz, smallint[], text, bigint, int, bigint[]) AS {getattr(retention, statement)}"
        )

        values = f"'{LIMIT.isoformat()}', '{{0,1}}', '-infinity', 0, 50, '{{}}'"
        plan = await conn.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE look ({values})")

    assert "Seq Scan" not in plan
    assert '"Rows Removed by Filter": 10000' not in plan
    assert '"ix_dag_run_' in plan


async def test_answered_requests_finished_backfills_and_dead_schedulers_go_too(db: Database) -> None:
    old, new = NOON - 2 * DAY, NOON

    async def two(table: str, row: dict[str, Any], column: str) -> None:
        async with db.acquire() as conn:
            for at in (old, new):
                await insert(conn, table, row | {column: at})

    request = {"partition": 0, "verb": "pause", "requested_by": "me"}
    await two("request", request | {"state": "applied"}, "created_at")
    await two("request", request | {"state": "waiting"}, "created_at")
    dates = {"from_date": old, "to_date": old}
    await two("backfill", {"dag_id": "d", "partition": 0} | dates, "completed_at")
    scheduler = {"name": "s", "hostname": "h", "pid": 1, "version": "1", "executor": "x", "slots": 1}
    await two("scheduler", scheduler, "lease_expires_at")

    expected = await count_old(db, LIMIT)
    removed = await clean(db, LIMIT)

    assert removed == expected
    assert (removed.requests, removed.backfills, removed.schedulers) == (1, 1, 1)
    assert [await rows(db, table) for table in ("request", "backfill", "scheduler")] == [3, 1, 1]


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


async def test_keys_that_wait_for_nothing_any_more_go_and_others_keep_their_events(db: Database) -> None:
    async with db.acquire() as conn:
        asset = await insert(conn, "asset", {"name": "a", "uri": "a"}, returning="id")
        events = [
            await insert(
                conn,
                "asset_event",
                {"asset_id": asset, "timestamp": NOON - 3 * DAY, "partition_key": key},
                returning="id",
            )
            for key in ("old", "due", "new", "queued", "refused")
        ]
        common = {"dag_id": "d", "partition": 1, "mapping": "m"}
        for event, (key, newest, due) in zip(
            events, (("old", NOON - 3 * DAY, None), ("due", NOON - 3 * DAY, NOON), ("new", NOON, None)), strict=False
        ):
            pending = common | {"partition_key": key, "newest_at": newest, "due_at": due}
            number = await insert(conn, "asset_partition", pending, returning="id")
            await insert(conn, "asset_partition_event", {"asset_partition_id": number, "event_id": event})
        for event, refused in zip(events[3:], (None, "no"), strict=True):
            await insert(
                conn, "asset_key_event", {"dag_id": "d", "event_id": event, "partition": 1, "refused": refused}
            )

    removed = await clean(db, LIMIT)

    assert (removed.asset_partitions, removed.asset_events) == (1, 2)
    async with db.acquire() as conn:
        left = await conn.fetch("SELECT partition_key FROM asset_event ORDER BY id")
        assert [row["partition_key"] for row in left] == ["due", "new", "queued"]
    assert [await rows(db, table) for table in ("asset_partition", "asset_key_event")] == [2, 1]


async def test_old_missed_slas_go_but_the_newest_of_each_task_and_those_to_be_told_of(db: Database) -> None:
    async with db.acquire() as conn:
        version = await add_dag(db, "d")
        run = await add_run(db, "d", version, "r")
        outbox = {"partition": 1, "kind": "sla_miss", "dag_id": "d", "run_id": run}
        waiting = await insert(conn, "callback_outbox", outbox, returning="id")
        miss = {"partition": 1, "dag_id": "d", "missed_at": NOON - 2 * DAY}
        for task_id, day, callback in (("a", 5, None), ("a", 4, waiting), ("a", 3, 0), ("a", 2, 0), ("b", 9, 0)):
            date = NOON - day * DAY
            await insert(conn, "sla_miss", miss | {"task_id": task_id, "logical_date": date, "callback_id": callback})
    expected = await count_old(db, LIMIT)

    removed = await clean(db, LIMIT)

    assert (removed.sla_misses, expected.sla_misses) == (2, 2)
    left = await db.fetch("SELECT task_id, logical_date FROM sla_miss ORDER BY task_id, logical_date")
    assert [(row[0], (NOON - row[1]).days) for row in left] == [("a", 4), ("a", 2), ("b", 9)]


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


# -- what cannot be removed -------------------------------------------------------------------


async def hold(db: Database, run: int) -> None:
    """Somebody's own table refers to a run."""
    async with db.acquire() as conn:
        await conn.execute("CREATE TABLE IF NOT EXISTS audit (run bigint REFERENCES dag_run (id))")
        await conn.execute("INSERT INTO audit VALUES ($1)", run)


async def test_runs_that_cannot_be_removed_hold_up_nothing_else(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "RUNS_PER_BATCH", 3)
    version = await add_dag(db, "d")
    keys = [await old_run(db, version, f"r{number}") for number in range(12)]
    for number in (0, 6, 7, 8):  # one of a batch, and all of another
        await hold(db, keys[number])
    failed: list[NotRemoved] = []

    removed = await clean(db, LIMIT, failed=failed)

    assert (removed.runs, removed.task_instances) == (8, 16)
    assert await runs(db) == ["r0", "r6", "r7", "r8"]
    assert await rows(db, "task_instance") == 8  # their tasks are still there
    assert [each.key for each in failed] == [keys[number] for number in (0, 6, 7, 8)]
    assert "run 'r0' of DAG 'd' (ForeignKeyViolationError: " in str(failed[0])
    assert (await clean(db, LIMIT, but=[each.key for each in failed], failed=(again := []))).runs == 0
    assert again == []


async def test_rows_of_a_kind_that_cannot_be_removed_hold_up_no_other_kind(db: Database) -> None:
    await add_dag(db, "d")
    await add_version(db, "d", 2, created_at=NOON - 3 * DAY)
    await add_version(db, "d", 3, created_at=NOON, newest=True)
    async with db.acquire() as conn:
        columns = {"verb": "pause", "args": {}, "requested_by": "me", "state": "applied", "created_at": NOON - 3 * DAY}
        request = await insert(conn, "request", columns, returning="id")
        await conn.execute("CREATE TABLE audit (request bigint REFERENCES request (id))")
        await conn.execute("INSERT INTO audit VALUES ($1)", request)
    failed: list[NotRemoved] = []

    removed = await clean(db, LIMIT, failed=failed)

    assert (removed.requests, removed.versions) == (0, 1)
    assert [(each.key, each.what) for each in failed] == [("requests", "old requests")]


async def test_a_log_that_cannot_be_removed_keeps_its_own_run_only(db: Database) -> None:
    version = await add_dag(db, "d")
    for run_id in ("r0", "r1", "r2"):
        await old_run(db, version, run_id)
    failed: list[NotRemoved] = []

    async def remove(runs: Sequence[RunName]) -> int:
        if any(run.run_id == "r1" for run in runs):
            raise PermissionError(13, "Permission denied", "/logs/d/r1")
        return 0

    removed = await clean(db, LIMIT, remove_logs=remove, failed=failed)

    assert (removed.runs, await runs(db)) == (2, ["r1"])
    assert "run 'r1' of DAG 'd' (PermissionError: " in str(failed[0])


async def test_without_a_list_of_failures_the_first_one_is_raised(db: Database) -> None:
    version = await add_dag(db, "d")
    await hold(db, await old_run(db, version, "r"))

    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await clean(db, LIMIT)

    assert await runs(db) == ["r"]


# -- DAG versions and logs --------------------------------------------------------------------


async def add_version(db: Database, dag_id: str, number: int, *, created_at: datetime, newest: bool = False) -> int:
    async with db.transaction() as conn:
        columns = {"dag_id": dag_id, "number": number, "content_hash": "", "spec": {}, "created_at": created_at}
        version: int = await insert(conn, "dag_version", columns, returning="id")
        if newest:
            await conn.execute("UPDATE dag SET version_id = $2 WHERE dag_id = $1", dag_id, version)
    return version


async def versions(db: Database, dag_id: str = "d") -> list[int]:
    query = "SELECT number FROM dag_version WHERE dag_id = $1 ORDER BY number"
    return [row["number"] for row in await db.fetch(query, dag_id)]


async def test_versions_go_that_no_run_uses_any_more_but_never_the_newest(db: Database) -> None:
    await add_dag(db, "d")
    await add_dag(db, "e")
    keys = {n: await add_version(db, "d", n, created_at=NOON - 3 * DAY) for n in (2, 3, 4)}
    await add_version(db, "d", 5, created_at=NOON)  # unused, and too young
    await add_version(db, "d", 6, created_at=NOON - 3 * DAY, newest=True)
    await old_run(db, keys[2], "old")  # goes, and its version with it
    await old_run(db, keys[3], "runs", state="running", end_date=None)
    expected = await count_old(db, LIMIT)

    removed = await clean(db, LIMIT)

    assert removed == expected
    assert removed.versions == 2
    assert await versions(db) == [1, 3, 5, 6]  # the first was made by the database's clock, now
    assert await versions(db, "e") == [1]


async def test_versions_go_in_batches_of_the_given_partitions(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "VERSIONS_PER_BATCH", 2)
    for dag_id, partition in (("d", 3), ("e", 4)):
        await add_dag(db, dag_id, partition=partition)
        for number in range(2, 7):
            await add_version(db, dag_id, number, created_at=NOON - 3 * DAY)

    removed = await clean(db, LIMIT, partitions=[4])

    assert removed.versions == 5
    assert (await versions(db), await versions(db, "e")) == ([1, 2, 3, 4, 5, 6], [1])


async def test_the_version_of_a_run_that_is_being_created_stays(db: Database) -> None:
    await add_dag(db, "d")
    version = await add_version(db, "d", 2, created_at=NOON - 3 * DAY)
    async with db.transaction() as conn:
        await conn.execute("SELECT FROM dag_version WHERE id = $1 FOR KEY SHARE", version)  # as its foreign key does
        cleaning = asyncio.create_task(clean(db, LIMIT))
        async with db.acquire() as watching:
            await until_true(watching, SOMEBODY_WAITS)
        row = {"dag_id": "d", "run_id": "r", "partition": 0, "version_id": version, "run_type": "manual"}
        await insert(conn, "dag_run", row | {"triggered_by": "test", "state": "queued", "run_after": NOON})

    assert (await cleaning).versions == 0
    assert await versions(db) == [1, 2]


async def test_the_logs_of_runs_go_with_their_rows_and_are_counted_before(db: Database) -> None:
    version = await add_dag(db, "d")
    for run_id in ("a", "b"):
        await old_run(db, version, run_id)
    await old_run(db, version, "new", end_date=NOON)
    asked: list[RunName] = []

    async def two_each(runs: Sequence[RunName]) -> int:
        asked.extend(runs)
        return 2 * len(runs)

    expected = await count_old(db, LIMIT, count_logs=two_each)
    removed = await clean(db, LIMIT, remove_logs=two_each)

    assert removed == expected
    assert removed.log_files == 4
    assert removed.total == removed.runs + removed.task_instances + removed.tries + removed.xcoms  # rows
    assert asked == 2 * [RunName("d", "a"), RunName("d", "b")]
