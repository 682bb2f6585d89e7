"""The base class of sensors: tasks that wait for a condition. Source: the semantics reference, section 24."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.base import checks
from aiosched.authoring.base.plain_callers import for_caller, gives_coroutine, value_of
from aiosched.authoring.operators.python import call_arguments, is_coroutine_function
from aiosched.authoring.tasks.operator import BaseOperator, Seconds
from aiosched.clock import Clock, SystemClock
from aiosched.core.values.messages import Resume
from aiosched.errors import (
    AioschedError,
    FailTask,
    RescheduleTask,
    SensorTimeout,
    SkipTask,
    TaskDeferralTimeout,
    TaskSignal,
    TaskTimeout,
)

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context
    from aiosched.authoring.triggers.base import BaseTrigger

WEEK = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class PokeReturnValue:
    """A return value of `poke` with an XCom: whether the wait is over, and the value to push."""

    is_done: bool
    xcom_value: Any = None

    def __bool__(self) -> bool:
        return self.is_done


class BaseSensorOperator(BaseOperator):
    """Calls `poke(context)`, a plain or coroutine function, until it is true, every `poke_interval` seconds.

    With a coroutine function, a waiting sensor needs no process of its own. With `deferrable` (if the sensor supports
    it) the wait survives restarts: it pokes once, then waits for the trigger `deferred_on(context)`.
    `mode="reschedule"` frees the slot between pokes. A false poke later than `timeout` seconds after the first one
    fails the task without retries, or skips it with `soft_fail`. `never_fail` skips it for any error in `poke`;
    `silent_fail` logs errors and continues. With `exponential_backoff` the interval doubles, up to `max_wait`.
    """

    ui_color = "#e6f1f2"
    clock: ClassVar[Clock] = SystemClock()
    deferrable: bool = False

    def __init__(
        self,
        *,
        poke_interval: Seconds = 60.0,
        timeout: Seconds = WEEK,
        mode: str = "poke",
        soft_fail: bool = False,
        never_fail: bool = False,
        silent_fail: bool = False,
        exponential_backoff: bool = False,
        max_wait: Seconds | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        where = self._origin
        self.poke_interval: float = checks.duration("poke_interval", poke_interval, where).total_seconds()
        self.timeout: float = checks.duration("timeout", timeout, where).total_seconds()
        self.mode: str = checks.one_of("mode", mode, ("poke", "reschedule"), where)
        if soft_fail and never_fail:
            raise self.fail(f"Sensor {self.task_id!r}: soft_fail and never_fail exclude each other. Keep one.")
        self.soft_fail = soft_fail
        self.never_fail = never_fail
        self.silent_fail = silent_fail
        self.exponential_backoff = exponential_backoff
        wait = checks.optional_duration("max_wait", max_wait, where)
        self.max_wait: float | None = None if wait is None else wait.total_seconds()
        self._killed: threading.Event | None = None

    def poke(self, context: Context) -> Any:
        """Whether the wait is over: a truth value or a `PokeReturnValue`. May be a coroutine function."""
        raise NotImplementedError(f"{type(self).__name__} has no poke(self, context): implement it.")

    @cached_property
    def pokes_async(self) -> bool:
        """Whether `poke` returns a coroutine."""
        return gives_coroutine(self.poke)

    @property
    def is_async(self) -> bool:
        """Whether `poke` returns a coroutine, and no subclass has a plain `execute` of its own."""
        execute = type(self).execute
        return self.pokes_async and (execute is BaseSensorOperator.execute or gives_coroutine(execute))

    def execute(self, context: Context) -> Any:
        """Poke until true; the value of a PokeReturnValue. A coroutine when `is_async`."""
        if self.pokes_async:
            work = self._poke_and_defer(context) if self.deferrable else self._wait_async(context)
            return for_caller(self, work) if self.is_async else value_of(work)
        self._killed = threading.Event()
        started, pokes = self._first_poke(context)
        while True:
            try:
                found = self.poke(context)
            except Exception as error:
                found = self._after_error(error)
            if found:
                return _value(found)
            if self._killed.wait(self._pause(context, started, pokes)):
                raise FailTask("the sensor was stopped")
            pokes += 1

    async def _wait_async(self, context: Context) -> Any:
        started, pokes = self._first_poke(context)
        while True:
            try:
                found = await self.poke(context)
            except Exception as error:
                found = self._after_error(error)
            if found:
                return _value(found)
            await asyncio.sleep(self._pause(context, started, pokes))
            pokes += 1

    async def _poke_and_defer(self, context: Context) -> Any:
        try:
            found = await self.poke(context)
        except Exception as error:
            found = self._after_error(error)
        if not found:
            self.defer(trigger=self.deferred_on(context), method_name="execute_complete", timeout=self.timeout)
        return _value(found)

    def deferred_on(self, context: Context) -> BaseTrigger:
        """The trigger with the same condition as `poke`, for sensors with the parameter `deferrable`."""
        raise NotImplementedError(f"{type(self).__name__} cannot be deferred: it has no deferred_on(self, context).")

    def execute_complete(self, context: Context, event: Any = None) -> Any:
        """Called when the trigger has fired; the value to push."""
        return None

    def resume_execution(self, resume: Resume, context: Context) -> Any:
        """As for every operator, but errors are treated as in section 24.3."""
        try:
            result = super().resume_execution(resume, context)
        except Exception as error:
            raise self._resumed(error) from error
        return self._resumed_async(result) if self.resumes_async(resume) else result

    async def _resumed_async(self, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except Exception as error:
            raise self._resumed(error) from error

    def _resumed(self, error: Exception) -> Exception:
        """The exception to raise for an error after a deferral."""
        if isinstance(error, TaskSignal) and not isinstance(error, FailTask):
            return error
        if isinstance(error, TaskDeferralTimeout):
            message = f"Sensor {self.task_id!r} waited longer than its timeout of {self.timeout:.0f} s."
            return SkipTask(message) if self.soft_fail or self.never_fail else SensorTimeout(message)
        if (self.soft_fail or self.never_fail) and isinstance(error, AioschedError):
            return SkipTask(f"what it waited for failed: {error}")
        return error  # an error in the code after the deferral fails the try

    def timed_out(self, error: TaskTimeout) -> Exception:
        """The execution timeout is a failure of the sensor: `soft_fail` and `never_fail` make it a skip."""
        return SkipTask(str(error)) if self.soft_fail or self.never_fail else error

    def on_kill(self) -> None:
        """End the pause between two pokes."""
        if self._killed is not None:
            self._killed.set()

    def _first_poke(self, context: Context) -> tuple[float, int]:
        """The time of the first poke of this try, by `_seconds`, and the number of the next poke."""
        now = self._seconds()
        if self.mode == "poke":
            return now, 1
        started = min(context["ti"].first_started.timestamp(), now)
        pokes, elapsed = 1, now - started
        while self.exponential_backoff and pokes < 64 and elapsed >= (interval := self._interval(context, pokes)):
            elapsed -= interval
            pokes += 1
        return started, pokes

    def _pause(self, context: Context, started: float, pokes: int) -> float:
        """Seconds until the next poke; raises SensorTimeout, SkipTask or RescheduleTask instead of pausing."""
        elapsed = self._seconds() - started
        if elapsed > self.timeout:
            message = f"Sensor {self.task_id!r} waited {elapsed:.0f} s, its timeout is {self.timeout:.0f} s."
            raise SkipTask(message) if self.soft_fail else SensorTimeout(message)
        seconds = self._interval(context, pokes)
        if self.exponential_backoff:
            seconds = min(seconds, max(1.0, self.timeout - elapsed))
        if self.mode == "reschedule":
            raise RescheduleTask(self.clock.now() + timedelta(seconds=seconds))
        return seconds

    def _seconds(self) -> float:
        """The time by which the timeout is measured: the wall clock if the pokes may run in several processes."""
        return self.clock.monotonic() if self.mode == "poke" else self.clock.now().timestamp()

    def _interval(self, context: Context, pokes: int) -> float:
        """Seconds between poke number `pokes` and the next. Source: the semantics reference, section 24.4."""
        if not self.exponential_backoff:
            return self.poke_interval
        base = max(1, int(self.poke_interval * 2.0 ** (min(pokes, 64) - 2)))
        ti = context["ti"]
        seed = f"{ti.dag_id}#{ti.task_id}#{ti.run_id}#{pokes}".encode()
        seconds = float(base + int(hashlib.sha1(seed, usedforsecurity=False).hexdigest(), 16) % base)
        return seconds if self.max_wait is None else min(seconds, self.max_wait)

    def _after_error(self, error: Exception) -> bool:
        """Raise an error of `poke`, or a SkipTask instead of it; with `silent_fail` return False, to continue."""
        if isinstance(error, TaskSignal) and not isinstance(error, FailTask):
            raise error
        if self.never_fail or (self.soft_fail and isinstance(error, FailTask | TaskTimeout)):
            raise SkipTask(f"poke failed: {error!r}") from error
        if self.silent_fail and not isinstance(error, FailTask | TaskTimeout):
            self.log.error("poke failed, trying again", exc_info=error)
            return False
        raise error


def poke_mode_only(cls: type[Any]) -> type[Any]:
    """A decorator of sensors that keep state between pokes: their `mode` can only be "poke"."""

    def read(self: Any) -> str:
        return "poke"

    def refuse(self: Any, value: str) -> None:
        if value != "poke":
            raise self.fail(
                f"{cls.__name__} keeps state between its pokes, so its mode cannot be {value!r}: use 'poke'."
            )

    cls.mode = property(read, refuse)
    return cls


class PythonSensor(BaseSensorOperator):
    """Waits until `python_callable(*op_args, **op_kwargs)` returns something true."""

    template_fields: ClassVar[Sequence[str]] = ("templates_dict", "op_args", "op_kwargs")

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Sequence[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        templates_dict: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.python_callable = python_callable
        self.op_args: Sequence[Any] = op_args if op_args is not None else ()
        self.op_kwargs: Mapping[str, Any] = op_kwargs if op_kwargs is not None else {}
        self.templates_dict = templates_dict

    @cached_property
    def pokes_async(self) -> bool:
        """Whether the function is a coroutine function."""
        return is_coroutine_function(self.python_callable)

    def poke(self, context: Context) -> Any:
        """Call the function, with values of the context for its parameters."""
        if self.templates_dict is not None:
            context["templates_dict"] = self.templates_dict
        kwargs = call_arguments(self.python_callable, self.op_args, self.op_kwargs, context)
        return self.python_callable(*self.op_args, **kwargs)


def _value(found: Any) -> Any:
    return found.xcom_value if isinstance(found, PokeReturnValue) else None
