"""A scheduler whose connection breaks at any statement, before it is sent or before it is answered.

The process lives on: it forgets what it holds, reads again, and every task is run exactly once.
"""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec
from aiosched.core.values.messages import Attempt, SkipDecision
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from tests.databases import TEMPLATE, Server
from tests.faults.injection import When, faults, nth, once
from tests.patience import PATIENCE
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
            await inbox.send_request(conn, verb=verb, dag_id=dag_id, args=args, requested_by="test")


def order(executor: ScriptedExecutor, dag_id: str) -> list[str]:
    """The tasks of a DAG whose attempts were handed out, in order."""
    return [attempt.task_id for attempt in executor.submitted if attempt.run.dag_id == dag_id]


def bumpy(executor: ScriptedExecutor, attempt: Attempt) -> None:
    """The first try of `retried` fails, `sensor` asks to be called again once, `branch` goes left."""
    calls = order(executor, attempt.run.dag_id).count(attempt.task_id)
    if attempt.task_id == "retried" and attempt.key.try_number == 1:
        executor.fail(attempt)
    elif attempt.task_id == "sensor" and calls == 1:
        executor.reschedule(attempt, executor.clock.now() + timedelta(seconds=1))
    elif attempt.task_id == "branch":
        executor.succeed(attempt, value="left", skip=SkipDecision(followed=("left",)))
    else:
        executor.succeed(attempt, value=attempt.task_id)


SCENARIOS: dict[str, tuple[DagSpec, Any, list[str]]] = {
    "a scheduled chain": (
        chain("chain", 3, schedule="@once", start_date=NEW_YEAR),
        succeeding,
        ["t0", "t1", "t2"],
    ),
    "a retry, a reschedule and a branch": (
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
        bumpy,
        ["branch", "left", "retried", "retried", "sensor", "sensor"],
    ),
}


async def play(it: Running, expected: dict[str, dict[str, str]]) -> None:
    """Let time pass until the runs are as expected."""

    async def arrived() -> bool:
        return all([await it.runs(dag_id) == runs for dag_id, runs in expected.items()])

    async with asyncio.timeout(PATIENCE):
        while not await arrived():
            await it.advance(2)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "scenario", ["a scheduled chain", pytest.param("a retry, a reschedule and a branch", marks=pytest.mark.slow)]
)
async def test_whichever_statement_fails_every_task_runs_once_and_all_ends_well(
    dsn: str, clock: FakeClock, scenario: str, when: When
) -> None:
    """One scheduler lives through all of it; for each statement it gets a DAG more."""
    spec, script, tasks = SCENARIOS[scenario]
    executor = ScriptedExecutor(clock, script=script)
    with faults() as injected:
        async with running(dsn, clock, executor=executor, retention=True) as it:
            for number in itertools.count(1):
                dag_id = f"{spec.dag_id}{number}"
                injected.fired.clear()
                injected.calls, injected.fail = 0, nth(number, when)
                try:
                    await register(it.db, msgspec.structs.replace(spec, dag_id=dag_id))
                    await play(it, {dag_id: {f"scheduled__{NEW_YEAR.isoformat()}": "success"}})
                    assert sorted(order(executor, dag_id)) == tasks
                    injected.fail = lambda *_: None
                    await it.assert_consistent()
                except BaseException as error:
                    error.add_note(f"statement {number} failed {when}: {injected.fired}")
                    raise
                if not injected.fired:
                    break
    assert number > 8


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
async def test_whichever_statement_fails_from_the_start_on_every_request_is_answered_once(
    server: Server, when: When
) -> None:
    """Each statement fails to a scheduler of its own, which finds DAGs and requests when it starts."""
    specs = dag("requested"), dag("paused", task("p"), schedule="@once", start_date=NEW_YEAR)
    expected: dict[str, dict[str, str]] = {
        "requested": {"kept": "success", "later": "failed", "stopped": "failed"}, "paused": {},
    }  # fmt: skip
    for number in itertools.count(1):
        dsn, clock = await server.create(TEMPLATE), FakeClock(NEW_YEAR)
        async with await Database.open(dsn, application_name="test") as db:
            await register(db, *specs)
            await leave_requests(db)
        with faults() as injected:
            executor = ScriptedExecutor(clock, script=succeeding)
            try:
                async with running(dsn, clock, executor=executor, settle=False, retention=True) as it:
                    injected.calls, injected.fail = 0, nth(number, when)
                    await play(it, expected)
                    assert executor.order() == ["a"]
                    injected.fail = lambda *_: None
                    await it.assert_consistent()
            except BaseException as error:
                error.add_note(f"statement {number} failed {when}: {injected.fired}")
                raise
        await server.drop(dsn)
        if not injected.fired:
            break
    assert number > 8


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "part", ["BEGIN; SELECT 1 FROM scheduler", "FROM pool WHERE name", "UPDATE task_instance", "INTO xcom", "COMMIT"]
)
async def test_a_hot_transaction_that_fails_loses_no_claim_and_no_report(
    dsn: str, clock: FakeClock, part: str, when: When
) -> None:
    with faults() as injected:
        async with running(dsn, clock, chain("d", 2), retention=True) as it:
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
