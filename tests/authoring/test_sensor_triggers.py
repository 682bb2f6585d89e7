"""Triggers that delete files, and sensors that start or end in their triggers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, Asset, AssetAccessControl, DateTimeSensor, FileSensor, TimeDeltaSensor, TimeSensor, task
from aiosched.authoring.dag.serialize import to_spec
from aiosched.authoring.triggers import (
    DateTimeTrigger,
    DirectoryFileDeleteTrigger,
    FileDeleteTrigger,
    TaskSuccessEvent,
    TimeDeltaTrigger,
    TriggerEvent,
)
from aiosched.authoring.triggers.file import _deleted
from aiosched.clock import FakeClock
from aiosched.errors import DagError, TaskDeferred
from tests.authoring.authoring_builders import run_task
from tests.patience import PATIENCE

NOW = datetime(2026, 1, 2, tzinfo=UTC)


async def events_of(trigger: Any) -> list[TriggerEvent]:
    async with asyncio.timeout(PATIENCE):
        return [event async for event in trigger.run()]


@pytest.mark.parametrize("kind", ["file", "directory"])
async def test_a_file_fires_once_and_is_deleted(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "inbox" / "flag"
    trigger: Any = FileDeleteTrigger(str(file), 0.001)
    event: Any = True
    if kind == "directory":
        trigger = DirectoryFileDeleteTrigger(directory=str(file.parent), filename="flag", poke_interval=0.001)
        event = {"filepath": str(file)}
    waiting = asyncio.create_task(events_of(trigger))
    await asyncio.sleep(0)

    file.parent.mkdir()
    (file.parent / "other").touch()
    file.touch()

    assert await waiting == [TriggerEvent(event)]
    assert [path.name for path in file.parent.iterdir()] == ["other"]


async def test_of_two_triggers_for_one_file_one_fires(tmp_path: Path) -> None:
    file = tmp_path / "flag"
    file.touch()
    waiting = [asyncio.create_task(events_of(FileDeleteTrigger(str(file), 0.001))) for _ in range(2)]

    done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
    for one in left:
        one.cancel()

    assert len(done) == len(left) == 1


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert not _deleted(tmp_path)
    assert tmp_path.is_dir()


def test_triggers_that_delete_files_can_be_stored() -> None:
    path, kwargs = DirectoryFileDeleteTrigger(directory="/in", filename="flag").serialize()

    assert path.endswith("triggers.file.DirectoryFileDeleteTrigger")
    assert kwargs == {"directory": "/in", "filename": "flag", "poke_interval": 5.0}


# ---- start and end in a trigger


@pytest.mark.parametrize(("ends", "event"), [(True, TaskSuccessEvent()), (False, TriggerEvent(NOW))])
async def test_a_moment_may_end_the_task(ends: bool, event: TriggerEvent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DateTimeTrigger, "clock", FakeClock(NOW))

    assert await events_of(DateTimeTrigger(NOW, end_from_trigger=ends)) == [event]
    for trigger in (TimeDeltaTrigger(timedelta(), ends), DateTimeTrigger(NOW, ends)):
        assert trigger.serialize()[1] == {"moment": NOW, "end_from_trigger": ends}


@pytest.mark.parametrize(
    "sensor",
    [
        lambda **options: DateTimeSensor(target_time=NOW + timedelta(days=9), **options),
        lambda **options: TimeDeltaSensor(delta=timedelta(days=9), **options),
        lambda **options: TimeSensor(target_time=time(23, 59), **options),
    ],
)
@pytest.mark.parametrize("ends", [True, False])
async def test_a_deferred_sensor_passes_on_whether_its_trigger_ends_it(
    sensor: Any, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = sensor(task_id="t", deferrable=True, end_from_trigger=ends)
    monkeypatch.setattr(type(one), "clock", FakeClock(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)))

    with pytest.raises(TaskDeferred) as caught:
        await run_task(one)

    assert caught.value.trigger.end_from_trigger is ends


def test_a_sensor_that_starts_in_its_trigger_passes_arguments_on() -> None:
    with DAG("d") as dag:
        DateTimeSensor(task_id="a", target_time=NOW, start_from_trigger=True, end_from_trigger=True)
        FileSensor(task_id="b", filepath="/f", start_from_trigger=True, trigger_kwargs={"poke_interval": 1.5})
        DateTimeSensor(task_id="c", target_time=NOW, start_from_trigger=True, trigger_kwargs={"end_from_trigger": True})

    spec = {one.task_id: one.starts_deferred for one in to_spec(dag, now=NOW).tasks}

    assert '"end_from_trigger": true' in str(spec["a"])
    assert '"poke_interval": 1.5' in str(spec["b"])
    assert '"end_from_trigger": true' in str(spec["c"])


def test_a_time_of_day_is_deferred_by_a_worker() -> None:
    with DAG("d") as dag:
        sensor = TimeSensor(task_id="t", target_time=time(8), start_from_trigger=True)

    assert sensor.deferrable
    assert to_spec(dag, now=NOW).tasks[0].starts_deferred is None


# ---- access to assets


def test_access_control_is_kept_and_shown() -> None:
    access = AssetAccessControl(producer_teams=["sales"], allow_global=False)
    orders = Asset("orders", extra={"a": 1}, access_control=access)
    with DAG("d") as dag:

        @task(outlets=[orders])
        def produce() -> None: ...

        produce()

    (ref,) = to_spec(dag, now=NOW).tasks[0].outlets

    shown = {"producer_teams": ["sales"], "consumer_teams": None, "allow_global": False}
    assert ref.extra == {"a": 1, "access_control": shown}
    assert (orders.extra, orders.access_control) == ({"a": 1}, access)


@pytest.mark.parametrize("teams", ["sales", [""], [1]])
def test_teams_have_names(teams: Any) -> None:
    with pytest.raises(DagError, match="give a list of names of teams"):
        AssetAccessControl(producer_teams=teams)
