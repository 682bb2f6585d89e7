"""Whatever function with statements fails for one DAG: the others go on, and afterwards that one does, too."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import types
from typing import Any, Final

import pytest

import aiosched.db.statements
from aiosched.clock import FakeClock
from aiosched.core.graph.spec import AssetRef, DagSpec, DeadlineSpec
from aiosched.errors import AioschedError
from tests.one_dag import failing, functions_of, is_about
from tests.scheduler.harness import NEW_YEAR, Running, dag, keys_of, number_runs, running, task

HOUR: Final = 3600.0
NAMES: Final = ("bad", "good", "fine")
SHARED: Final = frozenset({"ownership", "inbox", "pool_demands", "web", "retention"})  # about no DAG, or about all
PREFIX: Final = "aiosched.db.statements."


def spec_of(dag_id: str) -> DagSpec:
    return dag(
        dag_id,
        task("a", retries=1, retry_delay=60.0, has_failure_callback=True, max_active_tis_per_dag=2),
        task("waits", after="a", depends_on_past=True),
        task("defers", after="a", retries=1, retry_delay=60.0, outlets=(AssetRef(name=dag_id, uri=dag_id),)),
        task("b", after=["waits", "defers"], sla=60.0),
        schedule="0 * * * *",
        start_date=NEW_YEAR,
        end_date=NEW_YEAR.replace(hour=2),
        catchup=True,
        max_active_runs=2,
        tells_missed_slas=True,
        has_success_callback=True,
        deadlines=tuple(DeadlineSpec(reference=each, interval=60.0) for each in ("queued_at", "average_runtime")),
    )  # fmt: skip


def functions() -> dict[str, types.FunctionType]:
    """The functions of db/statements that may be about a DAG, by name."""
    found: dict[str, types.FunctionType] = {}
    for module in pkgutil.iter_modules(aiosched.db.statements.__path__, PREFIX):
        if module.name.removeprefix(PREFIX).split(".")[0] not in SHARED:
            found |= functions_of(importlib.import_module(module.name))
    return {name.removeprefix(PREFIX): function for name, function in sorted(found.items())}


async def attempts_end(it: Running) -> None:
    """All that runs ends: first tries of `a` fail, `defers` waits for a trigger, all else succeeds."""
    await it.settled()
    for _ in range(50):
        running_now, triggers = list(it.executor.running.values()), list(it.executor.triggers.values())
        callbacks = list(it.executor.callbacks.values())
        if not (running_now or triggers or callbacks):
            return
        for attempt in running_now:
            if attempt.task_id == "a" and attempt.key.try_number == 1:
                it.executor.fail(attempt)
            elif attempt.task_id == "defers" and attempt.resume is None:
                it.executor.defer(attempt)
            else:
                it.executor.succeed(attempt, value=1)
        for trigger in triggers:
            it.executor.fire(trigger)
        for callback in callbacks:
            it.executor.succeed(callback)
        await it.settled()
    raise AssertionError("attempts go on and on")


async def play(it: Running, hours: int) -> None:
    for _ in range(hours):
        await it.advance(61.0)
        await attempts_end(it)
        await it.advance(HOUR / 2)
        await attempts_end(it)
        await it.advance(HOUR / 2)
        await attempts_end(it)


async def people(it: Running, dag_id: str) -> bool:
    """What people do with a DAG; False if the fault is in the way."""
    try:
        if "by_hand" not in await it.runs(dag_id):
            await it.trigger(dag_id, "by_hand")
            await attempts_end(it)
        dates = {"from": NEW_YEAR.isoformat(), "to": NEW_YEAR.isoformat()}
        await it.ask("backfill_create", dag_id, **dates, rerun="all")
        await attempts_end(it)
        await it.ask("clear", dag_id, run_ids=["by_hand"])
        await attempts_end(it)
    except AioschedError:
        await it.settled()
        return False
    return True


async def results(it: Running, dag_id: str) -> list[tuple[Any, ...]]:
    rows = await it.fetch(
        """SELECT r.run_id, r.state, ti.task_index, ti.map_index, ti.state AS task_state
             FROM dag_run AS r JOIN task_instance AS ti ON ti.run_id = r.id
            WHERE r.dag_id = $1 ORDER BY r.run_id, ti.task_index, ti.map_index""",
        dag_id,
    )
    return [tuple(row) for row in rows]


async def scene(
    dsn: str, clock: FakeClock, function: types.FunctionType | None
) -> tuple[dict[str, list[tuple[Any, ...]]], int]:
    """The results of each DAG, and how often the function has raised: only in the first part of the time."""
    raised, keys = 0, set[int]()
    async with running(dsn, clock, *map(spec_of, NAMES), safety_poll=10.0, retention=True) as it:
        await number_runs(it)

        def is_meant(args: Any, options: Any) -> bool:
            nonlocal raised
            if (bad := it.session.cache.dags.get("bad")) is not None:
                keys.update(run.key for run in (*bad.runs.under_way(), *bad.runs.queued))
            meant = is_about((args, options), "bad", keys)
            raised += meant
            return meant

        with failing(function, is_meant) if function is not None else contextlib.nullcontext():
            await play(it, 1)
            keys |= await keys_of(it, "bad")
            await it.leave_and_come_back()
            done = {name: await people(it, name) for name in NAMES}
            await play(it, 2)
            assert {row["dag_id"] for row in await it.fetch("SELECT dag_id FROM dag_quarantine")} <= {"bad"}
            for name in NAMES[1:]:
                assert sum(state == "success" for state in (await it.runs(name)).values()) >= 3
        await it.leave_and_come_back()
        await play(it, 3)
        for name in [name for name in NAMES if not done[name]]:
            assert await people(it, name), f"{name} takes no requests"
        await play(it, 2)
        assert await it.fetch("SELECT 1 FROM callback_outbox") == []
        await it.assert_consistent()
        return {name: await results(it, name) for name in NAMES}, raised


# Functions that this scene calls about one DAG, and which stop it for a while: a quarter of them, all in nightly runs.
CALLED: Final = (
    "backfills:existing_runs", "backfills:insert_backfill", "clearing:runs_by_id", "deadlines:average_runtime",
    "deadlines:mark_missed", "deadlines:prune", "deadlines:store_deadlines", "journal:delete_xcoms",
    "journal:insert_tries", "journal:upsert_xcoms", "journal:write", "outbox:Delivery.call", "outbox:insert_callbacks",
    "rehydration:load_states", "rehydration:runs_before", "runs:insert_runs", "runs:load_readable_instances",
    "runs:load_readable_runs",
    "runs:set_next_runs", "schedules:schedule_positions", "slas:done_tasks", "slas:newest_misses", "slas:newest_runs",
    "slas:record_misses", "triggers:deferral_row", "triggers:delete_deferrals", "triggers:load_deferrals",
    "triggers:store_deferrals",
)  # fmt: skip
NIGHTLY: Final = os.environ.get("AIOSCHED_NIGHTLY") == "1"


TRIED = CALLED if NIGHTLY else CALLED[1::4]


@pytest.mark.parametrize("name", [TRIED[0], *(pytest.param(name, marks=pytest.mark.slow) for name in TRIED[1:])])
async def test_a_function_with_statements_that_fails_for_one_dag_concerns_no_other(
    dsn: str, clock: FakeClock, name: str
) -> None:
    found, raised = await scene(dsn, clock, functions()[name])

    assert raised, f"{name} was never called about the DAG"
    assert found["bad"] == found["good"] == found["fine"]
    assert {row[4] for row in found["bad"]} == {"success"}


@pytest.mark.slow  # it tests the list of those below
async def test_the_scene_calls_what_it_is_said_to_call(dsn: str, clock: FakeClock) -> None:
    found, raised = await scene(dsn, clock, None)

    assert raised == 0
    assert set(CALLED) <= set(functions())
    assert [len(rows) for rows in found.values()] == [16, 16, 16]
