"""Pools with a rate in a world: what counts, who starts first, and several schedulers on one pool."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.spec import DagSpec, LiteralLength, MappingSpec, TaskSpec
from aiosched.core.values.ids import partition_of
from aiosched.scheduler.memory.changes import Changes
from aiosched.testing import World, defers, dies, fails, never_ends, reschedules, succeeds

START = datetime(2026, 1, 10, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class Starts:
    """Notes when attempts start in the pool `api`."""

    def __init__(self) -> None:
        self.at: list[datetime] = []

    def __call__(self, batch: Changes, at: datetime) -> None:
        claimed = [board.graph.tasks[instance.task] for board, instance in batch.effects.claimed]
        self.at += [at for task in claimed if task.pool == "api"]

    @property
    def seconds(self) -> list[float]:
        return [(at - START).total_seconds() for at in self.at]

    def most_in(self, period: timedelta) -> int:
        return max((sum(at <= other < at + period for other in self.at) for at in self.at), default=0)


def task(task_id: str, *upstream: str, **fields: Any) -> TaskSpec:
    return TaskSpec(task_id=task_id, operator="X", upstream=upstream, **{"pool": "api"} | fields)


def wide(dag_id: str, number: int, **fields: Any) -> DagSpec:
    return DagSpec(dag_id=dag_id, tasks=tuple(task(f"t{n}", **fields) for n in range(number)))


def dags_of_all(world: World, number: int) -> list[str]:
    """Names of DAGs, one for each scheduler in turn."""
    names, wanted = [], [{*member.context.partitions} for member in world._fleet.members]
    for n in range(10_000):
        if partition_of(f"d{n}") in wanted[len(names) % len(wanted)]:
            names.append(f"d{n}")
        if len(names) == number:
            break
    return names


@pytest.mark.parametrize("slots", [-1, 100])
async def test_tasks_start_as_soon_as_the_rate_allows(slots: int) -> None:
    starts = Starts()
    async with World(now=START, listener=starts) as world:
        world.pool("api", slots=slots, rate="2/min")
        world.add(wide("d", 5))
        world.trigger("d")

        await world.run_until_idle()

        assert starts.seconds == [0, 0, 60, 60, 120]


async def test_slots_and_rate_both_hold() -> None:
    starts = Starts()
    async with World(now=START, listener=starts, takes=timedelta(seconds=50)) as world:
        world.pool("api", slots=1, rate="2/min")
        world.add(wide("d", 4))
        world.trigger("d")

        await world.run_until_idle()

        assert starts.seconds == [0, 50, 100, 150]


async def test_a_rate_holds_nothing_up_in_other_pools() -> None:
    async with World(now=START) as world:
        world.pool("api", slots=9, rate="1/h")
        world.add(DagSpec(dag_id="d", tasks=(task("a"), task("b"), task("free", pool="default_pool"))))
        run = world.trigger("d")

        await world.run_for(MINUTE)

        assert sorted(world.states("d", run).values()) == ["scheduled", "success", "success"]


async def test_the_more_important_task_starts_first_and_then_the_one_that_waits_longer() -> None:
    order: list[str] = []

    def note(batch: Changes, at: datetime) -> None:
        order.extend(board.graph.task_ids[instance.task] for board, instance in batch.effects.claimed)

    async with World(now=START, listener=note) as world:
        world.pool("api", slots=9, rate="1/min")
        world.add(
            DagSpec(dag_id="d", tasks=(task("first", priority_weight=9), task("a"), task("b"), task("c", pool_slots=9)))
        )
        world.add(DagSpec(dag_id="late", tasks=(task("urgent", priority_weight=5),)))
        world.trigger("d")
        await world.run_for(10 * SECOND)
        world.trigger("late")

        await world.run_until_idle()

        assert order == ["first", "urgent", "a", "b", "c"]


async def test_retries_lost_attempts_and_checks_of_sensors_count_as_starts() -> None:
    starts = Starts()
    async with World(now=START, listener=starts) as world:
        world.pool("api", slots=9, rate="1/min")
        world.add(wide("d", 1, retries=1, retry_delay=0.0))
        endings = iter([dies(), fails(), succeeds()])
        world.script("d", "t0", lambda _: next(endings))
        world.trigger("d")

        await world.run_until_idle()
        assert starts.seconds == [0, 60, 120]

        world.script("d", "t0", lambda _: reschedules(SECOND) if len(starts.at) < 5 else succeeds())
        world.trigger("d")
        await world.run_until_idle()
        assert starts.seconds[3:] == [180, 240]


async def test_a_deferred_task_starts_again_and_its_trigger_is_no_start() -> None:
    starts = Starts()
    async with World(now=START, listener=starts) as world:
        world.pool("api", slots=9, rate="2/min", include_deferred=True)
        world.add(wide("d", 2))
        world.script("d", "*", lambda attempt: defers(SECOND) if attempt.resume is None else succeeds())
        world.trigger("d")

        await world.run_until_idle()

        assert starts.seconds == [0, 0, 60, 60]


async def test_mapped_instances_are_a_start_each_and_slots_do_not_matter() -> None:
    starts = Starts()
    mapping = MappingSpec(inputs=(LiteralLength(4),))
    async with World(now=START, listener=starts) as world:
        world.pool("api", slots=9, rate="3/min")
        world.add(DagSpec(dag_id="d", tasks=(task("each", mapping=mapping, pool_slots=3),)))
        world.trigger("d")

        await world.run_until_idle()

        assert starts.seconds == [0, 0, 0, 60]


async def test_a_start_counts_if_its_commit_was_stored_whether_or_not_somebody_heard_of_it() -> None:
    for stored in (False, True):
        starts = Starts()
        async with World(now=START, listener=starts) as world:
            world.pool("api", slots=9, rate="2/min")
            world.add(wide("d", 3))
            world.trigger("d")
            await world.create_runs()
            world.lose_next_commit(stored=stored)

            await world.run_until_idle()

            assert starts.seconds == ([0, 0, 60] if stored is False else [60]) or starts.most_in(MINUTE) <= 2
            assert world.states("d", world.runs("d")[0].run_id) == {"t0": "success", "t1": "success", "t2": "success"}


async def test_what_a_dead_scheduler_started_counts_and_starts_again_later() -> None:
    starts = Starts()
    async with World(now=START, schedulers=2, listener=starts) as world:
        world.pool("api", slots=9, rate="2/min")
        first, second = dags_of_all(world, 2)
        for dag_id in (first, second):
            world.add(wide(dag_id, 2))
        world.script("*", "*", lambda _: succeeds(takes=10 * SECOND))
        world.trigger(first)
        await world.run_for(SECOND)
        assert starts.seconds == [0, 0]

        await world.crash(scheduler=1)
        world.trigger(second)
        await world.run_until_idle()

        assert starts.most_in(MINUTE) == 2
        assert sorted(starts.seconds) == [0, 0, 60, 60, 120, 120]


@pytest.mark.parametrize(("before", "after", "seconds"), [
    ("1/min", "3/min", [0, 10, 10, 60]),  # at once
    ("3/min", "1/min", [0, 0, 0, 60]),  # what started counts
    ("1/min", None, [0, 10, 10, 10]),
    (None, "1/min", [0, 0, 0, 0]),
    ("2/min", "2/10s", [0, 0, 10, 10]),
])  # fmt: skip
async def test_an_edited_rate_holds_at_once(before: str | None, after: str | None, seconds: Sequence[int]) -> None:
    starts = Starts()
    async with World(now=START, listener=starts) as world:
        world.pool("api", slots=9, rate=before)
        world.add(wide("d", 4))
        world.script("d", "*", lambda _: succeeds(takes=SECOND))
        world.trigger("d")
        await world.run_for(10 * SECOND)

        world.pool("api", slots=9, rate=after)
        await world.run_for(10 * MINUTE)

        assert starts.seconds == list(seconds)


async def test_the_best_task_of_the_fleet_gets_the_next_start() -> None:
    order: list[str] = []

    def note(batch: Changes, at: datetime) -> None:
        order.extend(board.run.dag_id for board, _ in batch.effects.claimed)

    async with World(now=START, schedulers=3, listener=note) as world:
        world.pool("api", slots=-1, rate="1/min")
        names = dags_of_all(world, 6)
        for weight, dag_id in enumerate(names, start=1):
            world.add(wide(dag_id, 1, priority_weight=weight))
        world.trigger(names[0])
        await world.run_for(SECOND)
        for dag_id in names[1:]:
            world.trigger(dag_id)

        await world.run_until_idle()

        assert order == [names[0], *reversed(names[1:])]


@given(
    st.integers(1, 3), st.integers(1, 4), st.sampled_from([5, 60]), st.sampled_from([-1, 1, 3, 9]),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5), st.sampled_from(["run", "crash", "restart", "lose"])),
             min_size=1, max_size=6),
)  # fmt: skip
async def test_no_period_has_more_starts_than_allowed_however_many_schedulers_live_and_die(
    schedulers: int, allowed: int, seconds: int, slots: int, accidents: list[tuple[int, int, str]]
) -> None:
    starts = Starts()
    async with World(now=START, schedulers=schedulers, listener=starts) as world:
        world.pool("api", slots=slots, rate=f"{allowed}/{seconds}s")
        names = dags_of_all(world, 2 * schedulers)
        for dag_id in names:
            world.add(wide(dag_id, 3))
        for wait, which, what in accidents:
            world.trigger(names[which % len(names)])
            if what == "crash":
                await world.crash()
            elif what == "restart":
                await world.restart()
            elif what == "lose":
                world.lose_next_commit(stored=wait % 2 == 0)
            await world.run_for(wait * SECOND)

        await world.run_until_idle()

        assert starts.most_in(timedelta(seconds=seconds)) <= allowed
        assert all(run.state == "success" for name in names for run in world.runs(name))


async def test_a_world_without_rates_stores_no_starts() -> None:
    async with World(now=START) as world:
        world.add(wide("d", 3, pool="default_pool"))
        world.script("d", "*", lambda _: never_ends())
        world.trigger("d")

        await world.run_for(MINUTE)

        assert all(pool is not None and pool.starts == "[]" for pool in world.rows.pools.values())
