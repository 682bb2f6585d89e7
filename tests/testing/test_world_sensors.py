"""Sensors in a world wait as they would for what their script says: mode, interval, timeout, errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aiosched import DAG, DateTimeSensor, FileSensor, PythonOperator, PythonSensor
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, at, minutes


def world(**options: object) -> World:
    return World(**{"now": NEW_YEAR, "takes": minutes(1)} | options)  # type: ignore[arg-type]


def nothing() -> None:
    """What tasks call whose results do not matter here."""


@pytest.mark.parametrize("options", [{}, {"mode": "reschedule"}])
@pytest.mark.parametrize(("soft_fail", "state"), [(False, "failed"), (True, "skipped")])
async def test_a_sensor_times_out_as_it_says(options: dict[str, Any], soft_fail: bool, state: str) -> None:
    with DAG("d", schedule=None) as written:
        PythonSensor(
            task_id="wait", python_callable=nothing, poke_interval=300, timeout=3600, soft_fail=soft_fail, retries=2,
            **options,
        )  # fmt: skip
    async with world() as it:
        it.add(written)
        it.script("d", "wait", waits=timedelta(hours=5))
        run = it.trigger("d")

        await it.run_until_idle()

        row = it.task("d", run, "wait")
        assert (row.state, row.try_number) == (state, 1)
        assert "Sensor 'wait' waited" in row.reason
        assert "its timeout is 3600 s" in row.reason
        assert at(1) < it.now < at(1, 20)


@pytest.mark.parametrize(
    ("mode", "interval", "holds"),
    [("poke", 300, True), ("reschedule", 300, False), ("poke", 600, True)],
)
async def test_a_sensor_looks_as_often_as_it_says_in_its_own_mode(mode: str, interval: int, holds: bool) -> None:
    with DAG("d", schedule=None) as written:
        PythonSensor(task_id="wait", python_callable=nothing, poke_interval=interval, mode=mode, pool="narrow")
        PythonOperator(task_id="work", python_callable=nothing, pool="narrow", priority_weight=0)
    async with world() as it:
        it.pool("narrow", slots=1)
        it.add(written)
        it.script("d", "wait", waits=minutes(21), returns="found")
        run = it.trigger("d")

        await it.run_until_idle()

        found, work = it.task("d", run, "wait").end_date, it.task("d", run, "work").start_date
        assert (work > found - minutes(1)) is holds
        assert minutes(21) <= found - NEW_YEAR <= minutes(21 + interval // 60 + 4)
        assert it.xcom("d", run, "wait") == '"found"'


async def test_a_deferrable_sensor_is_deferred_until_its_script_says_so() -> None:
    with DAG("d", schedule=None) as written:
        FileSensor(task_id="wait", filepath="/nowhere", deferrable=True, timeout=3600)
        FileSensor(task_id="in_vain", filepath="/nowhere", deferrable=True, timeout=600, soft_fail=True)
    async with world() as it:
        it.add(written)
        it.script("d", "*", waits=minutes(30))
        run = it.trigger("d")
        await it.run_until(at(0, 5))
        meanwhile = it.states("d", run)

        await it.run_until_idle()

        assert meanwhile == {"wait": "deferred", "in_vain": "deferred"}
        assert it.states("d", run) == {"wait": "success", "in_vain": "skipped"}


async def test_errors_of_a_sensor_count_as_it_says() -> None:
    with DAG("d", schedule=None) as written:
        PythonSensor(task_id="strict", python_callable=nothing)
        PythonSensor(task_id="never", python_callable=nothing, never_fail=True)
        PythonSensor(task_id="soft", python_callable=nothing, soft_fail=True)
        PythonSensor(task_id="silent", python_callable=nothing, silent_fail=True, timeout=600)
    async with world() as it:
        it.add(written)
        it.script("d", "*", fails=True)
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {"strict": "failed", "never": "skipped", "soft": "failed", "silent": "failed"}
        assert it.task("d", run, "strict").reason == "PokeFailed: it failed as its script says"
        assert "timeout is 600 s" in it.task("d", run, "silent").reason


async def test_a_sensor_without_a_script_is_done_at_once() -> None:
    with DAG("d", schedule=None) as written:
        PythonSensor(task_id="wait", python_callable=nothing)
    async with world() as it:
        it.add(written)
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.task("d", run, "wait").end_date == at(0, 1)


async def test_the_execution_timeout_of_a_sensor_ends_it() -> None:
    with DAG("d", schedule=None) as written:
        DateTimeSensor(task_id="moment", target_time=at(3), execution_timeout=timedelta(hours=1))
    async with world() as it:
        it.add(written)
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.task("d", run, "moment").state == "failed"
        assert "execution_timeout" in it.task("d", run, "moment").reason
        assert it.now == at(1)
