"""Pools and the limits of concurrency. Source: the semantics reference, sections 18.1 and 18.3; decisions 3 and 19.

Priority weights (18.2): tests/core/test_weights.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, EmptyOperator
from aiosched.config import Settings
from aiosched.core.graph.spec import DagSpec, LiteralLength, MappingSpec, TaskSpec
from aiosched.db.people.pools import delete_pool, get_pool, set_pool
from aiosched.db.server.engine import Database
from aiosched.errors import DagError, Refused
from aiosched.testing import World, defers, never_ends

START = datetime(2026, 1, 10, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def task(task_id: str, *upstream: str, **fields: Any) -> TaskSpec:
    return TaskSpec(task_id=task_id, operator="X", upstream=upstream, **{"pool": "etl"} | fields)


def running_in(world: World, *runs: str) -> int:
    return sum(state == "running" for run in runs for state in world.states("d", run).values())


# -- 18.1 pools -------------------------------------------------------------------------------------


async def test_the_default_pool_is_always_there(db: Database) -> None:
    before = await get_pool(db, "default_pool")
    await set_pool(db, "default_pool", 7, requested_by="me")

    with pytest.raises(Refused):
        await delete_pool(db, "default_pool", requested_by="me")

    assert (before.slots, before.include_deferred) == (128, False)
    assert (await get_pool(db, "default_pool")).slots == 7


@pytest.mark.parametrize(("slots", "running"), [(-1, 5), (0, 0), (1, 1), (3, 3), (9, 5)])
async def test_the_size_of_a_pool(slots: int, running: int) -> None:
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=tuple(task(f"t{n}") for n in range(5))))
        world.script("d", "*", lambda attempt: never_ends())
        world.pool("etl", slots=slots)

        run = world.trigger("d")
        await world.run_for(MINUTE)

        assert running_in(world, run) == running


@pytest.mark.parametrize(
    ("state", "include_deferred", "used"),
    [
        ("running", False, 2),
        ("queued", False, 2),
        ("restarting", False, 2),  # its process is still there
        ("deferred", False, 0),
        ("deferred", True, 2),
        ("scheduled", False, 0),
        ("scheduled", True, 0),
        ("up_for_retry", True, 0),
        ("up_for_reschedule", True, 0),
        ("success", True, 0),
    ],
)
async def test_what_is_open_is_the_total_less_what_is_running_and_queued(
    state: str, include_deferred: bool, used: int
) -> None:
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task("a", pool_slots=2, retries=1, max_active_tis_per_dag=1),)))
        world.pool("etl", slots=5, include_deferred=include_deferred)
        world.script("d", "a", lambda attempt: defers(DAY) if state == "deferred" else never_ends())
        run = world.trigger("d")
        await world.run_for(MINUTE)
        if state == "scheduled":  # behind the limit of its task
            run = world.trigger("d")
            await world.run_for(MINUTE)
            assert world.states("d", run) == {"a": "scheduled"}
            assert world.rows.pools["etl"].used == 2  # of the first one
            return
        if state != "deferred":
            world.set_task("d", run, "a", state=state, next_at=START + DAY if state.startswith("up_for") else None)

        assert world.states("d", run) == {"a": state}
        assert world.rows.pools["etl"].used == used


async def test_a_pool_may_be_below_its_use_and_nothing_is_stopped() -> None:
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=tuple(task(f"t{n}") for n in range(4))))
        world.script("d", "*", takes=10 * MINUTE)
        world.pool("etl", slots=3)
        run = world.trigger("d")
        await world.run_for(MINUTE)

        world.pool("etl", slots=1)
        await world.run_for(MINUTE)

        assert (running_in(world, run), world.rows.pools["etl"].used) == (3, 3)


async def test_mapped_instances_each_take_their_slots() -> None:
    async with World(now=START) as world:
        over = MappingSpec(inputs=(LiteralLength(5),))
        world.add(DagSpec(dag_id="d", tasks=(task("m", mapping=over, pool_slots=2),)))
        world.script("d", "*", lambda attempt: never_ends())
        world.pool("etl", slots=5)

        run = world.trigger("d")
        await world.run_for(MINUTE)

        assert (running_in(world, run), world.rows.pools["etl"].used) == (2, 4)


async def test_a_task_of_a_pool_that_is_missing_stays_scheduled_until_it_appears() -> None:
    """The warning of its file: tests/parsing/test_parsing_store.py."""
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task("a"),)))
        run = world.trigger("d")
        await world.run_for(DAY)
        before = world.states("d", run)

        world.pool("etl", slots=1)
        await world.run_until_idle()

        assert (before, world.states("d", run)) == ({"a": "scheduled"}, {"a": "success"})


@pytest.mark.parametrize("slots", [0, -1, 1.5, "2"])
def test_a_task_needs_one_slot_at_least(slots: Any) -> None:
    with pytest.raises(DagError, match="pool_slots"), DAG("d"):
        EmptyOperator(task_id="a", pool_slots=slots)


# -- 18.3 concurrency limits ------------------------------------------------------------------------


def test_the_defaults_of_the_limits() -> None:
    core, one = Settings().core, TaskSpec(task_id="a", operator="X")

    assert (core.parallelism, core.max_active_tasks_per_dag, core.max_active_runs_per_dag) == (32, 16, 16)
    assert (DagSpec(dag_id="d").max_active_tasks, DagSpec(dag_id="d").max_active_runs) == (16, 16)
    assert DagSpec(dag_id="d").max_active_tasks_per_run is None
    assert (one.max_active_tis_per_dag, one.max_active_tis_per_dagrun) == (None, None)


MAPPED = {"mapping": MappingSpec(inputs=(LiteralLength(3),))}


@pytest.mark.parametrize(
    ("of_dag", "of_task", "of_world", "running"),
    [
        ({}, {}, {}, 12),  # of two runs of 3 + 3 each: nothing is in the way
        ({}, {}, {"parallelism": 5}, 5),
        ({}, {}, {"slots": 5}, 5),  # of the executor
        ({"max_active_tasks": 5}, {}, {}, 5),  # over all runs
        ({"max_active_tasks_per_run": 2}, {}, {}, 4),  # in each
        ({}, {"max_active_tis_per_dag": 1}, {}, 7),  # the one task over all runs, the other free
        ({}, {"max_active_tis_per_dagrun": 1}, {}, 8),  # mapped siblings in each run
        ({"max_active_runs": 1}, {}, {}, 6),
        ({"max_active_tasks": 0}, {}, {}, 0),  # accepted, and blocks everything
        ({"max_active_runs": 0}, {}, {}, 0),
        ({}, {"max_active_tis_per_dag": 0}, {}, 6),
    ],
    ids=str,
)
async def test_what_each_limit_counts(
    of_dag: dict[str, Any], of_task: dict[str, Any], of_world: dict[str, int], running: int
) -> None:
    async with World(now=START, **of_world) as world:
        world.pool("etl", slots=-1)
        tasks = (task("limited", **MAPPED, **of_task), task("free", **MAPPED))
        world.add(DagSpec(dag_id="d", tasks=tasks, **{"max_active_tasks": 100, **of_dag}))
        world.script("d", "*", lambda attempt: never_ends())

        runs = [world.trigger("d") for _ in range(2)]
        await world.run_for(MINUTE)

        assert running_in(world, *runs) == running


@pytest.mark.parametrize("limit", ["max_active_tis_per_dag", "max_active_tis_per_dagrun"])
async def test_what_is_deferred_counts_for_its_task_and_not_for_its_dag(limit: str) -> None:
    async with World(now=START) as world:
        world.pool("etl", slots=-1)
        tasks = (task("limited", **MAPPED, **{limit: 1}, priority_weight=9), task("free"))
        world.add(DagSpec(dag_id="d", tasks=tasks, max_active_tasks=1))
        world.script("d", "limited", lambda attempt: defers(DAY, takes=MINUTE))
        world.script("d", "free", lambda attempt: never_ends())

        run = world.trigger("d")
        await world.run_for(2 * MINUTE)

        states = world.states("d", run)
        assert (sorted(str(states["limited", n]) for n in range(3)), states["free"]) == (
            ["deferred", "scheduled", "scheduled"], "running",
        )  # fmt: skip
