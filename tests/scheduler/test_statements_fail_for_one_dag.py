"""Whatever function with statements fails for one DAG: the others go on, and afterwards that one does, too."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import types
from typing import Any, Final

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
        task("defers", after="a", retries=1, retry_delay=60.0, outlets=(AssetRef(name=f"of_{dag_id}", uri=f"of_{dag_id}"),)),
        task("b", after=["waits", "defers"], sla=60.0),
        schedule="0 * * * *",
        start_date=NEW_YEAR,
        end_date=NEW_YEAR.replace(hour=2),
        catchup=True,
        max_active_runs=2,
        tells_missed_slas=True,
        has_success_callback=True,
        deadlines=(DeadlineSpec(reference="queued_at", interval=60.0), DeadlineSpec(reference="average_runtime", interval=60.0)),
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
        await it.ask(
            "backfill_create", dag_id, **{"from": NEW_YEAR.isoformat(), "to": NEW_YEAR.isoformat()}, rerun="all"
        )
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
) -> tuple[dict[str, Any], list[str], int]:
    """Results of each DAG, what became of the fault, and how often it was raised: the first part with it, then without."""
    raised, keys = 0, set[int]()
    signs: list[str] = []
    async with running(dsn, clock, *map(spec_of, NAMES), safety_poll=10.0) as it:
        await number_runs(it)

        def is_meant(args: Any, options: Any) -> bool:
            nonlocal raised
            for dag_id in it.session.cache.dags.keys() & {"bad"}:
                dag_held = it.session.cache.dags[dag_id]
                keys.update(run.key for run in (*dag_held.under_way(), *dag_held.queued))
            meant = is_about((args, options), "bad", keys)
            raised += meant
            return meant

        done = dict.fromkeys(NAMES, False)
        with failing(function, is_meant) if function is not None else contextlib.nullcontext():
            await play(it, 1)
            keys |= await keys_of(it, "bad")
            await it.leave_and_come_back()
            for name in NAMES:
                done[name] = await people(it, name)
            await play(it, 2)
            metrics = it.scheduler.metrics
            signs += ["quarantine"] * bool(metrics.quarantines) + ["restarted loop"] * bool(metrics.restarted_loops)
            quarantined_now = {row["dag_id"] for row in await it.fetch("SELECT dag_id FROM dag_quarantine")}
            assert quarantined_now <= {"bad"}
            others = {name: await results(it, name) for name in NAMES if name != "bad"}
            assert it.scheduler.is_running
        await it.leave_and_come_back()
        await play(it, 3)
        for name in NAMES:
            if not done[name]:
                assert await people(it, name), f"{name} takes no requests"
        await play(it, 2)
        assert await it.fetch("SELECT 1 FROM callback_outbox") == []
        await it.assert_consistent()
        return {"bad": await results(it, "bad"), **others}, signs, raised
