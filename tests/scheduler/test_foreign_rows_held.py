"""A scheduler among rows of another version, and broken ones: the DAGs beside them go on."""

from __future__ import annotations

import pytest

from aiosched.clock import FakeClock
from aiosched.db.server.engine import Database
from tests.foreign_rows import CHANGES, make_foreign, seed
from tests.scheduler.harness import dag, register, running, task

# What is under way: all of it is read when the scheduler starts.
UNDER_WAY = """
    UPDATE dag_run SET state = 'running', end_date = NULL WHERE state = 'success';
    UPDATE task_instance SET state = 'up_for_retry' WHERE task_index = 0;
    UPDATE callback_outbox SET given_up_at = NULL;
    UPDATE request SET state = 'waiting', applied_at = NULL;
    UPDATE backfill SET completed_at = NULL;
    INSERT INTO asset_queue (dag_id, asset_id, partition, first_at, newest_at)
    SELECT 'sales', a.id, d.partition, now(), now() FROM asset AS a, dag AS d WHERE d.dag_id = 'sales';
    DELETE FROM scheduler
"""


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("change", CHANGES)
async def test_rows_that_mean_nothing_stop_no_other_dag(dsn: str, clock: FakeClock, db: Database, change: str) -> None:
    await seed(db)
    await db.execute(UNDER_WAY)
    await make_foreign(db, CHANGES[change])
    await register(db, dag("good", task("a"), task("b", after="a")), dag("fine"))

    async with running(dsn, clock) as it:
        for dag_id in ("good", "fine"):
            await it.trigger(dag_id, "r")
        await it.advance(61.0)
        await it.finish("a", "b", dag_id="good")
        await it.finish("a", dag_id="fine")

        assert [await it.runs(dag_id) for dag_id in ("good", "fine")] == [{"r": "success"}] * 2
        found = {row["dag_id"] for row in await it.fetch("SELECT dag_id FROM dag_quarantine")}
        assert found <= {"sales", "held"}
