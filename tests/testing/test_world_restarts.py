"""A restart changes nothing: any scenario gives the same runs, at the same instants, however often memory is lost.

Source: the semantics reference, section 35: 4, 5 and 12; docs/semantics.md, "When runs happen". With AIOSCHED_NIGHTLY=1
the property tries 20,000 scenarios.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiosched import Asset
from aiosched.core.graph.spec import DagSpec
from aiosched.core.timetables import (
    AssetOrTimeSchedule,
    CronTriggerTimetable,
    CustomTimetable,
    DeltaTriggerTimetable,
    EventsTimetable,
    MultipleCronTriggerTimetable,
)
from aiosched.core.timetables.custom import ListedRun
from aiosched.errors import AioschedError
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, dag, history, task

HOUR = timedelta(hours=1)
END = NEW_YEAR + 60 * HOUR
NEWS = Asset("news")
LISTED = tuple(
    ListedRun(NEW_YEAR + 5 * n * HOUR, NEW_YEAR + (5 * n + 3) * HOUR, NEW_YEAR + (5 * n + 4) * HOUR)
    for n in range(-6, 12)
)
SCHEDULES = (
    None,
    "@once",
    "@continuous",
    "@continuous",
    "0 */6 * * *",
    "0 */6 * * *",
    "30 3,4,17 * * *",
    timedelta(hours=5),
    timedelta(hours=9),
    CronTriggerTimetable("0 */8 * * *", "UTC"),
    CronTriggerTimetable("0 */8 * * *", "UTC", interval=timedelta(hours=5)),
    DeltaTriggerTimetable(timedelta(hours=7)),
    MultipleCronTriggerTimetable(["0 */8 * * *", "30 1 * * *"], "UTC"),
    EventsTimetable([NEW_YEAR + n * HOUR for n in (-30, -7, 1, 3, 11, 12, 30)]),
    CustomTimetable("Listed", runs=LISTED),
    AssetOrTimeSchedule("0 */6 * * *", NEWS),
    NEWS,
)
DEEDS = (
    "trigger", "trigger dated", "trigger later", "pause", "unpause", "backfill", "pause backfill", "resume backfill",
    "cancel backfill", "clear", "clear failed", "cancel", "mark run", "mark task", "requeue", "edit", "emit",
)  # fmt: skip

Deed = tuple[float, str, int]  # hours since NEW_YEAR, what, and a number that says which


@dataclass(frozen=True)
class Scenario:
    """Versions of one DAG (the first is there from the beginning), how its tasks go, and what people do."""

    versions: tuple[DagSpec, ...]
    scripts: Mapping[str, Mapping[str, Any]]
    deeds: tuple[Deed, ...] = field(default_factory=tuple)


@st.composite
def versions(draw: st.DrawFn) -> DagSpec:
    looks_back = draw(st.sampled_from([{}, {}, {"depends_on_past": True}, {"wait_for_downstream": True}]))
    if "wait_for_downstream" in looks_back:
        looks_back["depends_on_past"] = True
    start = draw(st.sampled_from([-30.0, -12.5, -1.0, 0.0, 4.0, None]))
    return dag(
        "d",
        task("a", retries=draw(st.sampled_from([0, 0, 1])), retry_delay=1200.0, **looks_back),
        task("b", after="a", trigger_rule=draw(st.sampled_from(["all_success", "all_done"]))),
        schedule=(schedule := draw(st.sampled_from(SCHEDULES))),
        start_date=None if start is None else NEW_YEAR + start * HOUR,
        catchup=start is not None and draw(st.booleans()),
        max_active_runs=1 if schedule == "@continuous" else draw(st.integers(1, 3)),
        max_consecutive_failed_dag_runs=draw(st.sampled_from([0, 0, 0, 2])),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    hours = st.one_of(st.integers(0, 55), st.floats(0, 55, allow_nan=False))
    deeds = draw(st.lists(st.tuples(hours, st.sampled_from(DEEDS), st.integers(0, 30)), max_size=8))
    takes = st.sampled_from([HOUR / 2, 2 * HOUR, 7 * HOUR, 20 * HOUR])
    scripts = {name: {"takes": draw(takes), "fails": draw(st.sampled_from([0, 0, 1, True]))} for name in ("a", "b")}
    return Scenario(
        tuple(draw(st.lists(versions(), min_size=1, max_size=3))),
        scripts,
        tuple(sorted(deeds, key=lambda deed: deed[0])),
    )


def do(world: World, scenario: Scenario, kind: str, number: int) -> None:
    """Somebody does something, to the run that stands for `number` where it is about a run."""
    runs = sorted(world.runs("d"), key=lambda run: run.run_id)
    run_id = runs[number % len(runs)].run_id if runs else "none"
    unfinished = [n for n, state in world.backfills("d").items() if state != "completed"]
    match kind:
        case "trigger":
            world.trigger("d")
        case "trigger dated":
            world.trigger("d", logical_date=NEW_YEAR + (number - 12) * HOUR)
        case "trigger later":
            world.trigger("d", run_after=world.now + number * HOUR)
        case "pause":
            world.pause("d")
        case "unpause":
            world.unpause("d")
        case "backfill":
            rerun, first = ("missing", "failed", "all")[number % 3], NEW_YEAR + (number - 25) * HOUR
            limit, backwards = 1 + number % 2, number % 4 == 0
            final = first + 13 * HOUR
            world.backfill("d", first, final, rerun=rerun, max_active_runs=limit, backwards=backwards)
        case "pause backfill" | "resume backfill" if unfinished:
            world.pause_backfill(unfinished[0], paused=kind == "pause backfill")
        case "cancel backfill" if unfinished:
            world.cancel_backfill(unfinished[0])
        case "clear":
            world.clear("d", [run_id], task_ids=["a", "b"] if number % 2 else ["b"])
        case "clear failed":
            world.clear("d", only_failed=True)
        case "cancel":
            world.cancel("d", run_id)
        case "mark run":
            world.mark_run("d", run_id, ("success", "failed")[number % 2])
        case "mark task":
            world.mark_task("d", run_id, "a", ("success", "failed", "skipped")[number % 3])
        case "requeue":
            world.mark_run("d", run_id, "queued")
        case "edit":
            world.add(scenario.versions[number % len(scenario.versions)])
        case "emit":
            world.emit("news")


async def play(scenario: Scenario, restarts: frozenset[int] = frozenset(), *, always: bool = False) -> World:
    """The world at END; its memory is lost after these passes, or `always` when the clock has moved."""
    world, passes = World(now=NEW_YEAR), 0
    for task_id, words in scenario.scripts.items():
        world.script("*", task_id, **words)
    world.add(scenario.versions[0])
    for hours, kind, number in [*scenario.deeds, ((END - NEW_YEAR) / HOUR, "end", 0)]:
        instant = NEW_YEAR + hours * HOUR
        before = world.now
        while await world.step():
            if world.now > instant:  # the step was a move of the clock
                break
            passes += 1
            if passes in restarts or (always and world.now > before):
                await world.restart()
            before = world.now
        world.clock.at = instant
        with contextlib.suppress(AioschedError):
            do(world, scenario, kind, number)
        await world.enqueue()  # only what is stored has been done
    return world


@given(scenarios(), st.one_of(st.none(), st.frozensets(st.integers(1, 150), min_size=1)))
async def test_a_restart_changes_no_run(scenario: Scenario, restarts: frozenset[int] | None) -> None:
    undisturbed = await play(scenario)

    restarted = await play(scenario, restarts or frozenset(), always=restarts is None)

    assert history(restarted) == history(undisturbed)


async def test_a_restart_does_not_delay_the_next_call_of_a_task_that_is_called_again() -> None:
    begun = []
    for restarts in (False, True):
        world = World(now=NEW_YEAR, takes=timedelta(minutes=1))
        world.add(dag("d", task("a"), task("b", after="a")))
        world.script("d", "a", waits=timedelta(minutes=3), every=timedelta(minutes=5))
        world.trigger("d", run_id="r")
        await world.run_for(timedelta(minutes=2))
        if restarts:
            await world.restart()
        await world.run_until_idle()
        begun.append(world.task("d", "r", "b").start_date)

    assert begun[0] == begun[1]
