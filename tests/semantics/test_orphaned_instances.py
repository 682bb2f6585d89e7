"""What the death of a scheduler means for a task in each state. Source: the semantics reference, section 20.3.

With decision 17 of section 34 in place of rule 4: a lost attempt spends no retry. Who takes over, and when, is in
tests/scheduler/test_fleet.py and test_handover.py; whole crashes are in tests/faults.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.testing import World, defers, never_ends, reschedules

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def stuck() -> World:
    """A run whose task `beside` keeps it going; nothing ends by itself."""
    world = World(now=START)
    world.add(
        DagSpec(
            dag_id="d",
            tasks=(
                TaskSpec(task_id="a", operator="X", retries=1, retry_delay=7200.0, has_failure_callback=True),
                TaskSpec(task_id="beside", operator="X"),
            ),
        )
    )
    world.script("*", "*", lambda attempt: never_ends())
    world.trigger("d", run_id="r")
    return world


def facts(world: World) -> tuple[Any, ...]:
    row = world.task("d", "r", "a")
    return row.state, row.try_number, row.max_tries


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        ("success", {}),
        ("failed", {}),
        ("skipped", {}),
        ("upstream_failed", {}),
        ("removed", {}),
        ("up_for_retry", {"next_at": START + 2 * HOUR}),
        ("up_for_reschedule", {"next_at": START + 2 * HOUR}),
    ],
)
async def test_what_belongs_to_nobody_or_is_over_is_not_touched(state: str, fields: dict[str, Any]) -> None:
    async with stuck() as world:
        await world.run_for(MINUTE)
        world.set_task("d", "r", "a", state=state, **fields)
        await world.run_for(MINUTE)
        before = facts(world)

        await world.crash()
        await world.run_for(MINUTE)

        assert before[0] == state
        assert facts(world) == before


@pytest.mark.parametrize("state", ["queued", "running"])
async def test_what_held_a_slot_runs_again_and_spends_no_retry(state: str) -> None:
    """The next try has the next number, and one retry more is allowed: as many failures as before are."""
    async with stuck() as world:
        await world.run_for(MINUTE)
        world.set_task("d", "r", "a", state=state)
        (_, tries, most) = facts(world)

        await world.crash()
        await world.run_for(MINUTE)

        assert facts(world) == ("running", tries + 1, most + 1)
        assert world.callbacks == []


async def test_what_was_restarting_begins_anew() -> None:
    async with stuck() as world:
        await world.run_for(MINUTE)
        world.set_task("d", "r", "a", state="restarting")

        await world.crash()
        await world.run_for(MINUTE)

        assert facts(world) == ("running", 2, 2)


@pytest.mark.parametrize(("ending", "state"), [(defers(2 * HOUR), "deferred"), (reschedules(2 * HOUR), None)])
async def test_what_waits_without_a_slot_waits_on(ending: Any, state: str | None) -> None:
    async with stuck() as world:
        world.script("d", "a", lambda attempt: ending)
        await world.run_for(MINUTE)
        before = facts(world)

        await world.crash()
        await world.run_for(MINUTE)

        assert facts(world) == before
        assert before[0] == (state or "up_for_reschedule")


async def test_what_has_no_slot_yet_keeps_its_try() -> None:
    async with stuck() as world:
        world.pool("default_pool", slots=1)
        await world.run_for(MINUTE)
        assert set(world.states("d", "r").values()) == {"running", "scheduled"}
        (waiting,) = (name for name, state in world.states("d", "r").items() if state == "scheduled")

        await world.crash()
        world.pool("default_pool", slots=9)
        await world.run_for(MINUTE)

        assert world.task("d", "r", str(waiting)).try_number == 1


async def test_tasks_of_a_finished_run_are_left_alone() -> None:
    async with stuck() as world:
        await world.run_for(MINUTE)
        world.mark_run("d", "r", "failed")
        await world.run_for(MINUTE)
        before = world.states("d", "r")

        await world.crash()
        await world.run_for(MINUTE)

        assert world.states("d", "r") == before
