"""From scheduled to queued. Source: the semantics reference, sections 17.1 to 17.3 and 17.5.

There is no window of best candidates, so nothing needs to be asked again (17.4): that a pass takes all that a walk
over everything would take is a property in tests/core/test_waiting.py. The examples of 17.6: tests/core/test_slots.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched.core.graph.spec import DagSpec, LiteralLength, MappingSpec, TaskSpec
from aiosched.core.slots.allocation import Candidate, PoolRoom, Room, TaskRoom
from aiosched.testing import World, defers, never_ends
from tests.core.slot_builders import allocate, dag_room, needs, room

START = datetime(2026, 1, 10, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def task(task_id: str, *upstream: str, **fields: Any) -> TaskSpec:
    return TaskSpec(task_id=task_id, operator="X", upstream=upstream, **fields)


# -- 17.1 entering --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parallelism", "pools", "queued"),
    [
        (3, {"etl": 9}, 3),  # parallelism less what this scheduler runs
        (0, {"etl": 9}, 0),
        (9, {"etl": 2}, 2),  # open slots
        (9, {"etl": 0}, 0),  # none open
        (9, {"etl": -1}, 5),  # infinite
        (9, {"etl": PoolRoom(2, -1)}, 0),  # below its use
        (9, {"etl": 0, "other": 9}, 0),  # open slots elsewhere are of no use
    ],
)
def test_how_many_a_pass_may_queue(parallelism: int, pools: dict[str, Any], queued: int) -> None:
    grant = allocate([needs(index=number) for number in range(5)], room(parallelism=parallelism, **pools))

    assert len(grant.taken) == queued


COUNTED = {  # for the run (with us: the DAG, decision 3), and for the task
    "queued": (True, True),
    "running": (True, True),
    "restarting": (True, True),  # its process is still there
    "deferred": (False, True),
    "up_for_retry": (False, False),
    "up_for_reschedule": (False, False),
    "success": (False, False),
    "skipped": (False, False),
    "failed": (False, False),
    "upstream_failed": (False, False),
    "removed": (False, False),
}


@pytest.mark.parametrize(("state", "counts"), COUNTED.items(), ids=str)
@pytest.mark.parametrize("limit", ["max_active_tasks", "max_active_tis_per_dag"])
async def test_which_states_count_for_which_limit(state: str, counts: tuple[bool, bool], limit: str) -> None:
    """5. One instance is in that state; may the other one, of another run, have the only place?"""
    of_task = limit == "max_active_tis_per_dag"
    of_dag: dict[str, Any] = {} if of_task else {limit: 1}
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task("a", retries=2, **({limit: 1} if of_task else {})),), **of_dag))
        world.script("d", "a", lambda attempt: defers(DAY) if state == "deferred" else never_ends())
        first = world.trigger("d")
        await world.run_for(MINUTE)
        if state != "deferred":
            world.set_task("d", first, "a", state=state, next_at=START + DAY if state.startswith("up_for") else None)
        assert world.states("d", first) == {"a": state}

        second = world.trigger("d")
        await world.run_for(MINUTE)

        assert (world.states("d", second)["a"] == "scheduled") is counts[int(of_task)]


@pytest.mark.parametrize(("same_run", "waits"), [(True, True), (False, False)])
@pytest.mark.parametrize("limit", ["max_active_tis_per_dagrun", "max_active_tasks_per_run"])
async def test_a_limit_of_each_run_counts_in_that_run_alone(limit: str, same_run: bool, waits: bool) -> None:
    per_task = {limit: 1} if limit == "max_active_tis_per_dagrun" else {}
    per_run: dict[str, Any] = {} if per_task else {limit: 1}
    two = MappingSpec(inputs=(LiteralLength(2),))
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task("m", mapping=two if same_run else None, **per_task),), **per_run))
        world.script("d", "m", lambda attempt: never_ends())

        runs = [world.trigger("d") for _ in range(1 if same_run else 2)]
        await world.run_for(MINUTE)

        states = [state for run in runs for state in world.states("d", run).values()]
        assert states == (["running", "scheduled"] if waits else ["running", "running"])


# -- 17.2 who is a candidate, and the order ---------------------------------------------------------


def dated(name: str, *, weight: int = 1, date: float | None = None, map_index: int = -1) -> Candidate:
    return needs(weight=weight, map_index=map_index, **({} if date is None else {"logical_at": date}))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (dated("a", weight=2, date=9.0), dated("b", weight=1, date=1.0)),  # priority weight, descending
        (dated("a", date=1.0, map_index=5), dated("b", date=2.0)),  # then logical date
        (dated("a", date=2.0), dated("b")),  # null last
        (dated("a", date=1.0, map_index=0), dated("b", date=1.0, map_index=1)),  # then map index
        (dated("a", weight=-1), dated("b", weight=-2)),
    ],
)
def test_who_goes_first(first: Candidate, second: Candidate) -> None:
    for given in ([first, second], [second, first]):
        assert allocate(given, room(etl=1)).taken == [first]


def as_it_is(world: World, run: str) -> None: ...


def paused(world: World, run: str) -> None:
    world.pause("d")


def of_a_queued_run(world: World, run: str) -> None:
    world.mark_run("d", run, "failed")


@pytest.mark.parametrize(("change", "queued"), [(as_it_is, True), (paused, False), (of_a_queued_run, False)])
async def test_only_scheduled_instances_of_running_runs_of_dags_that_are_not_paused(
    change: Callable[[World, str], None], queued: bool
) -> None:
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task("a", pool="etl"),)))
        world.pool("etl", slots=0)
        world.script("d", "a", lambda attempt: never_ends())
        run = world.trigger("d")
        await world.run_for(MINUTE)

        change(world, run)
        world.pool("etl", slots=1)
        await world.run_for(MINUTE)

        assert (world.states("d", run)["a"] == "running") is queued


# -- 17.3 the walk ----------------------------------------------------------------------------------

FULL_DAG, FULL_RUN = dag_room(limit=0), dag_room(per_run=0)
ROOM: Callable[[], Room] = lambda: room(etl=2, narrow=1, shut=PoolRoom(3, 0))  # noqa: E731
WALK = {
    "pool does not exist": (needs(pool="ghost"), "pool 'ghost' does not exist"),
    "pool open <= 0": (needs(pool="shut"), "pool 'shut': needs 1 slot, 0 of 3 open"),
    "more than the pool has": (needs(3), "pool 'etl': needs 3 slots, has 2 in all"),
    "more than are open": (needs(2, pool="shut"), "pool 'shut': needs 2 slots, 0 of 3 open"),
    "max_active_tasks": (needs(dag=FULL_DAG), "0 of 0 tasks active (max_active_tasks)"),
    "max_active_tasks_per_run": (needs(dag=FULL_RUN), "(max_active_tasks_per_run)"),
    "max_active_tis_per_dag": (needs(task=TaskRoom("t", per_dag=0)), "(max_active_tis_per_dag)"),
    "max_active_tis_per_dagrun": (needs(task=TaskRoom("t", per_run=0)), "(max_active_tis_per_dagrun)"),
    "executor unknown": (needs(executor="ghost"), "executor 'ghost' is not configured"),
}


@pytest.mark.parametrize(("blocked", "reason"), WALK.values(), ids=WALK.keys())
def test_what_is_in_the_way_is_told_and_what_is_behind_it_is_taken(blocked: Candidate, reason: str) -> None:
    behind = needs(weight=0)

    grant = allocate([blocked, behind], ROOM())

    assert grant.taken == [behind]
    ((refused, why),) = grant.refused
    assert refused is blocked
    assert reason in why


def test_what_is_taken_is_counted_everywhere() -> None:
    dag, limited, given = dag_room(), TaskRoom("t", per_dag=9), room(etl=5)

    allocate([needs(2, dag=dag, run=7, task=limited)], given)

    assert (given.open, given.pools["etl"].open, given.executors[None].open) == (999, 3, 999)
    assert (dag.active, dag.by_run, limited.active, limited.by_run) == (1, {7: 1}, 1, {7: 1})


# -- 17.5 after -------------------------------------------------------------------------------------


async def test_what_was_taken_is_queued_now_by_this_scheduler_and_then_handed_out() -> None:
    """One commit, and then it is handed to its executor: tests/scheduler/test_journaling.py."""
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task("a"), task("b", pool="shut"))))
        world.pool("shut", slots=0)
        run = world.trigger("d")
        await world.create_runs()
        await world.evaluate("d", run)

        assert await world.enqueue() == [("d", run, "a")]

        row = world.task("d", run, "a")
        assert (row.state, row.queued_at, row.queued_by) == ("queued", START, 1)
        assert list(world.waiting()) == [("d", run, "b")]


async def test_an_instance_whose_run_finishes_meanwhile_is_not_handed_out() -> None:
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task("a", pool="etl"),)))
        world.pool("etl", slots=0)
        run = world.trigger("d")
        await world.run_for(MINUTE)

        world.cancel("d", run)
        world.pool("etl", slots=1)

        assert await world.enqueue() == []
        assert world.states("d", run) == {"a": "skipped"}
