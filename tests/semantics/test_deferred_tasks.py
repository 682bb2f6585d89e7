"""What a deferred task occupies, and what it does not. Source: the semantics reference, sections 25.1 and 25.2.

The same with real rows, restarts and triggers is in tests/scheduler/test_triggers.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched.core.graph.spec import DagSpec, LiteralLength, MappingSpec, TaskSpec
from aiosched.core.values.messages import Attempt
from aiosched.testing import Ending, World, defers, succeeds

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def waits_at_first(attempt: Attempt) -> Ending:
    return succeeds() if attempt.resume is not None else defers(HOUR)


@pytest.mark.parametrize(
    ("world_has", "dag_has", "task_has", "deferred"),
    [
        pytest.param({"parallelism": 1}, {}, {}, 4, id="parallelism: not counted"),
        pytest.param({"slots": 1}, {}, {}, 4, id="slots of the executor: not counted"),
        pytest.param({}, {"max_active_tasks": 1}, {}, 4, id="max_active_tasks: not counted"),
        pytest.param({}, {"max_active_tasks_per_run": 1}, {}, 4, id="max_active_tasks_per_run: not counted"),
        pytest.param({}, {}, {"pool": "one"}, 4, id="a pool: not counted"),
        pytest.param({}, {}, {"pool": "keeping"}, 1, id="a pool that includes deferred ones: counted"),
        pytest.param({}, {}, {"max_active_tis_per_dag": 1}, 1, id="max_active_tis_per_dag: counted"),
        pytest.param({}, {}, {"max_active_tis_per_dagrun": 1}, 2, id="max_active_tis_per_dagrun: counted"),
    ],
)
async def test_which_limits_count_what_is_deferred(
    world_has: dict[str, Any], dag_has: dict[str, Any], task_has: dict[str, Any], deferred: int
) -> None:
    """Two runs of two mapped instances, and each limit is one."""
    async with World(now=START, **world_has) as world:
        world.pool("one", slots=1)
        world.pool("keeping", slots=1, include_deferred=True)
        mapped = TaskSpec(task_id="a", operator="X", mapping=MappingSpec(inputs=(LiteralLength(2),)), **task_has)
        world.add(DagSpec(dag_id="d", tasks=(mapped,), **dag_has))
        world.script("d", "a", waits_at_first)
        runs = [world.trigger("d"), world.trigger("d")]

        await world.run_for(MINUTE)
        waiting = [state for run in runs for state in world.states("d", run).values()]
        await world.run_until_idle()

        assert waiting.count("deferred") == deferred
        assert {world.run("d", run).state for run in runs} == {"success"}


async def test_going_on_needs_a_slot_and_is_the_same_try_with_the_same_start() -> None:
    async with World(now=START) as world:
        world.pool("one", slots=1)
        spec = DagSpec(dag_id="d", tasks=(TaskSpec(task_id="a", operator="X", pool="one"),))
        world.add(spec, DagSpec(dag_id="other", tasks=spec.tasks))
        world.script("d", "a", waits_at_first)
        world.script("other", "a", takes=2 * HOUR)
        run = world.trigger("d")
        await world.run_for(MINUTE)
        began = world.task("d", run, "a").start_date
        world.trigger("other")

        await world.run_for(HOUR)
        lined_up = world.task("d", run, "a")
        await world.run_until_idle()

        row = world.task("d", run, "a")
        assert (lined_up.state, lined_up.scheduled_at) == ("scheduled", began + timedelta(seconds=1) + HOUR)
        assert (row.state, row.try_number, row.start_date) == ("success", 1, began)
