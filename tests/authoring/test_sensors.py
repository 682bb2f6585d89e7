"""Sensors: how long they wait, and how they fail. Source: the semantics reference, sections 24.1 to 24.4."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from aiosched import DAG, BaseSensorOperator, Context, PokeReturnValue, PythonSensor, task
from aiosched.clock import FakeClock
from aiosched.errors import DagError, FailTask, RescheduleTask, SensorTimeout, SkipTask, TaskTimeout
from tests.authoring.authoring_builders import attempt_of, context_of, run_task
from tests.patience import PATIENCE

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Pause:
    """Stands where a sensor pauses: moves the clock instead, and keeps what it was asked for."""

    clock: FakeClock
    killed: bool = False

    def __post_init__(self) -> None:
        self.seconds: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        self.clock.advance(seconds)
        return self.killed

    async def sleep(self, seconds: float) -> None:
        self.wait(seconds)


class Sensor(BaseSensorOperator):
    """Pokes through a list of results; raises those that are errors. The last one stays."""

    def __init__(self, results: Iterable[Any], **kwargs: Any) -> None:
        super().__init__(task_id="t", **kwargs)
        self.results = list(results)
        self.pokes = 0

    def poke(self, context: Context) -> Any:
        result = self.results[min(self.pokes, len(self.results) - 1)]
        self.pokes += 1
        if isinstance(result, Exception):
            raise result
        return result


class AsyncSensor(Sensor):
    """The same with a coroutine function."""

    async def poke(self, context: Context) -> Any:  # type: ignore[override]
        return Sensor.poke(self, context)


@pytest.fixture(params=[Sensor, AsyncSensor])
def kind(request: pytest.FixtureRequest) -> Any:
    """Every rule holds for plain and for coroutine functions."""
    return request.param


@pytest.fixture
def pause(monkeypatch: pytest.MonkeyPatch) -> Pause:
    pause = Pause(FakeClock(START))
    monkeypatch.setattr(BaseSensorOperator, "clock", pause.clock)
    monkeypatch.setattr(threading, "Event", lambda: pause)
    monkeypatch.setattr("aiosched.authoring.operators.sensor.asyncio.sleep", pause.sleep)
    return pause


async def sense(sensor: BaseSensorOperator, **attempt: Any) -> Any:
    result = sensor.execute(context_of(sensor, attempt_of(**attempt)))
    return await result if sensor.is_async else result


async def test_a_sensor_pokes_until_it_is_true(kind: Any, pause: Pause) -> None:
    assert await sense(kind(results=[False, None, True])) is None
    assert pause.seconds == [60, 60]


async def test_a_poke_may_return_a_value(kind: Any, pause: Pause) -> None:
    results = [PokeReturnValue(False, "no"), PokeReturnValue(True, {"rows": 3})]

    assert await sense(kind(results=results, poke_interval=timedelta(seconds=5))) == {"rows": 3}
    assert pause.seconds == [5]


async def test_there_is_at_least_one_poke_and_the_timeout_is_strict(kind: Any, pause: Pause) -> None:
    assert await sense(kind(results=[True], timeout=0)) is None
    sensor = kind(results=[False], timeout=120, poke_interval=60)
    with pytest.raises(SensorTimeout, match=r"'t' waited 180 s, its timeout is 120 s"):
        await sense(sensor)

    assert sensor.pokes == 4  # at 0, 60, 120 (not yet later than the timeout) and 180 seconds


@pytest.mark.parametrize(
    ("result", "options", "ending"),
    [
        (False, {}, SensorTimeout),
        (False, {"soft_fail": True}, SkipTask),
        (False, {"never_fail": True}, SensorTimeout),
        (False, {"silent_fail": True}, SensorTimeout),
        (SensorTimeout("x"), {}, SensorTimeout),
        (SensorTimeout("x"), {"soft_fail": True}, SkipTask),
        (SensorTimeout("x"), {"never_fail": True}, SkipTask),
        (SensorTimeout("x"), {"silent_fail": True}, SensorTimeout),
        (TaskTimeout("x"), {}, TaskTimeout),
        (TaskTimeout("x"), {"soft_fail": True}, SkipTask),
        (TaskTimeout("x"), {"never_fail": True}, SkipTask),
        (TaskTimeout("x"), {"silent_fail": True}, TaskTimeout),
        (FailTask("x"), {}, FailTask),
        (FailTask("x"), {"soft_fail": True}, SkipTask),
        (FailTask("x"), {"never_fail": True}, SkipTask),
        (FailTask("x"), {"silent_fail": True}, FailTask),
        (ValueError("x"), {}, ValueError),
        (ValueError("x"), {"soft_fail": True}, ValueError),
        (ValueError("x"), {"never_fail": True}, SkipTask),
        (ValueError("x"), {"silent_fail": True}, SensorTimeout),  # counts as false until the timeout
        (SkipTask("x"), {}, SkipTask),
        (SkipTask("x"), {"never_fail": True}, SkipTask),
        (SkipTask("x"), {"silent_fail": True}, SkipTask),
    ],
)
async def test_how_a_sensor_fails(kind: Any, pause: Pause, result: Any, options: Any, ending: type[Exception]) -> None:
    with pytest.raises(ending) as caught:
        await sense(kind(results=[result], timeout=100, **options))

    assert type(caught.value) is ending


async def test_a_rescheduling_sensor_gives_its_slot_back_until_the_next_poke(kind: Any, pause: Pause) -> None:
    with pytest.raises(RescheduleTask) as caught:
        await sense(kind(results=[False], mode="reschedule", poke_interval=300))

    assert caught.value.at == START + timedelta(seconds=300)
    assert pause.seconds == []


async def test_a_rescheduling_sensors_time_counts_from_the_first_call_of_the_try(kind: Any, pause: Pause) -> None:
    options = {"mode": "reschedule", "timeout": 600, "poke_interval": 300}
    pause.clock.advance(600)
    with pytest.raises(RescheduleTask):
        await sense(kind(results=[False], **options), first_started=START)
    pause.clock.advance(1)
    with pytest.raises(SensorTimeout):
        await sense(kind(results=[False], **options), first_started=START)
    assert await sense(kind(results=[True], **options), first_started=START) is None


async def test_the_interval_may_double_up_to_a_limit(kind: Any, pause: Pause) -> None:
    with pytest.raises(SensorTimeout):
        await sense(kind(results=[False], poke_interval=10, timeout=400, exponential_backoff=True, max_wait=120))

    bases = [5, 10, 20, 40, 80]  # a deterministic jitter below the base is added
    assert len(pause.seconds) > 5
    for base, seconds in zip(bases, pause.seconds, strict=False):
        assert base <= seconds <= min(2 * base, 120)
    assert max(pause.seconds) <= 120


async def test_a_rescheduling_sensors_interval_grows_with_the_time_that_passed(kind: Any, pause: Pause) -> None:
    options = {"mode": "reschedule", "poke_interval": 10, "exponential_backoff": True}
    waits = []
    for _ in range(5):
        with pytest.raises(RescheduleTask) as caught:
            await sense(kind(results=[False], **options), first_started=START)
        waits.append((caught.value.at - pause.clock.now()).total_seconds())
        pause.clock.at = caught.value.at

    assert all(base <= wait < 2 * base for base, wait in zip([5, 10, 20, 40, 80], waits, strict=True))


@pytest.mark.parametrize(
    ("spent", "base"),
    [
        pytest.param(0.0, 5, id="at once"),
        pytest.param(0.02, 5, id="a moment after the try began"),
        pytest.param(4.9, 5, id="within the first interval"),
        pytest.param(10.0, 10, id="after the first"),
        pytest.param(30.0, 20, id="after the second"),
    ],
)
async def test_the_interval_of_a_rescheduled_poke_is_the_first_that_exceeds_the_time_that_passed(
    kind: Any, pause: Pause, monkeypatch: pytest.MonkeyPatch, spent: float, base: int
) -> None:
    """Section 24.4: n is how many intervals, added up from the first, exceed it. The jitter is at most the base."""
    monkeypatch.setattr("hashlib.sha1", lambda *args, **options: SimpleNamespace(hexdigest=lambda: "0"))  # none here
    sensor = kind(results=[False], mode="reschedule", poke_interval=10, exponential_backoff=True)
    pause.clock.at = START + timedelta(seconds=spent)

    with pytest.raises(RescheduleTask) as caught:
        await sense(sensor, first_started=START)

    assert (caught.value.at - pause.clock.now()).total_seconds() == base


async def test_a_growing_interval_ends_at_the_timeout(kind: Any, pause: Pause) -> None:
    """Section 24.4: limited to the time that is left."""
    with pytest.raises(SensorTimeout):
        await sense(kind(results=[False], poke_interval=64, timeout=400, exponential_backoff=True))

    assert 400 < sum(pause.seconds) <= 401


async def test_a_stopped_sensor_ends_its_pause(pause: Pause) -> None:
    pause.killed = True

    with pytest.raises(FailTask, match="was stopped"):
        await sense(Sensor(results=[False]))


def test_on_kill_wakes_a_sensor_that_pauses() -> None:
    poked = threading.Event()

    class Watched(Sensor):
        def poke(self, context: Context) -> Any:
            poked.set()
            return super().poke(context)

    sensor = Watched(results=[False], poke_interval=3600)
    ended: list[BaseException] = []

    def run() -> None:
        try:
            sensor.execute(context_of(sensor))
        except FailTask as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    poked.wait()
    sensor.on_kill()
    thread.join(PATIENCE)

    assert [str(error) for error in ended] == ["the sensor was stopped"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "rescheduled"}, "Did you mean 'reschedule'?"),
        ({"poke_interval": -1}, "poke_interval=-1"),
        ({"timeout": -1}, "timeout=-1"),
        ({"soft_fail": True, "never_fail": True}, "exclude each other"),
    ],
)
def test_a_wrong_sensor_is_an_error_at_the_authors_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DagError) as caught:
        Sensor(results=[True], **options)

    assert words in str(caught.value)
    assert caught.value.file == __file__


def test_only_coroutine_functions_wait_on_a_loop() -> None:
    assert not Sensor(results=[True]).is_async
    assert AsyncSensor(results=[True]).is_async


async def test_functions_can_be_sensors() -> None:
    @task.sensor(poke_interval=0)
    async def there(name: str, ds: Any = None) -> PokeReturnValue:
        await asyncio.sleep(0)
        return PokeReturnValue(True, f"{name} {ds}")

    with DAG("d") as dag:
        there("file")
        plain = PythonSensor(task_id="plain", python_callable=lambda x: x == 1, op_args=[1], poke_interval=0)

    assert [spec.is_async for spec in dag.to_spec().tasks] == [True, False]
    assert (await run_task(dag.task("there")))[0] == "file 2026-01-02"
    assert (await run_task(plain))[0] is None
