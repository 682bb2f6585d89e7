"""The loop: what follows from what, and at once. Source: the semantics reference, sections 16.1 and 16.2.

Ours has no rounds. What is one after the other there (16.1) is one after the other here at one instant, and what a
timer looks for every so often happens at its instant. The guarantees of 16.2 by number: 1 and 4 in
tests/scheduler/test_journaling.py and test_outbox.py, 2 in tests/faults/test_safeguards.py, 3 and 7 in
tests/scheduler/test_fleet.py, database errors (5) in tests/faults/test_failing_statements.py, the others here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import Asset
from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec, DeadlineSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.testing import World, defers, fails, never_ends, reschedules, succeeds
from tests.scheduler import harness

START = datetime(2026, 1, 10, tzinfo=UTC)
DAY, MINUTE, TICK = timedelta(days=1), timedelta(minutes=1), timedelta(microseconds=1)


def dag(*tasks: TaskSpec, dag_id: str = "d", **fields: Any) -> DagSpec:
    return DagSpec(dag_id=dag_id, tasks=tasks or (task("a"),), **fields)


def task(task_id: str, *upstream: str, **fields: Any) -> TaskSpec:
    return TaskSpec(task_id=task_id, operator="X", upstream=upstream, **fields)


def daily(**fields: Any) -> DagSpec:
    return dag(timetable=parse_schedule("@daily"), start_date=START - DAY, catchup=True, **fields)


def story(world: World) -> list[tuple[float, str, str | None]]:
    """What was decided, as (seconds since START, what, task)."""
    return [((at - START).total_seconds(), what, task_id) for at, what, _, _, task_id, *_ in world.log]


# -- 16.1 the steps ---------------------------------------------------------------------------------


async def test_a_run_is_made_started_looked_at_and_its_first_tasks_queued_at_one_instant() -> None:
    """Steps 1, 2, 3 and 5, each stored before the next one; step 6 begins what is queued."""
    async with World(now=START - MINUTE) as world:
        world.add(daily())
        world.script("d", "a", lambda attempt: never_ends())

        await world.run_until(START)

        (run,) = world.runs("d")
        assert (run.state, run.queued_at, run.start_date) == ("running", START, START)
        assert story(world) == [(0.0, "run created", None), (0.0, "queued", "a"), (0.0, "running", "a")]


async def test_the_end_of_a_task_and_the_next_one_in_its_slot_are_one_instant() -> None:
    """Steps 7, 3 and 5."""
    async with World(now=START) as world:
        world.add(dag(task("a"), task("b", "a")))
        world.pool("default_pool", slots=1)
        world.script("d", "a", takes=MINUTE)
        run = world.trigger("d")

        await world.run_for(MINUTE)

        assert world.task("d", run, "a").end_date == world.task("d", run, "b").queued_at == START + MINUTE


async def test_asset_events_make_their_run_at_the_instant_of_the_event() -> None:
    """Step 1, second part."""
    async with World(now=START) as world:
        world.add(dag(timetable=parse_schedule([Asset("news")])))
        await world.run_for(MINUTE)

        world.emit("news")
        await world.run_for(TICK)

        (run,) = world.runs("d")
        assert (run.run_after, run.start_date) == (START + MINUTE, START + MINUTE)


async def test_without_a_free_slot_nothing_is_queued_and_everything_else_goes_on() -> None:
    """Step 5."""
    async with World(now=START, parallelism=1) as world:
        world.add(dag(task("a"), task("b")), dag(task("settled", "failed"), task("failed"), dag_id="other"))
        world.script("d", "*", lambda attempt: never_ends())
        run = world.trigger("d")
        await world.run_for(MINUTE)

        other = world.trigger("other")
        await world.run_for(MINUTE)

        assert sorted(str(state) for state in world.states("d", run).values()) == ["running", "scheduled"]
        assert (world.run("other", other).state, world.states("other", other)["failed"]) == ("running", "scheduled")


async def test_a_deadline_is_missed_at_its_instant() -> None:
    """Step 8."""
    async with World(now=START) as world:
        world.add(dag(deadlines=(DeadlineSpec(reference="queued_at", interval=60.0),)))
        world.script("d", "a", takes=DAY)
        world.trigger("d")

        await world.run_for(DAY)

        assert (60.000001, "deadline missed", None) in story(world)  # strictly later


# -- 16.1 the timers --------------------------------------------------------------------------------

After = Callable[[World], Awaitable[datetime | None]]


async def orphans(world: World) -> datetime | None:
    world.add(dag())
    world.script("d", "a", lambda attempt: never_ends())
    run = world.trigger("d")
    await world.run_for(MINUTE)
    await world.crash()
    await world.run_for(DAY)
    row = world.task("d", run, "a")
    return row.queued_at if row.try_number == 2 else None


async def trigger_timeouts(world: World) -> datetime | None:
    world.add(dag())
    world.script("d", "a", lambda attempt: fails() if attempt.resume else defers(DAY, timeout=MINUTE, takes=TICK * 0))
    run = world.trigger("d")
    await world.run_for(2 * DAY)
    return world.task("d", run, "a").scheduled_at


async def reschedule_dates(world: World) -> datetime | None:
    calls = iter([reschedules(MINUTE, takes=TICK * 0), never_ends()])
    world.add(dag())
    world.script("d", "a", lambda attempt: next(calls))
    run = world.trigger("d")
    await world.run_for(DAY)
    return world.task("d", run, "a").queued_at


async def run_timeouts(world: World) -> datetime | None:
    world.add(dag(dagrun_timeout=60.0))
    world.script("d", "a", takes=DAY)
    run = world.trigger("d")
    await world.run_for(2 * DAY)
    return world.run("d", run).end_date


async def backfill_completion(world: World) -> datetime | None:
    world.add(dag(timetable=parse_schedule("@daily"), start_date=START))
    world.script("d", "a", takes=MINUTE)
    number = world.backfill("d", START - 5 * DAY, START - 5 * DAY)["id"]
    await world.run_for(2 * MINUTE)
    return world.rows.backfills.completed.get(number)


async def runs_of_paused_dags(world: World) -> datetime | None:
    world.add(dag())
    world.script("d", "a", takes=MINUTE)
    run = world.trigger("d")
    await world.run_for(MINUTE / 2)
    world.pause("d")
    await world.run_for(DAY)
    return world.run("d", run).end_date


@pytest.mark.parametrize(
    "after",
    [orphans, trigger_timeouts, reschedule_dates, run_timeouts, backfill_completion, runs_of_paused_dags],
    ids=lambda after: after.__name__,
)
async def test_what_a_timer_looks_for_happens_at_its_instant(after: After) -> None:
    """A minute after START each, in place of up to five minutes later.

    Stuck in queue: scheduler/test_attempts_not_started.py.
    """
    async with World(now=START) as world:
        found = await after(world)
        assert found is not None
        assert START + MINUTE <= found <= START + MINUTE + TICK  # where "strictly later" is asked


# -- 16.2 -------------------------------------------------------------------------------------------


async def test_a_failure_in_one_dag_or_run_never_stops_the_others() -> None:
    """5. A branch to nowhere, a deadlock, a pool and an executor that are not there."""
    stuck = (task("gone"), task("b", "gone", trigger_rule="all_skipped"))
    async with World(now=START) as world:
        world.add(
            dag(task("branch", can_skip_downstream=True), dag_id="branch"),
            dag(*stuck, dag_id="deadlock"),
            dag(task("a", pool="nowhere"), dag_id="pool"),
            dag(task("a", executor="nowhere"), dag_id="executor"),
            dag(dag_id="good"),
        )
        world.script("branch", "branch", lambda attempt: succeeds(branch="nobody"))
        bad = [(name, world.trigger(name)) for name in ("branch", "deadlock", "pool", "executor")]
        world.set_task("deadlock", bad[1][1], "gone", state="removed")
        good = world.trigger("good")

        await world.run_for(MINUTE)

        assert world.run("good", good).state == "success"
        assert [world.run(*one).state for one in bad] == ["failed", "failed", "running", "running"]


async def test_possible_work_begins_without_waiting_for_a_period_and_idleness_costs_no_statements(
    dsn: str, clock: FakeClock
) -> None:
    """6. The clock of the test stands still, so everything that happens follows from news; then nothing happens."""
    async with harness.running(dsn, clock, harness.chain("d", 3), count_statements=True) as it:
        await it.trigger("d", "r")
        await it.finish("t0", "t1", "t2")
        assert await it.runs("d") == {"r": "success"}
        statements = it.scheduler.db.statements
        assert statements is not None
        await it.settled()
        before = statements.total

        for _ in range(200):
            await asyncio.sleep(0)

        assert statements.total == before
