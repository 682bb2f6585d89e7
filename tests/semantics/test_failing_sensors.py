"""How sensors fail, from the sensor to the state of the task. Source: the semantics reference, section 24.3."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from aiosched import DAG, BaseSensorOperator, BaseTrigger, TriggerEvent
from aiosched.errors import AioschedError, FailTask, SensorTimeout, SkipTask
from aiosched.executors.dag_test import run_dag_test

FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "soft_fail": {"soft_fail": True},
    "never_fail": {"never_fail": True},
    "silent_fail": {"silent_fail": True},
}
FAILED, RETRIED, SKIPPED = ("failed", 1), ("failed", 2), ("skipped", 1)  # with one retry: state and tries
AGAIN = ("success", 1)  # counts as false: the next poke is true


def _false() -> bool:
    return False


def _raises(error: Exception) -> Callable[[], bool]:
    def poke() -> bool:
        raise error

    return poke


class Poking(BaseSensorOperator):
    """A plain sensor: what `pokes` say one after the other; the last one stays."""

    def __init__(self, *, pokes: list[Callable[[], bool]], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pokes = pokes

    def poke(self, context: Any) -> bool:
        return (self.pokes.pop(0) if len(self.pokes) > 1 else self.pokes[0])()


class AsyncPoking(Poking):
    async def poke(self, context: Any) -> bool:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().poke(context)


class Hanging(BaseSensorOperator):
    async def poke(self, context: Any) -> bool:
        await asyncio.sleep(3600)
        return True


class At(BaseTrigger):
    """A trigger that fires at once, fails, or never comes."""

    def __init__(self, how: str) -> None:
        self.how = how

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.At", {"how": self.how}

    async def run(self) -> Any:
        if self.how == "fails":
            raise ValueError("the trigger broke")
        if self.how == "never":
            await asyncio.sleep(3600)
        yield TriggerEvent(None)


class Deferring(BaseSensorOperator):
    def __init__(self, *, how: str, error: Exception | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.how, self.error = how, error
        self.deferrable = True

    async def poke(self, context: Any) -> bool:
        return False

    def deferred_on(self, context: Any) -> BaseTrigger:
        return At(self.how)

    def execute_complete(self, context: Any, event: Any = None) -> Any:
        if self.error is not None:
            raise self.error


async def ending(make: Callable[..., Any], **options: Any) -> tuple[str, int]:
    with DAG("d", schedule=None, default_args={"retries": 1, "retry_delay": timedelta(0)}) as dag:
        make(task_id="s", poke_interval=0.001, **options)
    run = await run_dag_test(dag, pause=0)
    return run.task("s").state.value, run.task("s").try_number


@pytest.mark.parametrize("kind", [Poking, AsyncPoking])
@pytest.mark.parametrize("mode", ["poke", "reschedule"])
@pytest.mark.parametrize(
    ("pokes", "plain", "soft_fail", "never_fail", "silent_fail"),
    [
        pytest.param([_false], FAILED, SKIPPED, FAILED, FAILED, id="its own timeout after a false poke"),
        pytest.param([_raises(SensorTimeout("x"))], FAILED, SKIPPED, SKIPPED, FAILED, id="timeout raised inside poke"),
        pytest.param([_raises(FailTask("x"))], FAILED, SKIPPED, SKIPPED, FAILED, id="fail now"),
        pytest.param(
            [_raises(ValueError("x")), lambda: True], ("success", 2), ("success", 2), SKIPPED, AGAIN, id="error"
        ),
        pytest.param([_raises(SkipTask("x"))], SKIPPED, SKIPPED, SKIPPED, SKIPPED, id="skip raised"),
    ],
)
async def test_how_poking_sensors_end_in_each_form(
    kind: Any, mode: str, pokes: Any, plain: Any, soft_fail: Any, never_fail: Any, silent_fail: Any
) -> None:
    expected = dict(zip(FORMS, (plain, soft_fail, never_fail, silent_fail), strict=True))
    timeout = 0 if pokes == [_false] else 60

    found = {
        form: await ending(kind, pokes=list(pokes), mode=mode, timeout=timeout, **options)
        for form, options in FORMS.items()
    }

    assert found == expected


@pytest.mark.parametrize(
    ("form", "expected"),
    [("plain", RETRIED), ("soft_fail", SKIPPED), ("never_fail", SKIPPED), ("silent_fail", RETRIED)],
)
async def test_the_execution_timeout_of_a_sensor_is_one_of_its_failures(form: str, expected: tuple[str, int]) -> None:
    assert await ending(Hanging, execution_timeout=timedelta(milliseconds=20), **FORMS[form]) == expected


@pytest.mark.parametrize(
    ("options", "plain", "soft_fail", "never_fail", "silent_fail"),
    [
        pytest.param({"how": "never", "timeout": 0.02}, FAILED, SKIPPED, SKIPPED, FAILED, id="timeout while deferred"),
        pytest.param({"how": "fails"}, RETRIED, SKIPPED, SKIPPED, RETRIED, id="the trigger fails"),
        pytest.param(
            {"how": "fires", "error": AioschedError("x")},
            RETRIED,
            SKIPPED,
            SKIPPED,
            RETRIED,
            id="a project-level error",
        ),
        pytest.param(
            {"how": "fires", "error": ValueError("x")}, RETRIED, RETRIED, RETRIED, RETRIED, id="an error of its own"
        ),
        pytest.param({"how": "fires", "error": SkipTask("x")}, SKIPPED, SKIPPED, SKIPPED, SKIPPED, id="skip raised"),
    ],
)
async def test_how_deferring_sensors_end_in_each_form(
    options: Any, plain: Any, soft_fail: Any, never_fail: Any, silent_fail: Any
) -> None:
    expected = dict(zip(FORMS, (plain, soft_fail, never_fail, silent_fail), strict=True))

    found = {form: await ending(Deferring, **options, **flags) for form, flags in FORMS.items()}

    assert found == expected
