"""How many triggers wait at a time, and which are ended because nobody refers to them: section 25.3."""

from __future__ import annotations

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.messages import Attempt, Deferral, Outcome
from tests.scheduler.harness import Running, dag, running, task

WAIT = Deferral(classpath="triggers.Wait", kwargs="{}", next_method="go_on")


async def deferred(it: Running, task_id: str = "a") -> Attempt:
    it.executor.defer(await it.attempt(task_id, "r"))
    await it.settled()
    return await it.trigger_of(task_id, "r")


async def waiting(it: Running) -> list[str]:
    await it.settled()
    return sorted(trigger.task_id for trigger in it.executor.triggers.values())


# -- capacity ---------------------------------------------------------------------------------


async def test_no_more_triggers_wait_than_the_setting_says_and_the_weightiest_go_first(
    dsn: str, clock: FakeClock
) -> None:
    spec = dag("d", *(task(f"t{n}", starts_deferred=WAIT, priority_weight=n) for n in range(5)))
    async with running(dsn, clock, spec, max_triggers=2) as it:
        await it.trigger("d", "r")
        assert await waiting(it) == ["t3", "t4"]
        assert set((await it.states("r")).values()) == {"deferred"}

        it.executor.report(await it.trigger_of("t3"), Outcome.SUCCESS, ends=True)

        assert await waiting(it) == ["t2", "t4"]
        await it.ask("mark_tasks", "d", run_ids=["r"], task_ids=["t2"], state="success")
        assert await waiting(it) == ["t1", "t4"]
        for name in ("t4", "t1", "t0"):
            it.executor.report(await it.trigger_of(name), Outcome.SUCCESS, ends=True)
            await it.settled()
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_one_that_nobody_wants_any_more_takes_no_place(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("a", starts_deferred=WAIT, priority_weight=9), task("b", starts_deferred=WAIT))
    async with running(dsn, clock, spec, max_triggers=1) as it:
        await it.trigger("d", "one")
        await it.trigger("d", "two")
        await it.ask("cancel_run", "d", run_id="two")

        it.executor.report(await it.trigger_of("a", "one"), Outcome.SUCCESS, ends=True)

        assert await waiting(it) == ["b"]
        assert (await it.trigger_of("b")).run.run_id == "one"
        await it.assert_consistent()


# -- the sweep --------------------------------------------------------------------------------


async def test_a_trigger_whose_row_vanished_is_stopped_and_its_task_fails_by_its_rules(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        await it.trigger("d", "r")
        trigger = await deferred(it, "a")
        await deferred(it, "b")
        await it.execute("DELETE FROM deferred_trigger WHERE task_index = 0")

        await it.advance(61)

        assert it.executor.cancelled == [trigger.key]
        resumed = await it.attempt("a")
        assert resumed.resume is not None
        assert resumed.resume.error == "what it waited for is not stored"
        assert await waiting(it) == ["b"], "others wait on"
        it.executor.fail(resumed)
        await it.assert_consistent()


async def test_a_trigger_of_a_run_that_is_gone_is_stopped(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        trigger = await deferred(it)
        for table, key in (("deferred_trigger", "run_id"), ("task_instance", "run_id"), ("dag_run", "id")):
            await it.execute(f"DELETE FROM {table} WHERE {key} IS NOT NULL")
        await it.execute("DELETE FROM dag")
        it.dags_changed("d")
        await it.settled()

        await it.advance(61)

        assert it.executor.cancelled == [trigger.key]
        assert not it.executor.triggers


@pytest.mark.parametrize("state", ["success", None])
async def test_rows_that_no_task_instance_waits_for_are_deleted(
    dsn: str, clock: FakeClock, state: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        await it.trigger("d", "r")
        await it.finish("b")
        await deferred(it, "a")
        await it.execute(
            "INSERT INTO deferred_trigger (run_id, task_index, map_index, classpath, kwargs, next_method)"
            " SELECT CASE WHEN $1::text IS NULL THEN id + 1000 ELSE id END, 1, -1, 'x.Y', '{}', 'm' FROM dag_run",
            state,
        )

        await it.advance(61)

        assert await it.fetch("SELECT task_index FROM deferred_trigger") == [(0,)]
        assert "deleted 1 triggers that no task instance waits for" in caplog.text
        await it.assert_consistent()


async def test_a_sweep_leaves_alone_what_waits_lines_up_or_runs(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"), task("c"), max_active_tasks=1)) as it:
        await it.trigger("d", "r")
        fired = [await deferred(it, name) for name in ("a", "b", "c")][:2]
        for trigger in fired:
            it.executor.fire(trigger)
        await it.settled()
        assert sorted((await it.states("r")).values(), key=str) == ["deferred", "queued", "scheduled"]

        await it.advance(61)

        assert len(await it.fetch("SELECT 1 FROM deferred_trigger")) == 3
        assert not it.executor.cancelled
        it.executor.fire(await it.trigger_of("c"))
        await it.finish_all()
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()
