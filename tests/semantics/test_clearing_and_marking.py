"""Clearing and marking in earlier and later runs, and a clear that stops nothing.

Source: the semantics reference, section 28.

Other options and effects are in tests/core/test_marks.py, test_try_numbers.py and tests/testing/test_world_people.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.errors import Refused
from aiosched.testing import World, never_ends

NOW = datetime(2026, 1, 20, tzinfo=UTC)
DAYS = {f"d{number}": datetime(2026, 1, number, tzinfo=UTC) for number in (5, 6, 7, 8)}


def chain() -> DagSpec:
    """a -> b -> c"""
    tasks = [
        TaskSpec(task_id=task_id, operator="X", upstream=upstream)
        for task_id, upstream in (("a", ()), ("b", ("a",)), ("c", ("b",)))
    ]
    return DagSpec(dag_id="d", tasks=tuple(tasks))


async def world_of(**script: Any) -> World:
    """Runs of four days, made in another order than theirs, and one without a logical date; all over."""
    world = World(now=NOW)
    world.add(chain())
    if script:
        world.script("d", "b", **script)
    for run_id in ("d7", "d5", "d8", "d6"):
        world.trigger("d", run_id=run_id, logical_date=DAYS[run_id])
    world.trigger("d", run_id="undated")
    await world.run_until_idle()
    return world


def touched(instances: list[dict[str, Any]]) -> set[str]:
    return {f"{one['run_id']}.{one['task_id']}" for one in instances}


# ---- 28.1 and 28.4: past and future ----


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ({}, {"d6"}),
        ({"past": True}, {"d5", "d6"}),
        ({"future": True}, {"d6", "d7", "d8"}),
        ({"past": True, "future": True}, {"d5", "d6", "d7", "d8"}),
    ],
    ids=["neither", "past", "future", "both"],
)
async def test_past_and_future_go_by_logical_date(options: dict[str, Any], runs: set[str]) -> None:
    async with await world_of(fails=1) as world:
        cleared = world.clear("d", ["d6"], task_ids=["b"], dry_run=True, **options)
        looked_at = world.mark_task("d", "d6", "b", "success", dry_run=True, **options)
        before = {run_id: world.states("d", run_id)["b"] for run_id in DAYS}

        marked = world.mark_task("d", "d6", "b", "success", **options)

        assert touched(cleared) == touched(looked_at) == touched(marked) == {f"{run_id}.b" for run_id in runs}
        assert set(before.values()) == {"failed"}
        assert {run_id for run_id in DAYS if world.states("d", run_id)["b"] == "success"} == runs
        assert world.states("d", "undated")["b"] == "failed"
        assert {run_id for run_id in DAYS if world.run("d", run_id).state == "queued"} == runs  # c was upstream_failed
        await world.run_until_idle()
        assert {run_id for run_id in DAYS if world.run("d", run_id).state == "success"} == runs


async def test_marking_takes_upstream_and_downstream_in_every_run_that_is_meant() -> None:
    async with await world_of(fails=1) as world:
        instances = world.mark_task("d", "d7", "b", "success", upstream=True, downstream=True, future=True)

        assert touched(instances) == {f"{run_id}.{task_id}" for run_id in ("d7", "d8") for task_id in "abc"}
        assert set(world.states("d", "d8").values()) == {"success"}
        assert set(world.states("d", "d6").values()) == {"success", "failed", "upstream_failed"}


async def test_between_several_named_runs_lie_those_of_both_directions() -> None:
    async with await world_of() as world:
        past = world.clear("d", ["d5", "d7"], task_ids=["a"], past=True, dry_run=True)
        future = world.clear("d", ["d6", "d7"], task_ids=["a"], future=True, dry_run=True)

        assert touched(past) == {"d5.a", "d6.a", "d7.a"}
        assert touched(future) == {"d6.a", "d7.a", "d8.a"}


@pytest.mark.parametrize("option", ["past", "future"])
async def test_a_run_without_a_logical_date_has_no_past_and_no_future(option: str) -> None:
    wish: dict[str, Any] = {option: True}
    async with await world_of() as world:
        with pytest.raises(Refused, match=r"'undated' has no logical date.* without past and future"):
            world.mark_task("d", "undated", "b", "failed", **wish)
        with pytest.raises(Refused, match="'undated' has no logical date"):
            world.clear("d", ["d5", "undated"], **wish)
        with pytest.raises(Refused, match="name one, or give dates"):
            world.clear("d", **wish)
        assert set(world.states("d", "undated").values()) == {"success"}


# ---- 28.2: prevent running ----


async def test_a_clear_that_would_stop_something_may_be_refused_as_a_whole() -> None:
    async with World(now=NOW) as world:
        world.add(chain())
        world.script("d", "b", lambda attempt: never_ends())
        world.trigger("d", run_id="r")
        await world.run_for(timedelta(minutes=1))

        before = world.states("d", "r")
        for dry_run in (True, False):
            with pytest.raises(Refused, match=r"b of run 'r'\. Wait for them to end"):
                world.clear("d", prevent_running=True, dry_run=dry_run)

        assert world.states("d", "r") == before
        assert touched(world.clear("d", ["r"], task_ids=["a"], prevent_running=True)) == {"r.a"}
        assert touched(world.clear("d", ["r"], task_ids=["b"])) == {"r.b"}
