"""A queued run that running ones wait for starts before others, if need be beyond the limit: section 14.

The other runs here wait for the run before them, so whoever is cleared behind a full limit would wait for ever.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec
from aiosched.scheduler.runs import awaited, due_runs
from tests.scheduler.harness import Running, dag, running, task

DAY = [datetime(2025, 12, day, tzinfo=UTC) for day in range(1, 10)]


def patient(*more: Any, limit: int = 2, **options: Any) -> DagSpec:
    tasks = (task("a", depends_on_past=True), *more)
    return dag("d", *tasks, max_active_runs=limit, **options)


async def days(it: Running, first: int, final: int) -> None:
    for number in range(first, final + 1):
        await it.trigger("d", f"r{number}", logical_date=DAY[number])


async def fail(it: Running, task_id: str, run_id: str) -> None:
    it.executor.fail(await it.attempt(task_id, run_id))
    await it.settled()


async def active(it: Running) -> dict[str, str]:
    return {run: state for run, state in (await it.runs("d")).items() if state in ("queued", "running")}


async def the_first_has_failed(it: Running, *, behind: int) -> None:
    """r1 has failed; the runs behind it exist, and as many as may run wait for it."""
    await days(it, 1, 1)
    await fail(it, "a", "r1")
    await days(it, 2, 1 + behind)


async def test_a_cleared_run_starts_though_the_limit_is_full_of_runs_that_wait_for_it(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, patient()) as it:
        await the_first_has_failed(it, behind=4)
        assert await active(it) == {"r2": "running", "r3": "running", "r4": "queued", "r5": "queued"}

        await it.ask("clear", "d", run_ids=["r1"])

        assert await active(it) == {
            "r1": "running", "r2": "running", "r3": "running", "r4": "queued", "r5": "queued"
        }  # fmt: skip
        await it.finish("a", run_id="r1")
        assert await active(it) == {"r2": "running", "r3": "running", "r4": "queued", "r5": "queued"}
        await it.assert_consistent()
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}
        await it.assert_consistent()


async def test_with_a_limit_of_one_and_wait_for_downstream(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("a", depends_on_past=True, wait_for_downstream=True), task("b", after="a"), max_active_runs=1)
    async with running(dsn, clock, spec) as it:
        await days(it, 1, 1)
        await it.finish("a")
        await fail(it, "b", "r1")
        await days(it, 2, 3)
        assert await active(it) == {"r2": "running", "r3": "queued"}

        await it.ask("clear", "d", run_ids=["r1"], task_ids=["b"])

        assert await active(it) == {"r1": "running", "r2": "running", "r3": "queued"}
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}
        await it.assert_consistent()


@pytest.mark.slow
async def test_a_scheduler_that_begins_anew_finds_out_who_is_waited_for(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, patient(limit=1)) as it:
        await the_first_has_failed(it, behind=2)
    async with running(dsn, clock) as it:  # the run that waits is read back, then the other one is cleared
        await it.ask("clear", "d", run_ids=["r1"])
        assert await active(it) == {"r1": "running", "r2": "running", "r3": "queued"}
        await fail(it, "a", "r1")
        await it.ask("pause", "d")
        await it.ask("clear", "d", run_ids=["r1"])
        assert await active(it) == {"r1": "queued", "r2": "running", "r3": "queued"}
    async with running(dsn, clock) as it:  # both are read back: the one is queued, the other one waits for it
        await it.ask("unpause", "d")
        assert await active(it) == {"r1": "running", "r2": "running", "r3": "queued"}
        await it.leave_and_come_back()
        assert await active(it) == {"r1": "running", "r2": "running", "r3": "queued"}
        await it.assert_consistent()
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}


async def test_the_limit_holds_while_a_run_under_it_waits_for_a_pool(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, patient(task("s", pool="narrow"))) as it:
        await it.execute("INSERT INTO pool (name, slots) VALUES ('narrow', 0)")
        await days(it, 1, 1)
        await fail(it, "a", "r1")
        await it.ask("mark_tasks", "d", run_ids=["r1"], task_ids=["s"], state="success")
        await days(it, 2, 4)

        await it.ask("clear", "d", run_ids=["r1"], task_ids=["a"])

        assert await active(it) == {"r1": "queued", "r2": "running", "r3": "running", "r4": "queued"}
        await it.ask("mark_tasks", "d", run_ids=["r2"], task_ids=["a", "s"], state="success")
        assert await active(it) == {"r1": "running", "r3": "running", "r4": "queued"}, "before the others"


async def test_the_limit_holds_while_a_run_under_it_looks_again_for_something(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, patient(task("s"))) as it:
        await days(it, 1, 1)
        it.executor.succeed(await it.attempt("s", "r1"))
        await fail(it, "a", "r1")
        await days(it, 2, 4)
        soon = clock.now() + timedelta(minutes=1)
        await it.finish("s", run_id="r2")
        it.executor.reschedule(await it.attempt("s", "r3"), soon)
        await it.settled()

        await it.ask("clear", "d", run_ids=["r1"], task_ids=["a"])

        assert await active(it) == {"r1": "queued", "r2": "running", "r3": "running", "r4": "queued"}
        await it.advance(61)
        await it.finish("s", run_id="r3")
        assert await active(it) == {"r1": "running", "r2": "running", "r3": "running", "r4": "queued"}


async def test_why_says_who_goes_first_and_who_has_started_beyond_the_limit(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, patient(task("s"), limit=1)) as it:

        async def told(run_id: str, task_id: str | None = None) -> str:
            return (await it.scheduler.why("d", run_id, task_id)).in_the_way()[0].detail

        await days(it, 1, 1)
        it.executor.succeed(await it.attempt("s", "r1"))
        await fail(it, "a", "r1")
        await days(it, 2, 3)
        await it.ask("clear", "d", run_ids=["r1"], task_ids=["a"])

        full = "max_active_runs=1 of the DAG reached: 1 running"
        assert await told("r1") == f"{full}; r2 waits for it, so it starts before others"
        assert await told("r3") == f"{full}, 1 run queued before it"
        await it.finish("s", run_id="r2")
        beyond = "r1 started beyond the limit because r2 waits for it"
        assert await told("r3") == f"max_active_runs=1 of the DAG reached: 2 running ({beyond})"
        said = await it.scheduler.why("d", "r1")
        assert [gate.detail for gate in said.gates if gate.name == "run is running"] == [
            f"2 of 1 active runs: {beyond}"
        ]
        assert await told("r2", "a") == "has not succeeded in the previous run (depends_on_past): r1 (running)"
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}


async def test_the_earliest_of_several_that_follow_each_other_starts_first(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, patient(limit=1)) as it:
        await days(it, 1, 2)
        await it.finish("a", run_id="r1")
        await fail(it, "a", "r2")
        await days(it, 3, 4)

        await it.ask("clear", "d", run_ids=["r1", "r2"])

        assert await active(it) == {"r1": "running", "r2": "queued", "r3": "running", "r4": "queued"}
        await it.finish("a", run_id="r1")
        assert await active(it) == {"r2": "running", "r3": "running", "r4": "queued"}
        await it.finish("a", run_id="r2")
        assert await active(it) == {"r3": "running", "r4": "queued"}
        await it.assert_consistent()
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}


async def test_a_run_that_started_beyond_the_limit_may_come_to_wait_itself(dsn: str, clock: FakeClock) -> None:
    """Else the run that is cleared last would wait for ever: all others wait for it."""
    async with running(dsn, clock, patient(limit=1)) as it:
        await days(it, 1, 1)
        await fail(it, "a", "r1")
        await days(it, 2, 2)
        await it.ask("mark_tasks", "d", run_ids=["r2"], task_ids=["a"], state="failed")
        await days(it, 3, 4)
        await it.ask("clear", "d", run_ids=["r2"])
        assert await active(it) == {"r2": "running", "r3": "running", "r4": "queued"}

        await it.ask("clear", "d", run_ids=["r1"])

        assert await active(it) == {"r1": "running", "r2": "running", "r3": "running", "r4": "queued"}
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}
        await it.assert_consistent()


def daily(**options: Any) -> DagSpec:
    return patient(limit=1, schedule=timedelta(days=1), start_date=DAY[0], end_date=DAY[6], **options)


async def backfill(it: Running, first: int, final: int, **args: Any) -> None:
    dates = {"from": DAY[first].isoformat(), "to": DAY[final].isoformat()}
    await it.ask("backfill_create", "d", **dates, rerun="all", **args)


def filled(number: int) -> str:
    return f"backfill__{DAY[number].isoformat()}"


async def test_a_run_of_a_backfill_waits_for_a_queued_one_under_the_limit_of_the_dag(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, daily()) as it:
        await it.finish_all()  # what the schedule has made: the 7th, without catchup
        await backfill(it, 1, 3, max_active_runs=1)
        await it.finish("a", run_id=filled(1))
        await it.trigger("d", "undated")
        held = await it.attempt("a", "undated")
        await fail(it, "a", filled(2))
        assert await active(it) == {"undated": "running", filled(3): "running"}
        await it.trigger("d", "between", logical_date=DAY[2].replace(hour=12))

        assert await active(it) == {"undated": "running", filled(3): "running", "between": "queued"}
        it.executor.succeed(held)
        await it.settled()
        assert await active(it) == {filled(3): "running", "between": "running"}


async def test_a_run_under_the_limit_of_the_dag_waits_for_a_queued_one_of_a_backfill(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, daily()) as it:
        await it.finish_all()
        await backfill(it, 1, 3, max_active_runs=1)
        await fail(it, "a", filled(1))
        await it.ask("mark_tasks", "d", run_ids=[filled(2)], task_ids=["a"], state="failed")
        assert await active(it) == {filled(3): "running"}
        await it.trigger("d", "after", logical_date=DAY[3].replace(hour=12))
        await it.trigger("d", "later", logical_date=DAY[4])

        await it.ask("clear", "d", run_ids=[filled(1), filled(2)])

        assert await active(it) == {
            filled(1): "running", filled(2): "queued", filled(3): "running", "after": "running", "later": "queued"
        }  # fmt: skip
        await it.finish("a", run_id=filled(1))
        assert (await active(it))[filled(2)] == "running"
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}
        await it.assert_consistent()


async def test_nothing_is_asked_where_nobody_waits_for_a_queued_run(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(*_: object) -> None:
        raise AssertionError("a statement for nothing")

    monkeypatch.setattr(awaited, "runs_before", asked)
    for spec in (dag("d", task("a"), max_active_runs=1), patient(limit=1)):
        async with running(dsn, clock, spec) as it:
            await it.finish_all()
            await it.ask("clear", "d") if await it.runs("d") else await days(it, 1, 4)
            await it.finish_all()
            assert set((await it.runs("d")).values()) == {"success"}


async def test_queued_runs_are_not_looked_at_while_the_running_one_goes_on(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, patient(task("b"), task("c", after="b"), limit=1)) as it:
        await days(it, 1, 3)
        with mock.patch.object(due_runs, "runs_to_start", side_effect=due_runs.runs_to_start) as look:
            await it.finish("b", "c")

        assert not look.called
