"""The decisions made once, each row of the table. Source: the semantics reference, section 34.

Rows whose proof needs more than a world in memory have their tests elsewhere, and these name the row: 11
(tests/scheduler/test_journaling.py, test_handover.py), 14 (tests/scheduler/test_outbox.py, test_outbox_crashes.py),
15 (tests/parsing/test_discovery.py), 20 (tests/scheduler/test_creating_runs.py, tests/parsing/test_parsing_store.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dateutil.relativedelta import relativedelta

from aiosched import (
    DAG,
    Asset,
    BaseSensorOperator,
    BranchPythonOperator,
    EmptyOperator,
    PythonSensor,
    ShortCircuitOperator,
)
from aiosched.clock import FakeClock
from aiosched.config import Settings
from aiosched.core.graph.spec import AssetRef, DagSpec, TaskSpec
from aiosched.core.timetables import CronTriggerTimetable, DeltaTriggerTimetable
from aiosched.core.timetables.parse import parse_schedule
from aiosched.core.values.messages import Attempt
from aiosched.core.values.states import RunType
from aiosched.executors.dag_test import run_dag_test
from aiosched.testing import Ending, World, defers, dies, fails, never_ends, reschedules, skips, succeeds

START = datetime(2026, 1, 10, 12, 47, tzinfo=UTC)  # a Saturday
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def task(task_id: str = "a", *upstream: str, **options: Any) -> TaskSpec:
    return TaskSpec(task_id=task_id, operator="X", upstream=upstream, **options)


def dag(dag_id: str, *tasks: TaskSpec, schedule: object = None, **options: Any) -> DagSpec:
    timetable = parse_schedule(schedule, start_date=options.get("start_date"))
    return DagSpec(dag_id=dag_id, tasks=tasks or (task(),), timetable=timetable, **options)


def on(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


# ---- when runs happen: 1, 2, 4, 5, 8, 10 ----


@pytest.mark.parametrize(
    ("schedule", "interval", "run_after"),
    [
        pytest.param("0 6 * * *", (on(10, 6), on(11, 6)), on(11, 6), id="cron string"),
        pytest.param("@daily", (on(10), on(11)), on(11), id="preset"),
        pytest.param(DAY, (on(10), on(11)), on(11), id="timedelta"),
        pytest.param(relativedelta(days=1), (on(10), on(11)), on(11), id="relativedelta"),
        pytest.param(CronTriggerTimetable("0 6 * * *", "UTC"), (on(10, 6), on(10, 6)), on(10, 6), id="cron trigger"),
        pytest.param(DeltaTriggerTimetable(DAY), (on(10), on(10)), on(10), id="delta trigger"),
    ],
)
async def test_1_a_cron_string_or_timedelta_runs_at_the_end_of_its_period_and_a_trigger_timetable_at_its_tick(
    schedule: object, interval: tuple[datetime, datetime], run_after: datetime
) -> None:
    async with World(now=on(9, 12)) as world:
        world.add(dag("d", schedule=schedule, start_date=on(10), catchup=True))

        await world.run_until(run_after - MINUTE)
        before = len(world.runs("d"))
        await world.run_until(run_after)

        (run,) = world.runs("d")
        assert (before, run.run_after, run.start_date) == (0, run_after, run_after)
        assert (run.logical_date, run.interval_start, run.interval_end) == (interval[0], *interval)


async def test_2_catchup_is_off_where_nothing_is_said() -> None:
    with DAG("d", schedule="@daily", start_date=on(1)) as silent:
        EmptyOperator(task_id="a")
    async with World(now=START) as world:
        world.add(silent)

        await world.run_for(MINUTE)

        assert [run.logical_date for run in world.runs("d")] == [on(9)]


async def test_4_an_asset_triggered_run_has_neither_logical_date_nor_interval() -> None:
    async with World(now=START) as world:
        world.add(dag("maker", task(outlets=(AssetRef(name="x"),))))
        world.add(dag("reader", schedule=Asset("x")))
        world.trigger("maker")

        await world.run_for(HOUR)

        (run,) = world.runs("reader")
        assert run.run_type is RunType.ASSET_TRIGGERED
        assert (run.logical_date, run.interval_start, run.interval_end) == (None, None, None)


async def test_5_run_ids_name_type_and_instant() -> None:
    async with World(now=START) as world:
        world.add(dag("d", schedule="@daily", start_date=on(1), catchup=False, max_active_runs=9))
        world.add(dag("maker", task(outlets=(AssetRef(name="x"),))), dag("reader", schedule=Asset("x")))
        world.trigger("maker")
        await world.run_for(MINUTE)
        world.backfill("d", on(2), on(2))
        await world.run_for(MINUTE)

        found = {run.run_type: run.run_id for run in [*world.runs("d"), *world.runs("reader")]}

        assert found[RunType.SCHEDULED] == "scheduled__2026-01-09T00:00:00+00:00"
        assert found[RunType.BACKFILL] == "backfill__2026-01-02T00:00:00+00:00"
        assert re.fullmatch(r"asset_triggered__2026-01-10T12:47:01\+00:00_\w+", found[RunType.ASSET_TRIGGERED]), (
            "its run_after, and something random in place of a logical date"
        )


async def test_8_a_manual_run_may_have_no_logical_date_and_then_has_no_interval() -> None:
    async with World(now=START) as world:
        world.add(dag("d", schedule="@daily", start_date=on(1), catchup=False))

        world.trigger("d", run_id="without")
        world.trigger("d", run_id="with", logical_date=on(10))
        await world.run_for(HOUR)

        without, dated = world.run("d", "without"), world.run("d", "with")
        assert (without.logical_date, without.interval_start, without.interval_end) == (None, None, None)
        assert (dated.logical_date, dated.interval_start, dated.interval_end) == (on(10), on(9), on(10))
        assert {without.state, dated.state} == {"success"}


@pytest.mark.parametrize(
    ("schedule", "logical_date"),
    [
        pytest.param(30 * MINUTE, on(10, 12, 10), id="interval"),
        pytest.param(DeltaTriggerTimetable(30 * MINUTE), on(10, 12, 40), id="trigger"),
    ],
)
async def test_10_a_delta_without_catchup_stays_on_the_grid_of_its_start_date(
    schedule: object, logical_date: datetime
) -> None:
    """Also a row of section 36. Every 30 minutes from 10:10, asked at 12:47."""
    async with World(now=START) as world:
        world.add(dag("d", schedule=schedule, start_date=on(1, 10, 10), catchup=False))

        await world.run_for(HOUR)

        dates = [run.logical_date for run in world.runs("d")]
        assert dates == [logical_date, logical_date + 30 * MINUTE, logical_date + 60 * MINUTE]


# ---- limits and waiting: 3, 9, 12, 16, 19 ----


@pytest.mark.parametrize(
    ("limits", "running"),
    [({"max_active_tasks": 3}, 3), ({"max_active_tasks_per_run": 3}, 6), ({}, 8)],
    ids=["all runs together", "each run", "neither"],
)
async def test_3_max_active_tasks_counts_over_all_active_runs(limits: dict[str, int], running: int) -> None:
    async with World(now=START) as world:
        world.add(dag("d", *(task(name) for name in "abcd"), **limits))
        world.script("*", "*", lambda attempt: never_ends())
        runs = [world.trigger("d"), world.trigger("d")]

        await world.run_for(HOUR)

        assert sum(state == "running" for run in runs for state in world.states("d", run).values()) == running


@pytest.mark.parametrize(("honoured", "meanwhile"), [(True, None), (False, "skipped")])
async def test_9_a_skip_waits_for_the_past_where_the_task_says_so(honoured: bool, meanwhile: str | None) -> None:
    patient = task("a", "up", depends_on_past=True, wait_for_past_depends_before_skipping=honoured)
    async with World(now=on(11)) as world:
        world.add(dag("d", task("up"), patient, schedule="@daily", start_date=on(9), catchup=True))
        second = "scheduled__2026-01-10T00:00:00+00:00"
        world.script("d", "up", lambda attempt: skips() if attempt.run.run_id == second else succeeds())
        world.script("d", "a", takes=HOUR)

        await world.run_for(30 * MINUTE)
        waited = world.states("d", second)["a"]
        await world.run_for(HOUR)

        assert (waited, world.states("d", second)["a"]) == (meanwhile, "skipped")


@pytest.mark.parametrize(("ignored", "state"), [(None, "success"), (True, "success"), (False, None)])
async def test_12_the_first_run_has_no_past_unless_the_task_says_otherwise(
    ignored: bool | None, state: str | None
) -> None:
    """A run before it exists, in which the task did not."""
    options = {} if ignored is None else {"ignore_first_depends_on_past": ignored}
    async with World(now=on(11)) as world:
        world.add(dag("d", task("other"), schedule="@daily", start_date=on(10), catchup=True))
        await world.run_for(HOUR)
        new = task("a", depends_on_past=True, **options)
        world.add(dag("d", task("other"), new, schedule="@daily", start_date=on(10), catchup=True))

        await world.run_until(on(12, 1))

        assert world.states("d", world.runs("d")[-1].run_id)["a"] == state


def test_16_new_dags_are_not_paused() -> None:
    assert Settings().core.dags_are_paused_at_creation is False


async def test_19_the_default_pool_has_128_slots() -> None:
    assert Settings().core.default_pool_task_slot_count == 128
    async with World(now=START) as world:
        world.add(dag("d", *(task(f"t{n}") for n in range(130)), max_active_tasks=1000))
        world.script("*", "*", lambda attempt: never_ends())
        run = world.trigger("d")

        await world.run_for(HOUR)

        assert sum(state == "running" for state in world.states("d", run).values()) == 128


# ---- tasks: 6, 7, 13, 17 ----


@pytest.mark.parametrize("mode", ["poke", "reschedule"])
async def test_6_the_timeout_of_a_sensor_is_that_of_each_try(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four pokes of a minute and a half, of which the last one fails the try: the next one has all five minutes."""
    clock, pokes = FakeClock(START), 0
    monkeypatch.setattr(BaseSensorOperator, "clock", clock)

    def poke() -> bool:
        nonlocal pokes
        pokes += 1
        clock.advance(90)
        if pokes == 4:
            raise ValueError("an error beside the waiting")
        return pokes == 7

    with DAG("d", schedule=None) as made:
        PythonSensor(
            task_id="s",
            python_callable=poke,
            mode=mode,
            poke_interval=0.001,
            timeout=300,
            retries=1,
            retry_delay=timedelta(0),
        )
    run = await run_dag_test(made, clock=clock, pause=0)

    assert (run.task("s").state, run.task("s").try_number, pokes) == ("success", 2, 7)


BRANCHES: dict[str, Callable[[], Any]] = {
    "branch that skips": lambda: BranchPythonOperator(task_id="b", python_callable=lambda: "left"),
    "branch that follows all": lambda: BranchPythonOperator(task_id="b", python_callable=lambda: ["left", "right"]),
    "closed short circuit": lambda: ShortCircuitOperator(task_id="b", python_callable=lambda: 0),
    "open short circuit": lambda: ShortCircuitOperator(task_id="b", python_callable=lambda: 7),
}


@pytest.mark.parametrize(
    ("which", "pushed"),
    [
        ("branch that skips", {}),
        ("branch that follows all", {"return_value": ["left", "right"]}),
        ("closed short circuit", {}),
        ("open short circuit", {"return_value": 7}),
    ],
)
async def test_7_a_branch_or_short_circuit_that_skipped_pushes_no_return_value(
    which: str, pushed: dict[str, Any]
) -> None:
    with DAG("d", schedule=None) as made:
        BRANCHES[which]() >> [EmptyOperator(task_id="left"), EmptyOperator(task_id="right")]

    run = await run_dag_test(made)

    found = {key: value for key, value in run.xcoms.get("b", {}).items() if key == "return_value"}
    assert found == pushed


@pytest.mark.parametrize(
    ("fail_fast", "bad", "state"),
    [
        pytest.param(True, fails(), "failed", id="set off"),
        pytest.param(True, succeeds(), "success", id="not set off"),
        pytest.param(False, fails(), "success", id="without fail_fast"),
    ],
)
async def test_13_a_fail_fast_run_is_failed_whenever_a_final_failure_set_it_off(
    fail_fast: bool, bad: Ending, state: str
) -> None:
    """The failed task is no leaf; its leaf succeeds, or is skipped by fail-fast."""
    async with World(now=START) as world:
        world.add(dag("d", task("bad"), task("leaf", "bad", trigger_rule="all_done"), fail_fast=fail_fast))
        world.script("d", "bad", lambda attempt: bad)
        run = world.trigger("d")

        await world.run_until_idle()

        assert world.run("d", run).state == state


@pytest.mark.parametrize(
    ("losses", "state", "reason"),
    [(0, "success", None), (1, "success", None), (2, "success", None), (3, "failed", "lost")],
)
async def test_17_lost_attempts_spend_no_retry_and_the_third_in_a_row_fails_the_task(
    losses: int, state: str, reason: str | None
) -> None:
    def ending(attempt: Attempt) -> Ending:
        return dies() if attempt.key.try_number <= losses else succeeds()

    async with World(now=START) as world:
        world.add(dag("d", task(retries=0)))
        world.script("d", "a", ending)
        run = world.trigger("d")

        await world.run_until_idle()

        row = world.task("d", run, "a")
        assert row.state == state
        assert (row.reason is None) if reason is None else (reason in row.reason)


# ---- versions: 18 ----


@pytest.mark.parametrize(
    "waiting", [never_ends(), reschedules(HOUR), defers(HOUR)], ids=["running", "poking", "deferred"]
)
async def test_18_a_run_stays_pinned_to_its_version_until_it_is_moved(waiting: Ending) -> None:
    async with World(now=START) as world:
        world.add(dag("d", task("a"), task("b", "a")))
        world.script("d", "a", lambda attempt: waiting if attempt.resume is None else succeeds())
        old = world.trigger("d", run_id="old")
        await world.run_for(MINUTE)

        world.add(dag("d", task("a"), task("c", "a")))
        new = world.trigger("d", run_id="new")
        await world.run_for(MINUTE)

        assert list(world.states("d", old)) == ["a", "b"]
        assert list(world.states("d", new)) == ["a", "c"]
        world.mark_run("d", old, "failed")
        await world.run_for(MINUTE)
        world.clear("d", [old], newest_version=True)
        assert list(world.states("d", old)) == ["a", "c"]
