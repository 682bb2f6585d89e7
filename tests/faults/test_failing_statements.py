"""A scheduler whose connection breaks at any statement, before it is sent or before it is answered.

The process lives on: it forgets what it holds, reads again, and every task is run exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec
from aiosched.core.values.messages import Attempt, SkipDecision
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from tests.databases import TEMPLATE, Server
from tests.faults.injection import When, faults, nth, once
from tests.scheduler.harness import (
    NEW_YEAR,
    Running,
    ScriptedExecutor,
    chain,
    dag,
    register,
    running,
    succeeding,
    task,
)

HOUR = timedelta(hours=1)
Prepare = Callable[[Database], Awaitable[None]]


async def nothing(db: Database) -> None:
    """Nothing to prepare."""


async def leave_requests(db: Database) -> None:
    async with db.acquire() as conn:
        for verb, dag_id, args in (
            ("trigger", "requested", {"run_id": "kept"}),
            ("trigger", "requested", {"run_id": "later", "run_after": (NEW_YEAR + HOUR).isoformat()}),
            ("cancel_run", "requested", {"run_id": "later"}),
            ("trigger", "requested", {"run_id": "stopped", "run_after": (NEW_YEAR - HOUR).isoformat()}),
            ("cancel_run", "requested", {"run_id": "stopped"}),
            ("pause", "paused", {}),
        ):
            await inbox.add_command(conn, verb=verb, dag_id=dag_id, args=args, requested_by="test")


def bumpy(executor: ScriptedExecutor, attempt: Attempt) -> None:
    """The first try of `retried` fails, `sensor` asks to be called again once, `branch` goes left."""
    calls = executor.order().count(attempt.task_id)
    if attempt.task_id == "retried" and attempt.key.try_number == 1:
        executor.fail(attempt)
    elif attempt.task_id == "sensor" and calls == 1:
        executor.reschedule(attempt, executor.clock.now() + timedelta(seconds=1))
    elif attempt.task_id == "branch":
        executor.succeed(attempt, value="left", skip=SkipDecision(followed=("left",)))
    else:
        executor.succeed(attempt, value=attempt.task_id)


SCENARIOS: dict[str, tuple[tuple[DagSpec, ...], Prepare, Any, dict[str, dict[str, str]], list[str]]] = {
    "a scheduled chain": (
        (chain("chain", 3, schedule="@once", start_date=NEW_YEAR),),
        nothing,
        succeeding,
        {"chain": {f"scheduled__{NEW_YEAR.isoformat()}": "success"}},
        ["t0", "t1", "t2"],
    ),
    "a retry, a reschedule and a branch": (
        (
            dag(
                "bumpy",
                task("branch", can_skip_downstream=True),
                task("left", after="branch", pool_slots=2),
                task("right", after="branch"),
                task("retried", retries=1, retry_delay=1.0),
                task("sensor"),
                schedule="@once",
                start_date=NEW_YEAR,
            ),
        ),
        nothing,
        bumpy,
        {"bumpy": {f"scheduled__{NEW_YEAR.isoformat()}": "success"}},
        ["branch", "left", "retried", "retried", "sensor", "sensor"],
    ),
    "requests": (
        (dag("requested"), dag("paused", task("p"), schedule="@once", start_date=NEW_YEAR)),
        leave_requests,
        succeeding,
        {"requested": {"kept": "success", "later": "failed", "stopped": "failed"}, "paused": {}},
        ["a"],
    ),
}


async def play(it: Running, expected: dict[str, dict[str, str]]) -> None:
    """Let time pass until the runs are as expected."""

    async def arrived() -> bool:
        return all([await it.runs(dag_id) == runs for dag_id, runs in expected.items()])

    async with asyncio.timeout(20):
        while not await arrived():
            await it.advance(2)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_whichever_statement_fails_every_task_runs_once_and_all_ends_well(
    server: Server, scenario: str, when: When
) -> None:
    specs, prepare, script, expected, tasks = SCENARIOS[scenario]
    number = 0
    while True:
        number += 1
        dsn, clock = await server.create(TEMPLATE), FakeClock(NEW_YEAR)
        async with await Database.open(dsn, application_name="test") as db:
            await register(db, *specs)
            await prepare(db)
        with faults() as injected:
            executor = ScriptedExecutor(clock, script=script)
            try:
                async with running(dsn, clock, executor=executor, settle=False) as it:
                    injected.calls, injected.fail = 0, nth(number, when)
                    await play(it, expected)
                    assert sorted(executor.order()) == tasks
                    injected.fail = lambda *_: None
                    await it.assert_consistent()
            except BaseException as error:
                error.add_note(f"statement {number} failed {when}: {injected.fired}")
                raise
        await server.drop(dsn)
        if not injected.fired:
            break
    assert number > 8


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "part", ["BEGIN; SELECT 1 FROM scheduler", "FROM pool WHERE name", "UPDATE task_instance", "INTO xcom", "COMMIT"]
)
async def test_a_hot_transaction_that_fails_loses_no_claim_and_no_report(
    dsn: str, clock: FakeClock, part: str, when: When
) -> None:
    with faults() as injected:
        async with running(dsn, clock, chain("d", 2)) as it:
            injected.fail = once(part, when)
            await it.trigger("d", "r")
            for task_id in ("t0", "t1"):
                it.executor.succeed(await it.attempt(task_id), value=task_id)
                await it.settled()

            assert len(injected.fired) == 1
            assert it.scheduler.metrics.recoveries == 1
            assert len(await it.fetch("SELECT 1 FROM xcom")) == 2
            assert await it.runs("d") == {"r": "success"}
            assert it.executor.order() == ["t0", "t1"]
            await it.assert_consistent()
