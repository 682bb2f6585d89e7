"""A queued run that running ones wait for starts before others, if need be beyond the limit: section 14.

The other runs here wait for the run before them, so whoever is cleared behind a full limit would wait for ever.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aiosched.clock import FakeClock
from aiosched.core.spec import DagSpec
from tests.scheduler.harness import Running, dag, running, task

DAY = [datetime(2025, 12, day, tzinfo=UTC) for day in range(1, 10)]


def patient(*more: Any, limit: int = 2, **options: Any) -> DagSpec:
    tasks = (task("a", depends_on_past=True), *more)
    return dag("d", *tasks, max_active_runs=limit, **options)


async def days(it: Running, first: int, final: int) -> None:
    for number in range(first, final + 1):
        await it.trigger("d", f"r{number}", logical_date=DAY[number])


async def fail(it: Running, task_id: str, run_id: str) -> None:
    it.executor.fail(await it.attempt(task_id, run_id))
    await it.settled()


async def active(it: Running) -> dict[str, str]:
    return {run: state for run, state in (await it.runs("d")).items() if state in ("queued", "running")}


async def the_first_has_failed(it: Running, *, behind: int) -> None:
    """r1 has failed; the runs behind it exist, and as many as may run wait for it."""
    await days(it, 1, 1)
    await fail(it, "a", "r1")
    await days(it, 2, 1 + behind)


async def test_a_cleared_run_starts_though_the_limit_is_full_of_runs_that_wait_for_it(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, patient()) as it:
        await the_first_has_failed(it, behind=4)
        assert await active(it) == {"r2": "running", "r3": "running", "r4": "queued", "r5": "queued"}

        await it.ask("clear", "d", run_ids=["r1"])

        assert await active(it) == {
            "r1": "running", "r2": "running", "r3": "running", "r4": "queued", "r5": "queued"
        }  # fmt: skip
        await it.finish("a", run_id="r1")
        assert await active(it) == {"r2": "running", "r3": "running", "r4": "queued", "r5": "queued"}
        await it.assert_consistent()
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}
        await it.assert_consistent()
