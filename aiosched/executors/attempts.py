"""What an attempt may be besides a task's try: a trigger that waits, a callback that the scheduler asked for.

Both go through the same steps as a try (log, capture, one final report, errors into reasons)
and differ in what they run. Source: the semantics reference, sections 23 and 25.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from aiosched.authoring.context import Context, build_context, build_run_context, current_context
from aiosched.authoring.services import Services, offering
from aiosched.authoring.task_instance import TaskInstance
from aiosched.authoring.triggers.encoding import class_of, dump, load
from aiosched.core.messages import Attempt, AttemptKey, CallbackCall, Deferral, Outcome, Report, TaskServices
from aiosched.errors import AioschedError
from aiosched.executors.failures import details_of, reason_of
from aiosched.executors.runner import AttemptStopped, DagSource, DagUnavailable, Execution, Surroundings, TimeLimit

if TYPE_CHECKING:
    from aiosched.authoring.dag import DAG
    from aiosched.authoring.triggers.base import BaseTrigger

_DAG_MODULE: Final = "aiosched_dag_"  # modules of DAG files: imported through their DAG
_KILL_GRACE: Final = 30.0  # seconds for on_kill and cleanup of a trigger


def execution_of(
    attempt: Attempt,
    services: TaskServices,
    surroundings: Surroundings,
    *,
    blocking: Callable[[Coroutine[Any, Any, Any]], Any],
    time_limit: TimeLimit | None = None,
) -> Execution:
    """What executes a try or a callback; of a trigger see `TriggerExecution`."""
    kind = CallbackExecution if attempt.callback is not None else Execution
    return kind(attempt, services, surroundings, blocking=blocking, time_limit=time_limit)


class TriggerExecution(Execution):
    """Waits for a trigger's first event: the report is TRIGGERED, or FAILED when it raises or ends without one."""

    __slots__ = ("killed", "trigger")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.trigger: BaseTrigger | None = None
        self.killed = False  # stopped because nobody wants the event any more, not because it goes elsewhere

    async def _steps(self, dags: DagSource) -> Report:
        deferral = self.attempt.trigger
        assert deferral is not None
        self.trigger = trigger = await self._load(deferral, dags)
        with offering(Services(self._services, self.attempt.key.run, self._blocking)):
            try:
                event = await _first_event(trigger)
            finally:
                await self._guarded("cleanup", trigger.cleanup)
        if event is _NO_EVENT:
            reason = f"the trigger {type(trigger).__name__} ended without an event"
            self._log("ERROR", reason)
            return self._report(Outcome.FAILED, reason=reason)
        payload = getattr(event, "payload", event)
        return self._report(Outcome.TRIGGERED, event=dump(payload, "the event's payload"))

    async def kill(self) -> None:
        """Call the trigger's `on_kill`, when the task was ended and the trigger had begun."""
        if self.killed and self.trigger is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_KILL_GRACE):
                    await self._guarded("on_kill", self.trigger.on_kill)

    async def _load(self, deferral: Deferral, dags: DagSource) -> BaseTrigger:
        run, module_name = self.attempt.run, deferral.classpath.rpartition(".")[0]

        def find(name: str) -> ModuleType:
            return sys.modules[name] if name.startswith(_DAG_MODULE) else importlib.import_module(name)

        try:
            if module_name.startswith(_DAG_MODULE) and dags.cached(run) is None:
                await dags.load(run)
            try:
                kind = class_of(deferral.classpath, find)
            except ModuleNotFoundError:  # a module beside the DAG files becomes importable with its DAG
                await dags.load(run)
                kind = class_of(deferral.classpath, find)
            return kind(**load(deferral.kwargs))
        except DagUnavailable:
            raise
        except Exception as error:
            reason = f"the trigger {deferral.classpath} cannot be loaded: {reason_of(error)}"
            raise DagUnavailable(reason, details_of(error)) from None


_NO_EVENT: Final = object()


async def _first_event(trigger: BaseTrigger) -> Any:
    events: AsyncIterator[Any] = aiter(trigger.run())
    try:
        return await anext(events, _NO_EVENT)
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


class CallbackExecution(Execution):
    """Runs the callbacks that a `CallbackCall` names: SUCCESS, or FAILED when one raised; all of them run."""

    __slots__ = ("_failed",)

    async def _steps(self, dags: DagSource) -> Report:
        call = self.attempt.callback
        assert call is not None
        self._failed: list[str] = []
        dag = dags.cached(self.attempt.run) or await dags.load(self.attempt.run)
        self.context = context = self._context(call, dag)
        with (
            offering(Services(self._services, self.attempt.key.run, self._blocking)),
            current_context(context) if context["ti"] is not None else contextlib.nullcontext(),
        ):
            await self._call_all(callbacks_of(call, dag))
        if self._failed:
            return self._report(Outcome.FAILED, reason="; ".join(self._failed))
        return self._report(Outcome.SUCCESS)

    def _context(self, call: CallbackCall, dag: DAG) -> Context:
        """What callbacks see: a `ti` when the scheduler named one."""
        task = dag.task_dict.get(call.task_id) if call.task_id is not None else None
        if task is None:
            context = build_run_context(dag, self.attempt.run)
        else:
            index = dag.task_ids.index(task.task_id)
            key = AttemptKey(self.attempt.key.run, index, call.map_index, call.try_number)
            attempt = Attempt(
                key=key, run=self.attempt.run, task_id=task.task_id, is_async=self.attempt.is_async,
                max_tries=self.attempt.max_tries,
            )  # fmt: skip
            ti = TaskInstance(attempt, task, self._services, self._blocking)
            context = build_context(task, ti, attempt, dag)
        error = AioschedError(call.reason) if call.reason is not None and call.kind.startswith("task_") else None
        context.update(reason=call.reason, exception=error)
        return context

    async def _guarded(self, name: str, call: Callable[..., Any], *arguments: Any) -> None:
        """As for a try's callbacks, and it is remembered which of them failed."""
        try:
            await self._finish_call(call, *arguments)
        except AttemptStopped:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and self.stop_requested:
                raise
            self._failed.append(f"{name} raised {reason_of(error)}")
            self._log("ERROR", f"{self._failed[-1]}\n{details_of(error)}")


def callbacks_of(call: CallbackCall, dag: DAG) -> Sequence[Callable[..., Any]]:
    """The functions that a call asks for, as they stand in the DAG now."""
    match call.kind:
        case "dag_success":
            return dag.on_success_callback
        case "dag_failure":
            return dag.on_failure_callback
        case "deadline":
            if call.index >= len(dag.deadlines):
                raise DagUnavailable(f"The DAG {dag.dag_id!r} has no deadline {call.index} any more: it was changed.")
            return [dag.deadlines[call.index].callback]
        case "task_failure" | "task_retry":
            task = dag.task_dict.get(call.task_id or "")
            if task is None:
                raise DagUnavailable(f"The DAG {dag.dag_id!r} has no task {call.task_id!r} any more: it was changed.")
            return task.on_failure_callback if call.kind == "task_failure" else task.on_retry_callback
    raise AioschedError(f"There is no callback of the kind {call.kind!r}: this is a bug in aiosched.")
