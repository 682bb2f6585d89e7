"""Operators that act in a world as they are: on its clock, with its other DAGs, and within what a script says."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from aiosched import (
    DAG,
    BranchDateTimeOperator,
    BranchDayOfWeekOperator,
    BranchPythonOperator,
    Connection,
    DateTimeSensor,
    DayOfWeekSensor,
    EmptyOperator,
    ExternalTaskSensor,
    LatestOnlyOperator,
    PartitionedAtRuntime,
    PythonOperator,
    ShortCircuitOperator,
    TimeDeltaSensor,
    TimeSensor,
    TriggerDagRunOperator,
    Variable,
    task,
)
from aiosched.testing import World, fails
from aiosched.testing.attempts.virtual_loop import VirtualLoop
from aiosched.testing.world_memory import WorldClock
from tests.testing.world_builders import NEW_YEAR, at, minutes


def world(**options: object) -> World:
    return World(**{"now": NEW_YEAR, "takes": minutes(1)} | options)  # type: ignore[arg-type]


def nothing() -> None:
    """What tasks call whose results do not matter here."""


def plain(*task_ids: str) -> list[PythonOperator]:
    return [PythonOperator(task_id=task_id, python_callable=nothing) for task_id in task_ids]


# ---- branches and short circuits ----


async def test_branches_and_short_circuits_decide_by_what_scripts_return() -> None:
    with DAG("d", schedule=None) as written:
        (rows,) = plain("rows")

        @task.branch
        def choose(ti: Any) -> str:
            return "many" if ti.xcom_pull(task_ids="rows") > 10 else "few"

        branch = choose()  # type: ignore[call-arg]  # the context gives it
        rows >> branch >> plain("many", "few")
        rows >> ShortCircuitOperator(task_id="stop", python_callable=lambda: False) >> plain("after")
    async with world() as it:
        it.add(written)
        it.script("d", "rows", returns=12)
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {
            "rows": "success", "choose": "success", "many": "success", "few": "skipped", "stop": "success",
            "after": "skipped",
        }  # fmt: skip


async def test_a_branch_that_is_scripted_does_as_its_script_says() -> None:
    with DAG("d", schedule=None) as written:
        BranchPythonOperator(task_id="choose", python_callable=lambda: "left") >> plain("left", "right")
    async with world() as it:
        it.add(written)
        it.script("d", "choose", branch="right")
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {"choose": "success", "left": "skipped", "right": "success"}


async def test_a_script_that_says_how_long_leaves_the_decision_to_the_operator() -> None:
    with DAG("d", schedule=None) as written:
        BranchPythonOperator(task_id="choose", python_callable=lambda: "left") >> plain("left", "right")
    async with world() as it:
        it.add(written)
        it.script("*", "*", takes=minutes(7))
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {"choose": "success", "left": "success", "right": "skipped"}
        assert it.task("d", run, "choose").end_date == at(0, 7)


async def test_a_script_that_says_how_often_it_fails_leaves_the_rest_to_the_operator() -> None:
    with DAG("d", schedule=None) as written:
        BranchPythonOperator(task_id="choose", python_callable=lambda: "left", retries=1) >> plain("left", "right")
    async with world() as it:
        it.add(written)
        it.script("d", "choose", fails=1)
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {"choose": "success", "left": "success", "right": "skipped"}
        assert it.task("d", run, "choose").try_number == 2


async def test_a_branch_that_raises_fails_and_its_callbacks_are_counted_once() -> None:
    told: list[str] = []

    def choose() -> str:
        raise ValueError("nothing fits")

    with DAG("d", schedule=None) as written:
        BranchPythonOperator(
            task_id="choose", python_callable=choose, retries=1, on_failure_callback=lambda context: told.append("no")
        )
    async with world() as it:
        it.add(written)
        run = it.trigger("d")

        await it.run_until_idle()

        row = it.task("d", run, "choose")
        assert (row.state, row.try_number, row.reason) == ("failed", 2, "ValueError: nothing fits")
        assert [call.kind for call in it.callbacks] == ["task_failure"]
        assert told == []


async def test_a_mapped_branch_decides_for_each_index() -> None:
    with DAG("d", schedule=None) as written:

        @task.short_circuit
        def is_even(number: int) -> bool:
            return number % 2 == 0

        @task
        def use(ok: bool) -> None: ...

        use.expand(ok=is_even.expand(number=[1, 2, 3]))
    async with world() as it:
        it.add(written)
        run = it.trigger("d")

        await it.run_until_idle()

        states = it.states("d", run)
        assert [states["is_even", index] for index in range(3)] == ["success"] * 3
        assert [it.xcom("d", run, "is_even", map_index=index) for index in range(3)] == [None, "true", None]


@pytest.mark.parametrize(("day", "followed"), [(1, "week"), (3, "weekend")])
async def test_branches_by_the_clock_have_the_clock_of_the_world(day: int, followed: str) -> None:
    days = {"follow_task_ids_if_true": "weekend", "follow_task_ids_if_false": "week"}
    hours = {"follow_task_ids_if_true": "night", "follow_task_ids_if_false": "light"}
    with DAG("d", schedule=None) as written:
        BranchDayOfWeekOperator(task_id="day", week_day={"Saturday", "Sunday"}, **days) >> plain("week", "weekend")
        BranchDateTimeOperator(task_id="hour", target_lower=time(22), target_upper=time(6), **hours) >> plain(
            "night", "light"
        )
    async with world(now=at(23, day=day)) as it:
        it.add(written)
        run = it.trigger("d")

        await it.run_until_idle()

        states = it.states("d", run)
        assert [name for name in ("week", "weekend", "night", "light") if states[name] == "success"] == [
            followed, "night",
        ]  # fmt: skip


async def test_latest_only_skips_in_runs_that_are_caught_up() -> None:
    start = NEW_YEAR - timedelta(days=3)
    with DAG("d", schedule="@daily", start_date=start, catchup=True) as written:
        LatestOnlyOperator(task_id="latest") >> plain("work")
    async with world() as it:
        it.add(written)

        await it.run_for(minutes(30))

        assert [it.states("d", run.run_id)["work"] for run in it.runs("d")] == ["skipped", "skipped", "success"]


# ---- clocks ----


@pytest.mark.parametrize("options", [{}, {"mode": "reschedule"}, {"deferrable": True}])
async def test_sensors_of_the_clock_wait_on_the_clock_of_the_world(options: dict[str, Any]) -> None:
    with DAG("d", schedule=None) as written:
        DateTimeSensor(task_id="moment", target_time=at(3), **options)
        TimeDeltaSensor(task_id="delta", delta=timedelta(hours=4), **options)
        TimeSensor(task_id="time", target_time=time(5), **options)
        DayOfWeekSensor(task_id="day", week_day="Saturday", **options)
    async with world(takes=timedelta(seconds=1)) as it:
        it.add(written)
        run = it.trigger("d")
        await it.run_until(at(2))
        meanwhile = it.states("d", run)

        await it.run_until_idle()

        waits = {"mode": "up_for_reschedule", "deferrable": "deferred"}.get(next(iter(options), ""), "running")
        assert set(meanwhile.values()) == {waits}
        assert set(it.states("d", run).values()) == {"success"}
        ends = {name: it.task("d", run, name).end_date for name in ("moment", "delta", "time", "day")}
        assert all(
            due <= ends[name] <= due + minutes(3)
            for name, due in {"moment": at(3), "delta": at(4), "time": at(5), "day": at(day=3)}.items()
        ), ends


async def test_a_sensor_that_begins_in_its_trigger_wakes_at_its_moment() -> None:
    with DAG("d", schedule=None) as written:
        DateTimeSensor(task_id="moment", target_time=at(3), start_from_trigger=True)
    async with world() as it:
        it.add(written)
        run = it.trigger("d")
        await it.run_until(at(2))
        meanwhile = it.states("d", run)

        await it.run_until_idle()

        assert meanwhile == {"moment": "deferred"}
        assert it.task("d", run, "moment").end_date == at(3, 1)


@pytest.mark.parametrize("accident", ["restart", "crash"])
@pytest.mark.parametrize("options", [{}, {"mode": "reschedule"}, {"deferrable": True}])
async def test_sensors_survive_their_scheduler(accident: str, options: dict[str, Any]) -> None:
    with DAG("d", schedule=None) as written:
        DateTimeSensor(task_id="moment", target_time=at(3), **options)
    async with world() as it:
        it.add(written)
        run = it.trigger("d")
        await it.run_until(at(2))

        await getattr(it, accident)()
        await it.run_until_idle()

        assert it.states("d", run) == {"moment": "success"}
        assert it.now < at(3, 3)


async def test_a_sensor_that_is_stopped_leaves_no_trace() -> None:
    with DAG("d", schedule=None) as written:
        DateTimeSensor(task_id="moment", target_time=at(3))
    async with world(slots=1, async_slots=1) as it:
        it.add(written)
        run = it.trigger("d")
        await it.run_until(at(1))

        it.cancel("d", run)
        await it.run_until_idle()
        again = it.trigger("d")
        await it.run_until_idle()

        assert (it.states("d", run), it.states("d", again)) == ({"moment": "failed"}, {"moment": "success"})


async def test_what_ends_while_another_one_is_ended_is_heard_of() -> None:
    with DAG("d", schedule=None) as written:
        DateTimeSensor(task_id="moment", target_time=at(3), poke_interval=60)
    async with world() as it:
        it.add(written)
        gone, kept = it.trigger("d"), it.trigger("d")
        await it.run_until(at(2, 59))
        it.clock.at = at(3)
        await it.events("d", gone, {"moment": "failed"})  # before the other one has looked again

        await it.run_until_idle()

        assert (it.states("d", gone), it.states("d", kept)) == ({"moment": "failed"}, {"moment": "success"})


def test_the_loop_of_a_world_may_be_turned_from_what_runs_on_it() -> None:
    clock, seen = WorldClock(NEW_YEAR), list[str]()
    loop = VirtualLoop(clock)

    async def work() -> None:
        loop.turn(lambda: seen.append("inside"))
        await asyncio.sleep(60)
        seen.append("later")

    loop.turn(lambda: loop.create_task(work()))
    due = loop.earliest
    clock.advance(60)
    loop.turn()
    loop.close()

    assert (due, seen) == (at(0, 1), ["inside", "later"])


# ---- other DAGs ----


def triggering(**options: Any) -> DAG:
    with DAG("first", schedule=None) as first:
        TriggerDagRunOperator(
            task_id="start", trigger_dag_id="second", conf={"of": "{{ run_id }}"}, **options
        ) >> plain("after")
    return first


def second(**options: Any) -> DAG:
    with DAG("second", schedule=None, **options) as made:
        plain("work")
    return made


@pytest.mark.parametrize("options", [{}, {"deferrable": True}])
@pytest.mark.parametrize(("fails_too", "state"), [(False, "success"), (True, "failed")])
async def test_a_triggered_run_is_waited_for(options: dict[str, Any], fails_too: bool, state: str) -> None:
    async with world() as it:
        it.add(triggering(wait_for_completion=True, **options), second())
        it.script("second", "work", takes=minutes(30), fails=fails_too)
        run = it.trigger("first")
        await it.run_until(at(0, 10))
        meanwhile = it.states("first", run)["start"]

        await it.run_until_idle()

        (made,) = it.runs("second")
        assert meanwhile == ("deferred" if options else "running")
        assert it.states("first", run)["start"] == made.state.value == state
        assert made.conf == {"of": run}
        assert it.task("first", run, "start").end_date >= at(0, 31)
        assert json.loads(it.xcom("first", run, "start", "trigger_run_id") or "null") == made.run_id


async def test_a_run_that_exists_is_cleared_or_skips_the_task() -> None:
    async with world() as it:
        it.add(triggering(trigger_run_id="x", reset_dag_run=True), second())
        it.trigger("second", run_id="x")
        await it.run_until_idle()
        it.trigger("first")
        await it.run_until_idle()
        again = it.task("second", "x", "work").try_number

        it.add(triggering(trigger_run_id="x", skip_when_already_exists=True))
        run = it.trigger("first")
        await it.run_until_idle()

        assert (again, it.states("first", run)["start"]) == (2, "skipped")


async def test_a_dag_that_does_not_exist_or_is_paused_fails_the_task() -> None:
    async with world() as it:
        it.add(triggering(fail_when_dag_is_paused=True))
        lost = it.trigger("first")
        await it.run_until_idle()
        it.add(second(), paused=True)
        held = it.trigger("first")
        await it.run_until_idle()

        assert "no DAG 'second' to trigger" in it.task("first", lost, "start").reason
        assert "is paused" in it.task("first", held, "start").reason


@pytest.mark.parametrize("options", [{}, {"mode": "reschedule"}, {"deferrable": True}])
@pytest.mark.parametrize(("fails_too", "state"), [(False, "success"), (True, "failed")])
async def test_tasks_of_another_dag_are_waited_for(options: dict[str, Any], fails_too: bool, state: str) -> None:
    when = {"schedule": "@daily", "start_date": NEW_YEAR - timedelta(days=1)}
    with DAG("maker", **when) as maker:
        plain("work")
    with DAG("reader", **when) as reader:
        ExternalTaskSensor(
            task_id="wait", external_dag_id="maker", external_task_id="work", failed_states=["failed"],
            execution_delta=timedelta(0), check_existence=True, **options,
        )  # fmt: skip
    async with world() as it:
        it.add(maker, reader)
        it.script("maker", "work", takes=timedelta(hours=2), fails=fails_too)
        await it.run_until(at(5))

        (run,) = it.runs("reader")
        assert it.states("reader", run.run_id) == {"wait": state}
        assert at(2) <= it.task("reader", run.run_id, "wait").end_date <= at(2, 5)


async def test_only_serialized_dags_do_not_act() -> None:
    with DAG("d", schedule=None) as written:
        DateTimeSensor(task_id="moment", target_time=datetime(2030, 1, 1, tzinfo=UTC))
    async with world() as it:
        it.add(written.to_spec())
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.task("d", run, "moment").end_date == at(0, 1)


async def test_a_function_may_leave_single_tries_to_the_operator() -> None:
    with DAG("d", schedule=None) as written:
        ShortCircuitOperator(task_id="go", python_callable=lambda: True, retries=1) >> EmptyOperator(task_id="end")
    async with world() as it:
        it.add(written)
        it.script("d", "go", lambda attempt: fails("no network") if attempt.key.try_number == 1 else None)
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {"go": "success", "end": "success"}
        assert it.xcom("d", run, "go") == "true"


async def test_what_acts_uses_slots_as_any_other() -> None:
    with DAG("d", schedule=None) as written:
        DateTimeSensor(task_id="moment", target_time=at(3), priority_weight=2)
        PythonOperator(task_id="work", python_callable=nothing)
    async with world(parallelism=1) as it:
        it.add(written)
        run = it.trigger("d")

        await it.run_until(at(2))
        meanwhile = it.states("d", run)
        await it.run_until_idle()

        assert meanwhile == {"moment": "running", "work": "scheduled"}
        assert set(it.states("d", run).values()) == {"success"}


# ---- the run before ----


async def test_a_branch_may_decide_by_the_run_before() -> None:
    def choose(ti: Any) -> str:
        before, run = ti.get_previous_ti(), ti.get_previous_dagrun("success")
        return "again" if before is not None and run is not None and before.run_id == run.run_id else "first"

    with DAG("d", schedule=None) as written:
        BranchPythonOperator(task_id="choose", python_callable=choose) >> plain("first", "again")
    async with world() as it:
        it.add(written)
        for day in (1, 2):
            it.trigger("d", run_id=f"r{day}", logical_date=NEW_YEAR + timedelta(days=day))
            await it.run_until_idle()

        assert [it.states("d", run)["again"] for run in ("r1", "r2")] == ["skipped", "success"]


async def test_a_triggered_run_is_about_its_partition() -> None:
    with DAG("first", schedule=None) as first:
        TriggerDagRunOperator(task_id="start", trigger_dag_id="second", partition_key="eu")
    with DAG("second", schedule=PartitionedAtRuntime()) as second:
        plain("work")
    async with world() as it:
        it.add(first, second)
        it.trigger("first")

        await it.run_until_idle()

        assert [run.partition_key for run in it.runs("second")] == ["eu"]


async def test_operators_that_act_read_the_variables_and_connections_of_the_world() -> None:
    def choose() -> str:
        limits = Variable.get("limits", deserialize_json=True)
        return "left" if (limits["cpu"], Connection.get("sales").host) == (2, "db") else "right"

    with DAG("d", schedule=None) as written:
        BranchPythonOperator(task_id="choose", python_callable=choose) >> plain("left", "right")
    async with world(variables={"limits": {"cpu": 2}}, connections={"sales": "postgres://db"}) as it:
        it.add(written)
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {"choose": "success", "left": "success", "right": "skipped"}
