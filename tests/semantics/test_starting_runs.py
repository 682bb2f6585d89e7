"""Which queued runs start, in which order, and that none waits to be looked at.

Source: the semantics reference, sections 14.1 and 14.4. What counts for which limit: test_active_run_limits.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.base import DataInterval
from aiosched.core.timetables.parse import parse_schedule
from aiosched.testing import World, never_ends

START = datetime(2026, 1, 10, tzinfo=UTC)
DAY, MINUTE, TICK = timedelta(days=1), timedelta(minutes=1), timedelta(microseconds=1)


TASKS = (TaskSpec(task_id="a", operator="X"),)


def stuck(max_active_runs: int = 2) -> World:
    """A DAG whose runs never end by themselves, and whose schedule makes none before tomorrow."""
    world = World(now=START + MINUTE)
    daily = DagSpec(
        dag_id="d",
        timetable=parse_schedule("@daily"),
        start_date=START - 20 * DAY,
        max_active_runs=max_active_runs,
        tasks=TASKS,
    )
    world.add(daily, last=DataInterval(START - DAY, START))
    world.script("d", "a", lambda attempt: never_ends())
    return world


def started(world: World) -> list[str]:
    """The runs in the order in which they began."""
    return [run_id for _, what, _, run_id, *_ in world.log if what == "run running"]


def paused(world: World) -> None:
    world.pause("d")


def limit_reached(world: World) -> None:
    world.trigger("d", run_after=START - DAY)
    world.trigger("d", run_after=START - DAY)


def only_backfill_runs(world: World) -> None:
    world.backfill("d", START - 9 * DAY, START - 5 * DAY, max_active_runs=5)


@pytest.mark.parametrize(
    ("before", "run_after", "state"),
    [
        (lambda world: None, START, "running"),
        (lambda world: None, START + MINUTE, "running"),  # run_after <= now
        (lambda world: None, START + MINUTE + TICK, "queued"),
        (paused, START, "queued"),
        (limit_reached, START, "queued"),
        (only_backfill_runs, START, "running"),  # they count for their backfill
    ],
    ids=["due", "due now", "not yet", "paused", "the limit is reached", "a backfill runs"],
)
async def test_which_queued_runs_may_start(before: Callable[[World], object], run_after: datetime, state: str) -> None:
    """A stale DAG makes no runs; those that it has go on to their end (decision 20)."""
    async with stuck() as world:
        before(world)
        world.trigger("d", run_id="r", run_after=run_after)

        await world.run_until(START + MINUTE)

        assert world.run("d", "r").state == state


@pytest.mark.parametrize(
    ("limit", "pause", "running"),
    [(2, False, 2), (9, False, 5), (2, True, 0)],
    ids=["its own limit", "room for all", "paused"],
)
async def test_a_backfill_has_a_limit_and_a_pause_of_its_own(limit: int, pause: bool, running: int) -> None:
    async with stuck(max_active_runs=1) as world:
        number = world.backfill("d", START - 9 * DAY, START - 5 * DAY, max_active_runs=limit)["id"]
        world.pause_backfill(number, paused=pause)

        await world.run_for(MINUTE)

        assert len(started(world)) == running


async def test_runs_of_no_backfill_start_first_by_run_after_then_those_of_backfills_by_their_number() -> None:
    async with stuck() as world:
        world.pause("d")
        world.backfill("d", START - 9 * DAY, START - 7 * DAY, max_active_runs=3, backwards=True)
        world.trigger("d", run_id="second", run_after=START)
        world.trigger("d", run_id="first", run_after=START - DAY)

        world.unpause("d")
        await world.run_for(MINUTE)

        backwards = [f"backfill__{(START - days * DAY).isoformat()}" for days in (7, 8, 9)]
        assert started(world) == ["first", "second", *backwards]


@pytest.mark.parametrize("number", [1, 21, 100])
async def test_however_many_runs_are_running_each_is_looked_at_when_there_is_news(number: int) -> None:
    """14.4: in place of twenty at a time by the age of the last look, each at once."""
    async with World(now=START) as world:
        two = (TaskSpec(task_id="a", operator="X"), TaskSpec(task_id="b", operator="X", upstream=("a",)))
        world.add(DagSpec(dag_id="d", max_active_runs=1000, max_active_tasks=1000, tasks=two))
        world.pool("default_pool", slots=-1)
        world.script("d", "*", takes=MINUTE)
        runs = [world.trigger("d") for _ in range(number)]

        await world.run_for(MINUTE)

        assert {world.task("d", run, "b").queued_at for run in runs} == {START + MINUTE}
