"""No set of runs waits for each other for ever, whatever people do to runs that wait for the runs before them.

Scenarios are of one DAG whose tasks look back. In the end people let everything run: limits stay as they are, nothing
fails any more, and what has failed is cleared, again and again. Then every run succeeds. With AIOSCHED_NIGHTLY=1 the
property tries 20,000 scenarios. Source: the semantics reference, sections 6, 14 and 29.1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.spec import DagSpec
from aiosched.core.values.states import RunState
from aiosched.errors import AioschedError
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, dag, minutes, task

DAY = timedelta(days=1)
LOOKS: tuple[dict[str, bool], ...] = (
    {},
    {"depends_on_past": True},
    {"depends_on_past": True},
    {"depends_on_past": True, "wait_for_downstream": True},
)
DEEDS = (
    "trigger", "trigger", "trigger", "trigger undated", "clear", "clear", "clear failed", "clear past", "mark task",
    "mark run", "cancel", "requeue", "backfill", "backfill", "cancel backfill", "pause backfill", "limit", "restart",
)  # fmt: skip

Deed = tuple[int, str, int]  # minutes since the deed before, what, and a number that says which


@dataclass(frozen=True)
class Scenario:
    """A DAG, how its tasks go until the end, and what people do."""

    spec: DagSpec
    scripts: Mapping[str, Mapping[str, Any]]
    deeds: tuple[Deed, ...]


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    looks = draw(st.tuples(*[st.sampled_from(LOOKS)] * 2).filter(any))
    spec = dag(
        "d",
        task("a", **looks[0]),
        task("b", after=draw(st.sampled_from(["", "a"])), retries=draw(st.integers(0, 1)), **looks[1]),
        schedule=draw(st.sampled_from([None, DAY])),
        start_date=NEW_YEAR - 10 * DAY,  # before all other dates: none of their runs is without its tasks
        catchup=draw(st.booleans()),
        max_active_runs=draw(st.integers(1, 3)),
    )
    scripts = {
        name: {"takes": minutes(draw(st.sampled_from([1, 10]))), "fails": draw(st.sampled_from([0, 0, 1, True]))}
        for name in "ab"
    }
    deed = st.tuples(st.sampled_from([0, 0, 2, 30]), st.sampled_from(DEEDS), st.integers(0, 8))
    return Scenario(spec, scripts, tuple(draw(st.lists(deed, min_size=2, max_size=12))))


def do(world: World, scenario: Scenario, kind: str, number: int) -> None:
    """Somebody does something, to the run that stands for `number` where it is about a run."""
    runs = sorted(world.runs("d"), key=lambda run: (run.run_after, run.run_id))
    run_id = runs[number % len(runs)].run_id if runs else "none"
    unfinished = [n for n, state in world.backfills("d").items() if state != "completed"]
    match kind:
        case "trigger":
            world.trigger("d", logical_date=NEW_YEAR - (9 - number) * DAY)
        case "trigger undated":
            world.trigger("d")
        case "clear":
            world.clear("d", [run_id], task_ids=(["a"], ["b"], ["a", "b"])[number % 3])
        case "clear failed":
            world.clear("d", only_failed=True)
        case "clear past":
            world.clear("d", [run_id], past=True)
        case "mark task":
            world.mark_task("d", run_id, "ab"[number % 2], ("success", "failed", "skipped")[number % 3])
        case "mark run":
            world.mark_run("d", run_id, ("success", "failed")[number % 2])
        case "cancel":
            world.cancel("d", run_id)
        case "requeue":
            world.mark_run("d", run_id, "queued")
        case "backfill":
            first, rerun = NEW_YEAR - (9 - number) * DAY, ("failed", "all")[number % 2]
            world.backfill("d", first, first + 3 * DAY, rerun=rerun, max_active_runs=1 + number % 2)
        case "cancel backfill" if unfinished:
            world.cancel_backfill(unfinished[0])
        case "pause backfill" if unfinished:
            world.pause_backfill(unfinished[0])


async def play(scenario: Scenario) -> World:
    world = World(now=NEW_YEAR)
    for task_id, words in scenario.scripts.items():
        world.script("*", task_id, **words)
    spec = scenario.spec
    world.add(spec)
    for after, kind, number in scenario.deeds:
        await world.run_for(minutes(after))
        if kind == "restart":
            await world.restart()
        elif kind == "limit":
            spec = replaced(spec, max_active_runs=1 + number % 3)
            world.add(spec)
        else:
            with contextlib.suppress(AioschedError):
                do(world, scenario, kind, number)
    world.add(replaced(spec, end_date=world.now - 30 * DAY))
    return world


def replaced(spec: DagSpec, **fields: Any) -> DagSpec:
    return msgspec.structs.replace(spec, **fields)


async def let_everything_run(world: World) -> None:
    """People clear what has failed until nothing has, the oldest run first or all at once: nothing fails any more."""
    for task_id in "ab":
        world.script("*", task_id, takes=minutes(1))
    for number, state in world.backfills("d").items():
        if state == "paused":
            world.pause_backfill(number, paused=False)
    for _ in range(50):
        await world.run_for(DAY)
        runs = world.runs("d")
        failed = [run.run_id for run in runs if run.state is RunState.FAILED]
        cleared = runs and world.clear("d", [run.run_id for run in runs], only_failed=True)
        for run_id in failed:  # also those whose tasks never began
            with contextlib.suppress(AioschedError):
                world.mark_run("d", run_id, "queued")
        if not (failed or cleared):
            return


@given(scenarios())
async def test_no_set_of_runs_waits_for_each_other_for_ever(scenario: Scenario) -> None:
    world = await play(scenario)

    await let_everything_run(world)

    left = {run.run_id: run.state.value for run in world.runs("d") if run.state is not RunState.SUCCESS}
    assert not left, f"{left} do not go on: {world.waiting()}"


async def test_a_retry_behind_a_task_that_waits_for_the_run_before_does_not_keep_that_run_from_starting() -> None:
    """`b` is to be tried again, but only behind `a`, which waits for an earlier run; and one run may run."""
    world = World(now=NEW_YEAR)
    world.script("d", "b", fails=1)
    later, earlier = NEW_YEAR - DAY, NEW_YEAR - 9 * DAY
    world.add(dag("d", task("a", depends_on_past=True), task("b", after="a", retries=1), max_active_runs=1))
    world.trigger("d", run_id="later", logical_date=later)
    await world.run_for(minutes(2))
    assert world.states("d", "later") == {"a": "success", "b": "up_for_retry"}
    world.trigger("d", run_id="earlier", logical_date=earlier)

    world.clear("d", ["later"], task_ids=["a"])
    await world.run_for(DAY)

    assert {run.run_id: run.state.value for run in world.runs("d")} == {"later": "success", "earlier": "success"}
