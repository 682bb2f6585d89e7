"""Values beyond measure in DAGs and requests: none stops the scheduler or holds the other DAGs up."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.errors import Refused
from tests.scheduler.harness import Running, dag, running, task

FOREVER = 1e13  # seconds: beyond the calendar


async def other_dags_go_on(it: Running) -> None:
    await it.trigger("other", "r_other")
    assert await it.runs("other") == {"r_other": "running"}


@pytest.mark.parametrize(
    ("of_dag", "of_task"),
    [
        pytest.param({"dagrun_timeout": FOREVER}, {}, id="dagrun_timeout"),
        pytest.param({}, {"execution_timeout": FOREVER}, id="execution_timeout"),
        pytest.param({}, {"retry_delay": FOREVER, "retries": 1}, id="retry_delay"),
        pytest.param({}, {"retries": 10**12}, id="retries"),
        pytest.param({"max_active_runs": 10**12}, {}, id="max_active_runs"),
        pytest.param({"max_active_tasks": 10**12}, {}, id="max_active_tasks"),
        pytest.param({}, {"priority_weight": 10**12}, id="priority_weight"),
        pytest.param({"max_consecutive_failed_dag_runs": 10**30}, {}, id="max_consecutive_failed_dag_runs"),
        pytest.param({}, {"max_active_tis_per_dag": 10**12}, id="max_active_tis_per_dag"),
    ],
)
async def test_a_run_whose_options_are_beyond_measure_runs(
    dsn: str, clock: FakeClock, of_dag: dict[str, Any], of_task: dict[str, Any]
) -> None:
    huge = dag("d", task("a", **of_task), **of_dag)
    async with running(dsn, clock, huge, dag("other", task("a"))) as it:
        await it.trigger("d", "r")
        await it.fail("a")
        await other_dags_go_on(it)

        assert await it.states("r") == {"a": "up_for_retry" if of_task.get("retries") else "failed"}


@pytest.mark.parametrize("schedule", ["@daily", None])
@pytest.mark.parametrize("instant", ["9999-12-31T23:59:59.999999+00:00", "0001-01-01T00:00:00+00:00"])
@pytest.mark.parametrize("which", ["logical_date", "run_after"])
async def test_a_request_for_the_edge_of_the_calendar_is_answered(
    dsn: str, clock: FakeClock, schedule: str | None, instant: str, which: str
) -> None:
    asked = dag("d", task("a"), schedule=schedule)
    async with running(dsn, clock, asked, dag("other", task("a"))) as it:
        try:
            await it.ask("trigger", "d", run_id="r", **{which: instant})
        except Refused as refusal:
            assert instant[:4] in str(refusal)

        await other_dags_go_on(it)
