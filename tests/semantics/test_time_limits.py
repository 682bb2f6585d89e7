"""What may take how long. Source: the semantics reference, sections 21.1 to 21.3.

The states of a run's tasks after its timeout are in test_fail_fast.py. That a task's timeout calls `on_kill` and
ends whatever does not listen is in tests/executors/test_local_hostile_tasks.py and test_runner.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, Asset, PythonSensor
from aiosched.config import Settings
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.timetables.parse import parse_schedule
from aiosched.core.values.messages import Attempt, Deferral
from aiosched.testing import Ending, World, defers, never_ends, reschedules, succeeds

START = datetime(2026, 1, 10, tzinfo=UTC)
DAY, MINUTE, INSTANT = timedelta(days=1), timedelta(minutes=1), timedelta(microseconds=1)
TIMEOUT = 10 * MINUTE


def dag(dag_id: str = "d", *, schedule: object = None, **options: Any) -> DagSpec:
    timetable = parse_schedule(schedule, start_date=options.get("start_date"))
    task = TaskSpec(task_id="a", operator="X", **options.pop("of_task", {}))
    return DagSpec(dag_id=dag_id, tasks=(task,), timetable=timetable, **options)


def stuck(*specs: DagSpec) -> World:
    """A world whose tasks never end by themselves."""
    world = World(now=START)
    world.add(*specs)
    world.script("*", "*", lambda attempt: never_ends())
    return world


# ---- 21.1: dagrun_timeout ----


def triggered(world: World) -> None:
    world.trigger("d")


def scheduled(world: World) -> None:
    world.add(dag(schedule="@daily", start_date=START - DAY, catchup=True, dagrun_timeout=TIMEOUT.total_seconds()))


def backfilled(world: World) -> None:
    world.add(dag(schedule="@daily", start_date=START + DAY, dagrun_timeout=TIMEOUT.total_seconds()))
    world.backfill("d", START - 2 * DAY, START - 2 * DAY)


def emit_asset(world: World) -> None:
    world.add(dag(schedule=Asset("x"), dagrun_timeout=TIMEOUT.total_seconds()))
    world.emit("x")


@pytest.mark.parametrize("begin", [triggered, scheduled, backfilled, emit_asset])
async def test_a_run_of_any_type_fails_strictly_after_its_timeout(begin: Any) -> None:
    async with stuck(dag(dagrun_timeout=TIMEOUT.total_seconds())) as world:
        begin(world)

        await world.run_for(TIMEOUT)
        (run,) = world.runs("d")
        assert run.state == "running"
        await world.run_for(INSTANT)

        (run,) = world.runs("d")
        assert (run.state, run.reason, run.end_date) == ("failed", "timed_out", world.now)
        assert world.states("d", run.run_id) == {"a": "skipped"}


async def test_the_time_counts_from_the_start_and_a_queued_run_never_times_out() -> None:
    async with stuck(dag(dagrun_timeout=TIMEOUT.total_seconds(), max_active_runs=1)) as world:
        first, second = world.trigger("d"), world.trigger("d")

        await world.run_for(TIMEOUT + INSTANT)
        assert (world.run("d", first).state, world.run("d", second).state) == ("failed", "running")
        await world.run_for(TIMEOUT)
        assert world.run("d", second).state == "running"
        await world.run_for(INSTANT)

        assert world.run("d", second).state == "failed"


async def test_a_run_of_a_paused_dag_times_out_when_it_is_unpaused() -> None:
    async with stuck(dag(dagrun_timeout=TIMEOUT.total_seconds())) as world:
        run = world.trigger("d")
        await world.run_for(MINUTE)
        world.pause("d")
        await world.run_for(2 * TIMEOUT)
        paused = world.run("d", run).state
        world.unpause("d")
        await world.run_for(MINUTE)

        assert (paused, world.run("d", run).state) == ("running", "failed")


async def test_the_failure_callback_of_the_run_has_the_reason_timed_out() -> None:
    async with stuck(dag(dagrun_timeout=TIMEOUT.total_seconds(), has_failure_callback=True)) as world:
        world.trigger("d")
        await world.run_for(TIMEOUT + MINUTE)

        assert [(call.kind, call.reason) for call in world.callbacks] == [("dag_failure", "timed_out")]


# ---- 21.2: execution_timeout ----


def pokes(attempt: Attempt, calls: list[Attempt]) -> Ending:
    calls.append(attempt)
    return reschedules(MINUTE, takes=timedelta(seconds=50)) if len(calls) < 4 else succeeds()


def resumes(attempt: Attempt, calls: list[Attempt]) -> Ending:
    calls.append(attempt)
    return defers(TIMEOUT, takes=timedelta(seconds=50)) if len(calls) < 4 else succeeds()


@pytest.mark.parametrize("play", [pokes, resumes], ids=["each poke of a rescheduling sensor", "each resumption"])
async def test_each_call_has_the_full_execution_timeout(play: Any) -> None:
    """Four calls of nearly a minute, in one try, with a timeout of a minute."""
    calls: list[Attempt] = []
    async with World(now=START) as world:
        world.add(dag(of_task={"execution_timeout": 60.0}))
        world.script("d", "a", lambda attempt: play(attempt, calls))
        run = world.trigger("d")

        await world.run_until_idle()

        row = world.task("d", run, "a")
        assert (row.state, row.try_number, len(calls)) == ("success", 1, 4)


@pytest.mark.parametrize(("retries", "state", "tries"), [(0, "failed", 1), (1, "failed", 2)])
async def test_an_execution_timeout_is_a_failure_that_is_retried(retries: int, state: str, tries: int) -> None:
    async with World(now=START) as world:
        world.add(dag(of_task={"execution_timeout": 60.0, "retries": retries, "retry_delay": 1.0}))
        world.script("d", "a", takes=2 * MINUTE)
        run = world.trigger("d")

        await world.run_until_idle()

        row = world.task("d", run, "a")
        assert (row.state, row.try_number) == (state, tries)
        assert row.reason == "ran longer than its execution_timeout of 60 s"


# ---- 21.3: the others ----


def a_sensors_timeout() -> object:
    with DAG("d", schedule=None):
        return PythonSensor(task_id="s", python_callable=bool).timeout


@pytest.mark.parametrize(
    ("found", "default"),
    [
        pytest.param(a_sensors_timeout, 7 * 86_400.0, id="sensor timeout"),
        pytest.param(
            lambda: Deferral(classpath="x", kwargs="{}", next_method="y").timeout, None, id="deferral timeout"
        ),
        pytest.param(lambda: TaskSpec(task_id="a", operator="X").execution_timeout, None, id="execution timeout"),
        pytest.param(lambda: DagSpec(dag_id="d").dagrun_timeout, None, id="dagrun timeout"),
        pytest.param(lambda: Settings().core.killed_task_cleanup_time, 60.0, id="killed_task_cleanup_time"),
        pytest.param(lambda: Settings().parsing.file_timeout, 50.0, id="dag_file_processor_timeout"),
        pytest.param(lambda: Settings().core.dagbag_import_timeout, 30.0, id="dagbag_import_timeout"),
        pytest.param(lambda: Settings().scheduler.task_queued_timeout, 600.0, id="task_queued_timeout"),
    ],
)
def test_what_other_things_may_take(found: Any, default: object) -> None:
    assert found() == default
