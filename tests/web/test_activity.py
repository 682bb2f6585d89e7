"""The first page: runs an hour, failures by error, and runs that take longer than usual."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx2

from aiosched.db.server.engine import Database
from tests.cli.records import add_dag, add_run, add_task


async def test_a_day_of_runs_by_hour_and_the_errors_of_those_that_failed(db: Database, api: httpx2.AsyncClient) -> None:
    now = datetime.now(UTC)
    version = await add_dag(db, "sales")
    for number, (state, age) in enumerate((("success", 3), ("success", 3), ("failed", 2), ("failed", 40))):
        at = now - timedelta(hours=age)
        run = await add_run(db, "sales", version, f"r{number}", state=state, start_date=at, end_date=at)
        if state == "failed":
            await add_task(db, run, 1, "failed", reason=f"ValueError: row {number}", end_date=at)

    found = (await api.get("activity")).json()

    assert len(found["hours"]) == 24
    assert [hour["states"] for hour in found["hours"] if hour["states"]] == [{"success": 2}, {"failed": 1}]
    (error,) = found["errors"]
    assert (error["number"], error["dags"], error["words"]) == (1, ["sales"], "ValueError: row 2")
    assert (error["run_id"], error["task_id"], error["search"]) == ("r2", "load", "ValueError: row")


async def test_what_runs_longer_than_usual_needs_attention(db: Database, api: httpx2.AsyncClient) -> None:
    now = datetime.now(UTC)
    for dag_id, running in (("slow", timedelta(minutes=138)), ("quick", timedelta(minutes=101))):
        version = await add_dag(db, dag_id)
        for number in range(3):
            at = now - timedelta(days=3 - number)
            end = at + timedelta(minutes=100)
            await add_run(db, dag_id, version, f"r{number}", state="success", start_date=at, end_date=end)
        await add_run(db, dag_id, version, "now", state="running", start_date=now - running)

    slow = [one for one in (await api.get("summary")).json()["attention"] if one["kind"] == "slow"]

    assert [(one["words"], one["run_id"]) for one in slow] == [
        ("slow has been running for 2 h 18 m, 38% longer than usual", "now")
    ]
