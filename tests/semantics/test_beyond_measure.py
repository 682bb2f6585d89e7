"""Values beyond measure in DAGs and requests: none stops the scheduler or holds the other DAGs up."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched import DAG, EmptyOperator
from aiosched.clock import FakeClock
from aiosched.errors import DagError, Refused
from tests.scheduler.harness import Running, dag, running, task

MOST = 2**31 - 1
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
    ],
)
async def test_a_run_whose_options_are_beyond_measure_runs(
    dsn: str, clock: FakeClock, of_dag: dict[str, Any], of_task: dict[str, Any]
) -> None:
    huge = dag("d", task("a", **of_task), **of_dag)
    async with running(dsn, clock, huge, dag("other", task("a"))) as it:
        await it.trigger("d", "r")
        it.executor.fail(await it.attempt("a"))
        await it.settled()
        await other_dags_go_on(it)

        assert await it.states("r") == {"a": "up_for_retry" if of_task.get("retries") else "failed"}


@pytest.mark.parametrize(
    ("option", "most", "of_dag"),
    [
        ("retries", 30_000, False),
        ("pool_slots", MOST, False),
        ("priority_weight", MOST, False),
        ("max_active_tis_per_dag", MOST, False),
        ("max_active_tis_per_dagrun", MOST, False),
        ("max_active_runs", MOST, True),
        ("max_active_tasks", MOST, True),
        ("max_active_tasks_per_run", MOST, True),
        ("max_consecutive_failed_dag_runs", MOST, True),
    ],
)
def test_a_number_beyond_measure_is_an_error_of_its_author(option: str, most: int, of_dag: bool) -> None:
    def build(number: int) -> None:
        with DAG("d", schedule=None, **({option: number} if of_dag else {})) as dag:
            EmptyOperator(task_id="t", **({} if of_dag else {option: number}))
        dag.to_spec()

    build(most)
    with pytest.raises(DagError, match=f"{option}={most + 1} is wrong: give a whole number of at most {most}"):
        build(most + 1)


@pytest.mark.parametrize("instant", ["9999-12-31T23:59:59.999999+00:00", "0001-01-01T00:00:00+00:00"])
async def test_a_logical_date_at_the_edge_of_the_calendar_is_refused(dsn: str, clock: FakeClock, instant: str) -> None:
    async with running(dsn, clock, dag("d", task("a"), schedule="@daily"), dag("other", task("a"))) as it:
        with pytest.raises(Refused, match=f"The logical date {instant[:4]}.*edge of the calendar: give another one"):
            await it.ask("trigger", "d", run_id="r", logical_date=instant)
        await other_dags_go_on(it)


@pytest.mark.parametrize(
    ("which", "instant", "state"),
    [
        ("logical_date", "9999-12-31T23:59:59.999999+00:00", "running"),
        ("logical_date", "0001-01-01T00:00:00+00:00", "running"),
        ("run_after", "9999-12-31T23:59:59.999999+00:00", "queued"),
        ("run_after", "0001-01-01T00:00:00+00:00", "running"),
    ],
)
async def test_dates_at_the_edge_of_the_calendar_are_as_good_as_others_without_a_schedule(
    dsn: str, clock: FakeClock, which: str, instant: str, state: str
) -> None:
    async with running(dsn, clock, dag("d", task("a")), dag("other", task("a"))) as it:
        await it.ask("trigger", "d", run_id="r", **{which: instant})
        await other_dags_go_on(it)

        assert await it.runs("d") == {"r": state}


async def test_a_backfill_from_the_edge_of_the_calendar_is_answered(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), schedule="@yearly"), dag("other", task("a"))) as it:
        with pytest.raises(Refused):
            await it.ask(
                "backfill_create", "d", **{"from": "0001-01-01T00:00:00+00:00", "to": "9999-12-31T00:00:00+00:00"}
            )
        await other_dags_go_on(it)
