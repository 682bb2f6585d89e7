"""A scheduler that dies at any of its database calls: who comes next ends everything as if nothing had happened.

For each scenario the calls are counted; then the service dies at the first, the second … call,
before it is sent, or after it took effect and before its answer. CI tries some of them, the
nightly run (`AIOSCHED_NIGHTLY=1`) each.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from functools import partial
from itertools import product
from unittest import mock

import pytest

from aiosched.scheduler.runs import incomplete
from tests.databases import TEMPLATE, Server
from tests.faults.crash_scenarios import SCENARIOS, Scenario
from tests.faults.end_states import attempts_that_overlap, most_at_once, of_the_dead, run_again, summary
from tests.faults.injection import When, faults
from tests.faults.mortal_services import World, play, world
from tests.patience import PATIENCE
from tests.scheduler.harness import assert_consistent, dag
from tests.scheduler.invariants import assert_memory_is_a_copy

NIGHTLY = bool(os.environ.get("AIOSCHED_NIGHTLY"))
_TRIED_IN_CI = 3  # of the calls of each scenario
_QUICK = {"a second scheduler takes over"}
_NEVER = 1_000_000_000
MOMENTS: tuple[When, When] = ("before", "after")


async def live(server: Server, scenario: Scenario, number: int, when: When) -> tuple[dict[str, object], World, int]:
    """Play a scenario whose first service dies at a call; check it; how it ended, and its number of calls."""
    dsn = await server.create(TEMPLATE)
    with faults() as injected, mock.patch.object(incomplete, "PART", scenario.part):
        try:
            async with world(dsn, injected, scenario.specs, scenario.script, **scenario.settings) as it:
                it.heirs = scenario.heirs
                for pool, slots in scenario.limits.items():
                    await it.execute("INSERT INTO pool (name, slots) VALUES ($1, $2)", pool, slots)
                await play(it, scenario.act, number=number, when=when, peers=scenario.peers)
                async with asyncio.timeout(PATIENCE):  # who died at the very end is taken over, too
                    await it.until(partial(no_scheduler_is_dead, it))
                await check(it, scenario)
                return await summary(it), it, injected.calls
        except BaseException as error:
            fired = " ".join(injected.fired[0].split())[:100] if injected.fired else "nothing"
            error.add_note(f"died {when} call {number}: {fired}")
            raise
        finally:
            await server.drop(dsn)


async def no_scheduler_is_dead(it: World) -> bool:
    return not await of_the_dead(it)


async def check(it: World, scenario: Scenario) -> None:
    """What holds at the end of any scenario."""
    assert attempts_that_overlap(it.chronicle) == []
    assert run_again(it, scenario.again) == []
    slots = {t.task_id: (t.pool, t.pool_slots) for spec in scenario.specs for t in spec.tasks}
    most = most_at_once(it.chronicle, slots)
    assert {pool: most[pool] for pool, limit in scenario.limits.items() if most[pool] > limit} == {}
    assert await of_the_dead(it) == []
    await assert_consistent(it.db)
    for service in it.services:
        await assert_memory_is_a_copy(service.running.session, it.db)


def chosen(calls: int) -> Iterator[tuple[int, When]]:
    """The calls to die at: all of them, or some that are spread evenly."""
    if NIGHTLY:
        yield from product(range(1, calls + 1), MOMENTS)
    else:
        step = calls / _TRIED_IN_CI
        yield from ((int(step * (i + 0.7)), MOMENTS[i % 2]) for i in range(_TRIED_IN_CI))


@pytest.mark.timeout(3600 if NIGHTLY else 900)
@pytest.mark.parametrize(
    "name", [name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SCENARIOS]
)
async def test_whenever_a_scheduler_dies_all_ends_as_if_it_had_not(server: Server, name: str) -> None:
    scenario = SCENARIOS[name]
    expected, _, calls = await live(server, scenario, _NEVER, "before")
    assert calls > 20

    deaths = 0
    for number, when in chosen(calls):
        ended, it, made = await live(server, scenario, number, when)
        if not it.deaths:  # fewer calls than the first time, since more was stored together
            ended, it, _ = await live(server, scenario, int(0.7 * made), when)
        deaths += it.deaths
        assert ended == expected, f"died {when} call {number}"
    assert deaths >= 0.7 * len(list(chosen(calls)))


async def test_an_attempt_that_dies_with_three_schedulers_in_a_row_fails_its_task_and_says_why(dsn: str) -> None:
    with faults() as injected:
        async with world(dsn, injected, [dag("d")], lambda executor, attempt: None) as it:
            it.heirs = 3
            await it.opened(it.add_service())
            await it.ask("trigger", "d", run_id="r")
            for death in range(1, 4):
                await it.until(partial(has_handed_out, it, death))
                it.services[0].life.end()
            await it.runs_are(d="failed")

            assert it.deaths == 3
            row = await it.fetch("SELECT state, losses, reason FROM task_instance")
            tries = await it.fetch("SELECT try_number, state FROM task_try ORDER BY try_number")
            assert list(map(tuple, row)) == [("failed", 3, "lost 3 times in a row: its scheduler ended while it ran")]
            assert list(map(tuple, tries)) == [(1, "lost"), (2, "lost"), (3, "failed")]
            await assert_consistent(it.db)


async def has_handed_out(it: World, times: int) -> bool:
    return sum(entry.what == "handed" for entry in it.chronicle) == times
