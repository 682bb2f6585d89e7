"""Statements on missed SLAs: db/statements/slas.py."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from aiosched.db.server.engine import Database
from aiosched.db.statements.slas import (
    Miss,
    blocking_instances,
    done_tasks,
    latest_misses,
    misses_of_callback,
    record_misses,
)
from tests.cli.records import NOON, add_dag, add_run, add_task

MISSES = [Miss(1, "sales", "load", NOON), Miss(1, "sales", "extract", NOON)]


async def record(db: Database, notify: dict[str, int]) -> Any:
    async with db.transaction() as conn:
        return await record_misses(conn, MISSES, NOON, notify=notify)


async def test_two_who_record_the_same_record_it_once_and_one_callback_tells_of_it(db: Database) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r", logical_date=NOON)

    results = await asyncio.gather(*(record(db, {"sales": run}) for _ in range(3)))

    (new, callbacks), *others = sorted(results, key=lambda result: -len(result[0]))
    assert new == [("sales", "extract"), ("sales", "load")]
    assert [tuple(waiting) for waiting in callbacks.values()] == [(1, "sales")]
    assert others == [([], {}), ([], {})]
    async with db.acquire() as conn:
        told = await misses_of_callback(conn, run, next(iter(callbacks)))
        shown = await latest_misses(conn, "sales", limit=1)
    assert [miss.task_id for miss in told] == ["extract", "load"]
    assert shown == told[:1]


async def test_nothing_is_recorded_for_a_dag_that_was_deleted_meanwhile(db: Database) -> None:
    assert await record(db, {"sales": 1}) == ([], {})


async def test_a_mapped_task_is_done_when_all_its_instances_are(db: Database) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r")
    states = (("success", "skipped"), ("success", "failed"), ("success", None), ("removed", "success"), ("removed",))
    for index, found in enumerate(states):
        for map_index, state in enumerate(found):
            await add_task(db, run, index, state, map_index=map_index)

    async with db.acquire() as conn:
        assert await done_tasks(conn, [(run, index) for index in range(6)]) == {(run, 0), (run, 3)}


async def test_what_blocks_are_the_instances_of_these_dates_that_are_not_in_success(db: Database) -> None:
    version = await add_dag(db, "sales")
    late = await add_run(db, "sales", version, "late", logical_date=NOON)
    fine = await add_run(db, "sales", version, "fine", logical_date=NOON + timedelta(days=1))
    theirs = await add_run(db, "other", await add_dag(db, "other"), "late", logical_date=NOON)
    for run in (late, fine, theirs):
        await add_task(db, run, 0, "success")
        await add_task(db, run, 1, "running" if run == late else None, try_number=2)

    async with db.acquire() as conn:
        (one,) = await blocking_instances(conn, fine, [NOON])

    assert (one.dag_id, one.task_id, one.run_id, one.state, one.try_number) == ("sales", "load", "late", "running", 2)
