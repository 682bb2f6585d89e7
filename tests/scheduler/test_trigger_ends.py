"""Triggers that end their task, and tasks that begin in their trigger: the semantics reference, section 25.6."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import AssetRef, LiteralLength, MappingSpec, TaskSpec
from aiosched.core.values.messages import AssetTouch, Attempt, Deferral, Outcome, XComValue
from tests.scheduler.harness import NEW_YEAR, Running, dag, running, task

WAIT = Deferral(classpath="triggers.Wait", kwargs='{"n": 1}', next_method="go_on", next_kwargs='{"a": 1}')


async def deferred(it: Running, task_id: str = "a", run_id: str = "r") -> Attempt:
    it.executor.defer(await it.attempt(task_id, run_id))
    await it.settled()
    return await it.trigger_of(task_id, run_id)


async def ended(it: Running, trigger: Attempt, outcome: Outcome, **facts: Any) -> None:
    it.executor.report(trigger, outcome, ends=True, **facts)
    await it.settled()


def beginning(task_id: str = "a", **options: Any) -> TaskSpec:
    return task(task_id, starts_deferred=WAIT, **options)


# -- ends -------------------------------------------------------------------------------------


async def test_a_success_is_stored_with_its_values_and_assets_and_no_worker_goes_on(dsn: str, clock: FakeClock) -> None:
    orders = AssetRef(name="orders", uri="orders")
    specs = (
        dag("d", task("a", outlets=(orders,), has_success_callback=True), task("b", after="a")),
        dag("reads", schedule=None),
    )
    async with running(dsn, clock, *specs) as it:
        await it.execute("INSERT INTO asset (name, uri) VALUES ('orders', 'orders') ON CONFLICT DO NOTHING")
        await it.trigger("d", "r")
        trigger = await deferred(it)
        await it.advance(3)
        touch = AssetTouch(name="orders", uri="orders")

        await ended(it, trigger, Outcome.SUCCESS, xcoms=(XComValue("return_value", "5"),), assets=(touch,))

        a = await it.instance("a", "r")
        assert (a["state"], a["try_number"], a["end_date"]) == ("success", 1, NEW_YEAR + timedelta(seconds=3))
        assert await it.fetch("SELECT key, value FROM xcom") == [("return_value", "5")]
        assert await it.fetch("SELECT count(*) FROM deferred_trigger") == [(0,)]
        assert await it.fetch("SELECT source_dag_id FROM asset_event") == [("d",)]
        callback = await it.callback()
        assert callback.callback is not None
        assert (callback.callback.kind, callback.callback.task_id) == ("task_success", "a")
        it.executor.report(callback, Outcome.SUCCESS)
        await it.finish("b")
        assert [attempt.task_id for attempt in it.executor.submitted] == ["a", "b"]
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_a_failure_spends_a_retry_and_the_next_try_begins_at_the_beginning(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a", retries=1, retry_delay=60.0))) as it:
        await it.trigger("d", "r")
        await ended(it, await deferred(it), Outcome.FAILED, reason="refused")
        a = await it.instance("a", "r")
        assert (a["state"], a["reason"]) == ("up_for_retry", "refused")
        assert await it.fetch("SELECT try_number, state, reason FROM task_try") == [(1, "failed", "refused")]

        await it.advance(61)

        again = await it.attempt("a")
        assert (again.key.try_number, again.resume) == (2, None)
        await ended(it, await deferred(it), Outcome.FAILED, reason="refused again")
        assert await it.runs("d") == {"r": "failed"}
        await it.assert_consistent()


async def test_a_skip_skips_what_is_behind_it(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b", after="a"))) as it:
        await it.trigger("d", "r")

        await ended(it, await deferred(it), Outcome.SKIPPED)

        assert await it.states("r") == {"a": "skipped", "b": "skipped"}
        await it.assert_consistent()


async def test_a_lost_connection_neither_loses_nor_doubles_an_end(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        trigger = await deferred(it)
        await it.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'aiosched journal'"
            " AND datname = current_database()"
        )

        it.executor.report(trigger, Outcome.SUCCESS, ends=True, xcoms=(XComValue("k", "1"),))
        await it.until(lambda: [event.kind for event in it.events][-1:] == ["run_finished"], "the end of the run")

        assert await it.runs("d") == {"r": "success"}
        assert await it.fetch("SELECT key, value FROM xcom") == [("k", "1")]
        assert len(it.executor.without_slot) == 1
        await it.assert_consistent()


async def test_a_pool_that_includes_deferred_tasks_gets_its_slots_back(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a", pool="etl"))) as it:
        await it.execute("INSERT INTO pool (name, slots, include_deferred) VALUES ('etl', 1, true)")
        await it.trigger("d", "r")
        trigger = await deferred(it)
        assert await it.fetch("SELECT used FROM pool WHERE name = 'etl'") == [(1,)]

        await ended(it, trigger, Outcome.SUCCESS)

        assert await it.fetch("SELECT used FROM pool WHERE name = 'etl'") == [(0,)]
        await it.assert_consistent()


async def test_instances_of_a_mapped_task_end_one_by_one(dsn: str, clock: FakeClock) -> None:
    mapped = task("a", mapping=MappingSpec(inputs=(LiteralLength(3),)), starts_deferred=WAIT)
    async with running(dsn, clock, dag("d", mapped)) as it:
        await it.trigger("d", "r")
        await it.until(lambda: len(it.executor.triggers) == 3, "three triggers")
        for number, trigger in enumerate(sorted(it.executor.triggers.values(), key=lambda t: t.key.map_index)):
            await ended(it, trigger, Outcome.SUCCESS, xcoms=(XComValue("return_value", str(number)),))

        assert await it.runs("d") == {"r": "success"}
        rows = await it.fetch("SELECT map_index, value FROM xcom ORDER BY map_index")
        assert rows == [(0, "0"), (1, "1"), (2, "2")]
        assert it.executor.submitted == []
        await it.assert_consistent()


# -- begins -----------------------------------------------------------------------------------


async def test_a_task_begins_in_its_trigger_in_one_commit_and_goes_on_in_a_worker(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("first"), beginning(after="first"))) as it:
        await it.trigger("d", "r")
        before = it.scheduler.metrics.journal_commit.count

        await it.finish("first")

        trigger = await it.trigger_of("a")
        assert it.scheduler.metrics.journal_commit.count - before <= 2, "its start was stored, too"
        a = await it.instance("a", "r")
        assert (a["state"], a["try_number"], a["queued_at"], a["start_date"]) == ("deferred", 1, None, NEW_YEAR)
        await it.assert_consistent()
        it.executor.fire(trigger, "now")
        resumed = await it.attempt("a")
        assert resumed.resume is not None
        assert (resumed.resume.next_method, resumed.resume.event, resumed.key.try_number) == ("go_on", '"now"', 1)
        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_it_needs_no_slot_of_anything(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("busy", pool="etl"), beginning(pool="etl"), max_active_tasks=1)
    async with running(dsn, clock, spec, parallelism=1) as it:
        await it.execute("INSERT INTO pool (name, slots) VALUES ('etl', 1)")

        await it.trigger("d", "r")

        assert await it.states("r") == {"busy": "queued", "a": "deferred"}
        await it.assert_consistent()


async def test_a_pool_that_includes_deferred_tasks_keeps_it_waiting(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("busy", pool="etl", priority_weight=5), beginning(pool="etl"))) as it:
        await it.execute("INSERT INTO pool (name, slots, include_deferred) VALUES ('etl', 1, true)")
        await it.trigger("d", "r")
        a = await it.instance("a", "r")
        assert (a["state"], a["reason"]) == ("scheduled", "pool 'etl': needs 1 slot, 0 of 1 open")

        await it.finish("busy")

        assert await it.states("r") == {"busy": "success", "a": "deferred"}
        assert await it.fetch("SELECT used FROM pool WHERE name = 'etl'") == [(1,)]
        await it.assert_consistent()
        await ended(it, await it.trigger_of("a"), Outcome.SUCCESS)
        assert await it.fetch("SELECT used FROM pool WHERE name = 'etl'") == [(0,)]


@pytest.mark.parametrize("limit", ["max_active_tis_per_dag", "max_active_tis_per_dagrun"])
async def test_the_limits_of_its_task_keep_it_waiting(dsn: str, clock: FakeClock, limit: str) -> None:
    options: dict[str, Any] = {limit: 2}
    mapped = task("a", mapping=MappingSpec(inputs=(LiteralLength(3),)), starts_deferred=WAIT, **options)
    async with running(dsn, clock, dag("d", mapped)) as it:
        await it.trigger("d", "r")
        assert len(it.executor.triggers) == 2
        await it.assert_consistent()

        await ended(it, next(iter(it.executor.triggers.values())), Outcome.SUCCESS)

        assert len(it.executor.triggers) == 2
        for trigger in list(it.executor.triggers.values()):
            await ended(it, trigger, Outcome.SUCCESS)
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_a_paused_dag_begins_none(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("first"), beginning(after="first"))) as it:
        await it.trigger("d", "r")
        first = await it.attempt("first")
        await it.ask("pause", "d")
        it.executor.succeed(first)
        await it.settled()
        assert not it.executor.triggers

        await it.ask("unpause", "d")

        assert (await it.trigger_of("a")).task_id == "a"
        await it.assert_consistent()


async def test_a_restart_runs_the_trigger_again_and_the_event_goes_to_the_same_try(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", beginning())) as it:
        await it.trigger("d", "r")
        await it.trigger_of("a")

    async with running(dsn, clock) as again:
        again.executor.fire(await again.trigger_of("a"), 1)
        resumed = await again.attempt("a")
        assert (resumed.key.try_number, resumed.resume is not None) == (1, True)
        await again.finish("a")
        assert await again.runs("d") == {"r": "success"}
        await again.assert_consistent()
