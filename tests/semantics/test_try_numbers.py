"""When the number of a try grows, and how many retries are left: section 2.5 of the semantics reference."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.testing import World, defers, dies, fails, never_ends, reschedules

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
Numbers = tuple[int, int]  # try_number, max_tries


async def scheduled(world: World) -> None:
    world.pool("etl", slots=0)


async def retried(world: World) -> None:
    world.script("d", "a", lambda attempt: fails() if attempt.key.try_number == 1 else never_ends())


async def rescheduled(world: World) -> None:
    calls = iter([reschedules(MINUTE), never_ends()])
    world.script("d", "a", lambda attempt: next(calls))


async def deferred(world: World) -> None:
    world.script("d", "a", lambda attempt: never_ends() if attempt.resume else defers(MINUTE))


async def lost(world: World) -> None:
    calls = iter([dies(), never_ends()])
    world.script("d", "a", lambda attempt: next(calls))


async def cleared(world: World) -> None:
    await world.run_for(MINUTE)
    world.pause("d")
    world.clear("d")


async def cleared_while_running(world: World) -> None:
    calls = iter([never_ends(), never_ends()])
    world.script("d", "a", lambda attempt: next(calls))
    await world.run_for(MINUTE)
    world.pause("d")
    world.clear("d")


async def cleared_after_all_its_tries(world: World) -> None:
    world.script("d", "a", fails=True)
    await world.run_for(timedelta(hours=1))
    world.clear("d")


@pytest.mark.parametrize(
    ("event", "numbers"),
    [
        (scheduled, (1, 2)),
        (retried, (2, 2)),
        (rescheduled, (1, 2)),
        (deferred, (1, 2)),
        (cleared, (1, 3)),
        (cleared_while_running, (1, 3)),
        (cleared_after_all_its_tries, (6, 5)),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
async def test_the_number_of_the_try(event: Callable[[World], Awaitable[None]], numbers: Numbers) -> None:
    async with World(now=START) as world:
        world.add(
            DagSpec(dag_id="d", tasks=(TaskSpec(task_id="a", operator="X", retries=2, retry_delay=60.0, pool="etl"),))
        )
        world.pool("etl", slots=1)
        run = world.trigger("d")

        await event(world)
        await world.run_for(timedelta(hours=1))

        row = world.task("d", run, "a")
        assert (row.try_number, row.max_tries) == numbers


async def test_a_new_instance_has_had_no_try() -> None:
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(TaskSpec(task_id="a", operator="X", retries=2),)))

        run = world.trigger("d", run_after=START + MINUTE)

        row = world.task("d", run, "a")
        assert (row.state, row.try_number, row.max_tries) == (None, 0, 2)


async def test_a_lost_attempt_is_a_new_try_that_spends_no_retry() -> None:
    """Decision 17 of section 34, in place of the row about orphans."""
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(TaskSpec(task_id="a", operator="X", retries=2),)))
        run = world.trigger("d")

        await lost(world)
        await world.run_for(MINUTE)

        row = world.task("d", run, "a")
        assert (row.try_number, row.max_tries, row.losses) == (2, 3, 1)
