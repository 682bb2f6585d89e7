"""Whichever statement fails while a request is applied: what it did, and its answer, are stored together.

Applied again from its beginning, a request finds what it was to do done already, and would be refused.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from tests.faults.injection import When, faults, nth
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, Running, dag, register, running

_START, _PAUSED = NEW_YEAR - timedelta(days=9), {"is_paused_upon_creation": True}
_MOST = 60  # statements until a request is answered
Arguments = dict[str, Any]


async def _a_queued_run(it: Running, dag_id: str) -> Arguments:
    later = NEW_YEAR + timedelta(days=365)
    await it.ask("trigger", dag_id, run_id="r", run_after=later.isoformat())
    return {"run_id": "r"}


async def _nothing_to_name(it: Running, dag_id: str) -> Arguments:
    return {}


async def _a_backfill(it: Running, dag_id: str) -> Arguments:
    dates = {"from": (NEW_YEAR - timedelta(days=3)).isoformat(), "to": (NEW_YEAR - timedelta(days=2)).isoformat()}
    return {"id": (await it.ask("backfill_create", dag_id, **dates))["id"]}


Prepare = Callable[[Running, str], Awaitable[Arguments]]
REQUESTS: dict[str, Prepare] = {
    "cancel_run": _a_queued_run,
    "delete_dag": _nothing_to_name,
    "backfill_cancel": _a_backfill,
}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "verb", [pytest.param(verb, marks=pytest.mark.slow) if verb == "delete_dag" else verb for verb in REQUESTS]
)
async def test_what_a_request_did_and_its_answer_are_stored_together(
    dsn: str, clock: FakeClock, verb: str, when: When
) -> None:
    async with (
        await Database.open(dsn, application_name="test") as db,
        db.acquire() as people,
    ):
        with faults() as injected:
            async with running(dsn, clock) as it:
                for number in range(1, _MOST):
                    dag_id = f"d{number}"
                    await register(it.db, dag(dag_id, schedule=timedelta(days=1), start_date=_START, **_PAUSED))
                    await it.until(lambda wanted=dag_id: wanted in it.session.cache.dags, "the DAG")
                    args = await REQUESTS[verb](it, dag_id)
                    injected.calls, injected.fail = 0, nth(number, when)

                    answer = await _answered(people, verb, dag_id, args)

                    injected.fail = lambda *_: None
                    assert answer[0] == "applied", (number, answer, injected.fired)
                    if not injected.fired:
                        return  # all have failed in turn
                    injected.fired.clear()
                    await it.settled()
    pytest.fail(f"more than {_MOST} statements")


async def _answered(people: DatabaseConnection, verb: str, dag_id: str, args: Arguments) -> tuple[str, Arguments]:
    """Ask, and wait for the answer."""
    request = await inbox.send_request(people, verb=verb, dag_id=dag_id, args=args, requested_by="test")
    async with asyncio.timeout(PATIENCE):
        while True:
            state, result = await people.fetchrow("SELECT state, result FROM request WHERE id = $1", request)
            if state != "waiting":
                return state, json.loads(result)
            await asyncio.sleep(0.002)
