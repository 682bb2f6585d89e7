"""Tasks that begin in their trigger, in a world: no worker, no slot, limits as in the scheduler. Section 25.6."""

from __future__ import annotations

from aiosched.core.values.messages import Deferral
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, at, dag, minutes, task

WAIT = Deferral(classpath="triggers.Wait", kwargs="{}", next_method="go_on")


async def test_it_waits_without_a_slot_and_goes_on_when_its_trigger_fires() -> None:
    async with World(now=NEW_YEAR, takes=minutes(1), slots=1) as it:
        begins = task("begins", starts_deferred=WAIT)
        it.add(dag("d", begins, task("busy"), max_active_tasks=1))
        run = it.trigger("d")

        await it.evaluate("d", run)
        await it.enqueue()

        assert it.states("d", run) == {"begins": "deferred", "busy": "queued"}
        await it.run_until(at(1))
        assert it.states("d", run) == {"begins": "success", "busy": "success"}
        assert it.run("d", run).state == "success"


async def test_the_limit_of_its_task_holds_over_all_runs() -> None:
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(dag("d", task("begins", starts_deferred=WAIT, max_active_tis_per_dag=1), max_active_runs=3))
        runs = [it.trigger("d", run_id=f"r{number}") for number in range(3)]
        for run in runs:
            await it.evaluate("d", run)
        await it.enqueue()

        assert sorted(it.states("d", run)["begins"] for run in runs) == ["deferred", "scheduled", "scheduled"]
        await it.run_until(at(1))
        assert {it.run("d", run).state for run in runs} == {"success"}
