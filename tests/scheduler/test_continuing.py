"""Schedules go on after the last run of another scheduler: the request `continue_schedule`. docs/migration.md."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables import CronTriggerTimetable
from aiosched.errors import Refused
from tests.scheduler.harness import NEW_YEAR, Running, dag, register, running, task

DAY = timedelta(days=1)
START = NEW_YEAR - 10 * DAY


def day(number: float) -> datetime:
    return NEW_YEAR + number * DAY


async def dates(it: Running) -> list[float]:
    """The logical dates of all runs in the order of their creation, in days from NEW_YEAR."""
    rows = await it.fetch("SELECT logical_date FROM dag_run ORDER BY id")
    return [(row["logical_date"] - NEW_YEAR) / DAY for row in rows]


async def goes_on(it: Running, spec: DagSpec, **args: Any) -> dict[str, Any]:
    """Register a paused DAG, continue after the run of these arguments, and unpause it."""
    await register(it.db, spec)
    await it.until(lambda: spec.dag_id in it.session.cache.dags, "the DAG")
    await it.ask("pause", spec.dag_id)
    found: dict[str, Any] = await it.ask("continue_schedule", spec.dag_id, **args)
    await it.ask("unpause", spec.dag_id)
    await it.settled()
    return found


def paused(*tasks: TaskSpec, **options: Any) -> DagSpec:
    return dag("d", *tasks, start_date=START, is_paused_upon_creation=True, **options)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        # as Airflow 2 has it: the logical date begins the period, which ends a day later
        ({"logical_date": day(-3), "run_after": day(-2)}, [-3, -2, -1]),
        # as Airflow 1.10 has it: only the date
        ({"logical_date": day(-3)}, [-3, -2, -1]),
        # as Airflow 3 has it: the logical date is when the run is due
        ({"logical_date": day(-2), "run_after": day(-2)}, [-3, -2, -1]),
        # nothing left to do
        ({"logical_date": day(-1), "run_after": day(0)}, [-1]),
    ],
)
async def test_catchup_goes_on_without_a_gap_or_a_repetition(
    dsn: str, clock: FakeClock, args: dict[str, datetime], expected: list[float]
) -> None:
    async with running(dsn, clock) as it:
        texts = {name: value.isoformat() for name, value in args.items()}
        await goes_on(it, paused(schedule="0 0 * * *", catchup=True), state="success", **texts)

        assert await dates(it) == expected


async def test_without_catchup_only_the_latest_period_follows(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        spec = paused(schedule="0 0 * * *", catchup=False)
        await goes_on(it, spec, state="failed", logical_date=day(-4).isoformat(), run_after=day(-3).isoformat())

        assert await dates(it) == [-4, -1]


async def test_without_catchup_a_period_that_has_been_done_is_not_repeated(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        spec = paused(schedule="0 0 * * *", catchup=False)
        await goes_on(it, spec, state="success", logical_date=day(-1).isoformat(), run_after=day(0).isoformat())
        assert await dates(it) == [-1]

        await it.advance(DAY.total_seconds())

        assert await dates(it) == [-1, 0]


async def test_a_trigger_timetable_goes_on_after_a_run_with_a_data_interval(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        spec = DagSpec(
            dag_id="d", timetable=CronTriggerTimetable("0 0 * * *", "UTC"), tasks=(task("a"),), start_date=START,
            catchup=True, is_paused_upon_creation=True,
        )  # fmt: skip
        await goes_on(it, spec, state="success", logical_date=day(-2).isoformat(), run_after=day(-1).isoformat())

        assert await dates(it) == [-1, 0]


async def test_the_run_has_its_results_and_tasks_that_depend_on_it_start(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        spec = paused(
            task("a", depends_on_past=True), task("b", depends_on_past=True), schedule="0 0 * * *", catchup=True
        )
        await goes_on(
            it, spec, state="failed", logical_date=day(-2).isoformat(), run_after=day(-1).isoformat(),
            tasks={"a": "success", "b": "failed", "gone": "success", "a[3]": "success"}, source="Airflow run r1",
        )  # fmt: skip

        rows = await it.fetch("SELECT state, note, triggered_by FROM dag_run ORDER BY id LIMIT 1")
        assert [tuple(row) for row in rows] == [("failed", "ran elsewhere: Airflow run r1", "timetable")]
        states = await it.fetch("SELECT task_index, state FROM task_instance ORDER BY run_id, task_index")
        assert [tuple(row) for row in states] == [(0, "success"), (1, "failed"), (0, "queued"), (1, None)]


async def test_a_second_time_nothing_changes(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        spec = paused(schedule="0 0 * * *", catchup=True)
        args = {"state": "success", "logical_date": day(-1).isoformat(), "run_after": day(0).isoformat()}
        await goes_on(it, spec, **args)

        again = await it.ask("continue_schedule", "d", **args)
        assert again["unchanged"] == "it goes on here already, after the run of 2025-12-31 00:00:00 UTC"
        assert await dates(it) == [-1]


async def test_the_dag_is_unpaused_in_the_same_step(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        await register(it.db, paused(schedule="0 0 * * *", catchup=True))
        await it.until(lambda: "d" in it.session.cache.dags, "the DAG")
        await it.ask("pause", "d")
        args = {"state": "success", "logical_date": day(-2).isoformat(), "run_after": day(-1).isoformat()}
        await it.ask("continue_schedule", "d", **args, unpause=True)
        await it.settled()

        assert await dates(it) == [-2, -1]


async def test_a_dag_without_a_clock_has_nothing_to_continue(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock) as it:
        with pytest.raises(Refused, match="has no schedule that follows the clock"):
            await goes_on(it, paused(schedule=None), state="success", logical_date=day(-1).isoformat())
