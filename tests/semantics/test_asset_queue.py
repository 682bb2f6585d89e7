"""Assets: the queue, the conditions and the examples. Source: the semantics reference, sections 15.2, 15.3 and 15.5.

What produces events (15.1) and how a run is made (15.4): tests/scheduler/test_asset_runs.py and
tests/executors/test_asset_attempts.py; the conditions as expressions: tests/core/test_assets.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import Asset, AssetAlias
from aiosched.core.graph.spec import AssetRef, DagSpec, TaskSpec
from aiosched.core.timetables.assets import AssetOrTimeSchedule
from aiosched.core.timetables.parse import parse_schedule
from aiosched.testing import World

START = datetime(2026, 1, 10, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
A, B, C = Asset("a"), Asset("b"), Asset("c")


def dag(dag_id: str, schedule: object = None, *tasks: TaskSpec, **fields: Any) -> DagSpec:
    return DagSpec(
        dag_id=dag_id,
        timetable=parse_schedule(schedule),
        tasks=tasks or (TaskSpec(task_id="read", operator="X"),),
        **fields,
    )


def consumed(world: World) -> list[str]:
    """The names of the events of each run of the consumer that events made."""
    runs = [run.run_id for run in world.runs("consumer") if run.run_type == "asset_triggered"]
    return ["".join(event.name for event in world.events_of("consumer", run)) for run in runs]


async def play(world: World, events: str) -> None:
    """`a`: news of that asset. ` `: the loop looks. `P`, `U`: the consumer is paused, unpaused. `.`: its run ends."""
    for step in events:
        if step in "PU":
            world.pause("consumer") if step == "P" else world.unpause("consumer")
        elif step == " ":
            await world.run_for(timedelta(seconds=1))
        elif step == ".":
            await world.run_for(DAY)
        else:
            world.emit(step)
    await world.run_for(timedelta(seconds=1))


EXAMPLES: dict[str, tuple[object, dict[str, Any], str, list[str]]] = {
    "[a, b]: a, a, a": ([A, B], {}, "a a a", []),
    "[a, b]: a, a, b": ([A, B], {}, "a a b", ["aab"]),
    "a | b: a, then b before the loop looks": (A | B, {}, "ab", ["ab"]),
    "a | b: a, and later b": (A | B, {}, "a b", ["a", "b"]),
    "(a & b) | c: c": ((A & B) | C, {}, "c", ["c"]),
    "a: an event while paused": (A, {}, "PaU", []),
    "a: and then the next event": (A, {}, "PaU a", ["aa"]),
    "a, a run is active: three events": (A, {"max_active_runs": 1}, "a aaa", ["a"]),
    "a, a run was active: three events": (A, {"max_active_runs": 1}, "a a a a.", ["a", "aaa"]),
    "several events before the loop looks": (A, {}, "aaa", ["aaa"]),
    # 15.3, row by row
    "one asset, of another": (A, {}, "b", []),
    "all(...)": (A & B & C, {}, "ab", []),
    "all(...), complete": (A & B & C, {}, "abc", ["abc"]),
    "any(...)": (A | B | C, {}, "b", ["b"]),
    "an alias that points to nothing": (AssetAlias("late"), {}, "abc", []),
    "nested": ((A | B) & C, {}, "b c", ["bc"]),
    "nested, half": ((A | B) & C, {}, "c", []),
}


@pytest.mark.parametrize(("schedule", "fields", "events", "runs"), EXAMPLES.values(), ids=EXAMPLES.keys())
async def test_which_events_make_which_runs(
    schedule: object, fields: dict[str, Any], events: str, runs: list[str]
) -> None:
    async with World(now=START) as world:
        world.add(dag("others", [A, B, C]), dag("consumer", schedule, **fields))
        world.script("consumer", "read", takes=MINUTE)

        await play(world, events)

        assert consumed(world) == runs


async def test_a_producer_that_fails_at_first_makes_one_event() -> None:
    maker = TaskSpec(task_id="make", operator="X", outlets=(AssetRef(name="a"),), retries=1, retry_delay=60.0)
    async with World(now=START) as world:
        world.add(dag("consumer", A), dag("producer", None, maker))
        world.script("producer", "make", fails=1)

        world.trigger("producer")
        await world.run_until_idle()

        assert consumed(world) == ["a"]


async def test_an_asset_or_a_time_makes_runs_of_both_kinds_and_events_do_not_move_the_calendar() -> None:
    async with World(now=START) as world:
        both = AssetOrTimeSchedule("@daily", A)
        world.add(dag("others", A), dag("consumer", both, start_date=START, catchup=True))

        await play(world, "a a")
        await world.run_until(START + 2 * DAY)

        dates = [run.logical_date for run in world.runs("consumer")]
        assert dates == [None, None, START, START + DAY]


async def test_a_consumer_that_is_not_scheduled_on_assets_any_more_forgets_what_it_waited_for() -> None:
    async with World(now=START) as world:
        world.add(dag("others", [A, B]), dag("consumer", [A, B]))
        await play(world, "a")

        world.add(dag("consumer", None))
        await world.run_for(MINUTE)
        world.add(dag("consumer", [A, B]))
        await play(world, "b")

        assert consumed(world) == []
