"""What a retry keeps and what it begins anew. Source: the semantics reference, section 22.3.

The XComs of a try are in test_xcoms_and_params.py, the timeout of a sensor over tries is decision 6 in
test_decisions.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from aiosched.core.graph.spec import DagSpec, LiteralLength, MapInput, MappingSpec, TaskSpec
from aiosched.core.values.messages import Attempt
from aiosched.testing import Ending, World, fails, never_ends, succeeds

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def task(task_id: str = "a", *upstream: str, **options: object) -> TaskSpec:
    fields: dict[str, object] = {"task_id": task_id, "operator": "X", "upstream": upstream}
    return TaskSpec(**fields | options)  # type: ignore[arg-type]


def test_what_a_task_has_that_says_nothing() -> None:
    said = task()

    assert (said.retries, said.retry_delay, said.max_retry_delay) == (0, 300.0, None)


async def test_dates_stay_while_it_waits_and_are_new_with_the_next_try() -> None:
    async with World(now=START, takes=MINUTE) as world:
        world.add(DagSpec(dag_id="d", tasks=(task(retries=1, retry_delay=600.0),)))
        world.script("d", "a", lambda a: fails(takes=MINUTE) if a.key.try_number == 1 else never_ends())
        run = world.trigger("d")

        await world.run_for(5 * MINUTE)
        waiting = world.task("d", run, "a")
        await world.run_for(10 * MINUTE)
        again = world.task("d", run, "a")

        assert (waiting.state, waiting.start_date, waiting.end_date) == ("up_for_retry", START, START + MINUTE)
        assert waiting.next_at == START + MINUTE + timedelta(seconds=600)
        assert (again.state, again.try_number, again.end_date) == ("running", 2, None)
        assert again.start_date == waiting.next_at + timedelta(microseconds=1)  # strictly later (22.1)


async def test_each_index_of_a_mapped_task_has_retries_of_its_own() -> None:
    tries: list[tuple[int, int]] = []

    def ending(attempt: Attempt) -> Ending:
        tries.append((attempt.key.map_index, attempt.key.try_number))
        return fails() if attempt.key.map_index == 1 else succeeds()

    literal: tuple[MapInput, ...] = (LiteralLength(3),)
    async with World(now=START) as world:
        mapped = task(retries=2, retry_delay=1.0, mapping=MappingSpec(inputs=literal))
        world.add(DagSpec(dag_id="d", tasks=(mapped,)))
        world.script("d", "a", ending)
        run = world.trigger("d")

        await world.run_until_idle()

        assert sorted(tries) == [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1)]
        assert [world.task("d", run, "a", n).state for n in range(3)] == ["success", "failed", "success"]


@pytest.mark.parametrize("rule", ["all_success", "all_done", "one_failed", "one_done", "none_failed"])
async def test_for_what_is_behind_it_a_task_that_waits_for_its_retry_is_not_done(rule: str) -> None:
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task(retries=1, retry_delay=600.0), task("b", "a", trigger_rule=rule))))
        world.script("d", "a", fails=True)
        run = world.trigger("d")

        await world.run_for(5 * MINUTE)

        assert world.states("d", run) == {"a": "up_for_retry", "b": None}
