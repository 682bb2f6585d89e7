"""The first page: runs an hour, failures by error, and runs that take longer than usual."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.clock import FakeClock
from aiosched.db.server.engine import Database
from tests.cli.records import add_dag, add_run, add_task, insert, own


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


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ((None, None), "waits"),  # as for the run before, with depends_on_past
        (("success", "scheduled"), "waits"),  # for a pool
        (("success", "skipped"), "runs"),  # it ends soon
        (("running", None), "runs"),
        (("deferred", None), "runs"),
        (("up_for_retry", None), "runs"),
    ],
)
async def test_a_run_that_only_waits_is_not_called_slow(
    db: Database, app: FastAPI, api: httpx2.AsyncClient, states: tuple[str | None, ...], words: str
) -> None:
    now = datetime.now(UTC)
    app.state.request_client.clock = FakeClock(now)
    version = await add_dag(db, "sales")
    for number in range(3):
        at = now - timedelta(days=3 - number)
        await add_run(db, "sales", version, f"r{number}", state="success", start_date=at, end_date=at)
    run = await add_run(db, "sales", version, "now", state="running", start_date=now - timedelta(minutes=138))
    for index, state in enumerate(states):
        await add_task(db, run, index, state)

    (slow,) = [one for one in (await api.get("summary")).json()["attention"] if one["kind"] == "slow"]

    expected = {
        "waits": "run now of sales has not ended after 2 h 18 m: no task of it is at work now",
        "runs": "run now of sales has been running for 2 h 18 m",
    }
    assert slow["words"] == expected[words]


async def test_what_runs_longer_than_usual_needs_attention(db: Database, app: FastAPI, api: httpx2.AsyncClient) -> None:
    now = datetime.now(UTC)
    app.state.request_client.clock = FakeClock(now)
    for dag_id, running in (("slow", timedelta(minutes=138)), ("quick", timedelta(minutes=101))):
        version = await add_dag(db, dag_id)
        for number in range(3):
            at = now - timedelta(days=3 - number)
            end = at + timedelta(minutes=100)
            await add_run(db, dag_id, version, f"r{number}", state="success", start_date=at, end_date=end)
        await add_run(db, dag_id, version, "now", state="running", start_date=now - running)

    slow = [one for one in (await api.get("summary")).json()["attention"] if one["kind"] == "slow"]

    assert [(one["words"], one["run_id"]) for one in slow] == [
        ("run now of slow has been running for 2 h 18 m, 38% longer than usual", "now")
    ]


async def test_what_the_database_has_lost_needs_attention_for_a_week(db: Database, api: httpx2.AsyncClient) -> None:
    await db.execute(
        "INSERT INTO lost_span (noticed_at, lost_from, lost_to, noticed_by)"
        " SELECT now() - ago, '2026-01-01 12:00+0', '2026-01-01 12:00:05+0', 'one'"
        " FROM unnest(ARRAY[interval '6 days', interval '8 days']) AS ago"
    )

    (found,) = [one for one in (await api.get("summary")).json()["attention"] if one["kind"] == "lost"]

    words = "what was stored from 2026-01-01 12:00:00 to 2026-01-01 12:00:05 UTC may be lost"
    assert found["words"] == f"the database went back: {words}"


async def test_what_tasks_wait_for_in_vain_needs_somebody_as_a_full_pool_does(
    db: Database, api: httpx2.AsyncClient
) -> None:
    small, gone = "pool 'small': needs 5 slots, has 3 in all", "pool 'gone' does not exist: create it"
    in_vain = [["pool", "small", small, 1], ["pool", "gone", gone, 3], ["executor", "dask", "executor 'dask' …", 1]]
    figures = {"waiting": {"default_pool": 7, "full": 2, "small": 2, "gone": 3, "idle": 0}, "in_vain": in_vain}
    await own(db, figures=json.dumps(figures))
    async with db.acquire() as conn:
        await insert(conn, "pool", {"name": "full", "slots": 1, "used": 1})
        await insert(conn, "pool", {"name": "small", "slots": 3, "used": 0})

    found = [one for one in (await api.get("summary")).json()["attention"] if one["kind"] == "pool"]
    listed = (await api.get("pools", params={"limit": 1})).json()

    assert [(one["pool"], one["words"]) for one in found] == [
        (None, f"{gone}; 3 tasks wait"),
        ("small", f"{small}; 1 task waits"),
        ("full", "pool 'full': its slot is occupied, 2 tasks wait"),
        (None, "executor 'dask' …; 1 task waits"),
    ]
    assert [one["words"] for one in listed["starving"]] == [one["words"] for one in found]
    assert (await api.get("pools", params={"cursor": listed["next_cursor"]})).json()["starving"] == []
