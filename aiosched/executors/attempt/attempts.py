"""The kinds of attempts besides a task's try: a waiting trigger, or a callback requested by the scheduler.

Both take the same steps as a try (log, capture, one final report, reasons for errors) and differ only in what they run.
Source: the semantics reference, sections 23 and 25.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import FrameType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from aiosched.authoring.assets.asset_events import OutletEvents
from aiosched.authoring.dag.sources import finder
from aiosched.authoring.runtime.context import Context, current_context, moment
from aiosched.authoring.runtime.services import Services, offering
from aiosched.authoring.runtime.task_instance import TaskInstance
from aiosched.authoring.runtime.xcom_values import DAG_MODULES
from aiosched.authoring.tasks.shown_values import shown_fields_json
from aiosched.authoring.tasks.task_context import build_context, build_run_context
from aiosched.authoring.triggers.encoding import class_of, dump, load
from aiosched.authoring.triggers.endings import TaskEndEvent
from aiosched.clock import SystemClock
from aiosched.core.values.masking import secrets
from aiosched.core.values.messages import (
    AssetTouch,
    Attempt,
    AttemptKey,
    CallbackCall,
    Deferral,
    Outcome,
    Report,
    TaskServices,
)
from aiosched.core.values.states import TaskState
from aiosched.errors import AioschedError, DagError
from aiosched.executors.attempt.asset_touches import check_assets, touches
from aiosched.executors.attempt.driven import in_thread
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.failures import details_of, reason_of
from aiosched.executors.attempt.logs import AttemptLog, current_log
from aiosched.executors.attempt.loop_watch import line_of
from aiosched.executors.attempt.results import collect_xcoms
from aiosched.executors.attempt.runner import DagSource, DagUnavailable, Execution, TimeLimit
from aiosched.executors.attempt.secret_conf import with_secrets
from aiosched.timeouts import clean_up_timeout

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.tasks.operator import BaseOperator
    from aiosched.authoring.triggers.base import BaseTrigger

KILL_GRACE: Final = 30.0  # seconds for on_kill, and for cleanup, of a trigger (25.6)
_LOADS: Final = 3  # of the DAG of a trigger, at most


def execution_of(
    attempt: Attempt,
    services: TaskServices,
    environment: AttemptEnvironment,
    *,
    blocking: Callable[[Coroutine[Any, Any, Any]], Any],
    time_limit: TimeLimit | None = None,
) -> Execution:
    """The execution of a try or a callback; for triggers see `TriggerExecution`."""
    kind = CallbackExecution if attempt.callback is not None else Execution
    return kind(attempt, services, environment, blocking=blocking, time_limit=time_limit)


class TriggerExecution(Execution):
    """Waits for a trigger's first event: the report is TRIGGERED, or FAILED if it raises or ends without an event.

    For an event that ends the task, the report has `ends` set, with the outcome of the task.
    """

    __slots__ = ("_blocked_at", "_file", "killed", "on_event", "trigger")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.trigger: BaseTrigger | None = None
        self.killed: bool = False  # stopped because the event is no longer needed, not because it moves elsewhere
        self._file: AttemptLog | None = None
        self._blocked_at: set[str] = set()
        self.on_event: Callable[[Report], None] = lambda report: None  # of an asset watcher: called for each event

    async def _steps(self, dags: DagSource) -> Report:
        deferral = self.attempt.trigger
        assert deferral is not None
        self._file = current_log.get()
        self.trigger = trigger = await self._load(deferral, dags)
        trigger.task_instance = TaskInstance(
            self.attempt,
            None,  # type: ignore[arg-type] # its task is not loaded
            self._services,
            self._blocking,
            read_remote=partial(self._environment.read_xcom, on_loop=True),
        )
        with offering(Services(self._services, self.attempt.key.run, self._blocking)):
            try:
                event = await (self._every_event(trigger) if self.attempt.watches else _first_event(trigger))
            except asyncio.CancelledError:
                await self.kill()
                raise
            finally:
                await self._within_grace("cleanup", trigger.cleanup)
        if isinstance(event, TaskEndEvent):
            return await self._end_task(event, dags)
        if event is _NO_EVENT:
            reason = f"the trigger {type(trigger).__name__} ended without an event"
            self._log("ERROR", reason)
            return self._report(Outcome.FAILED, reason=reason)
        payload = getattr(event, "payload", event)
        return self._report(Outcome.TRIGGERED, event=dump(payload, "the event's payload"))

    async def _every_event(self, trigger: BaseTrigger) -> Any:
        """Report all events of an asset watcher's trigger; the final report has no event."""
        async for event in trigger.run():
            payload = getattr(event, "payload", event)
            self.on_event(self._report(Outcome.TRIGGERED, event=dump(payload, "the event's payload"), more=True))
        return _NO_EVENT

    @property
    def title(self) -> str:
        """Describe the trigger and the task that waits for it."""
        attempt = self.attempt
        kind = attempt.trigger.classpath if attempt.trigger is not None else "?"
        index = f" [{attempt.key.map_index}]" if attempt.key.map_index >= 0 else ""
        return f"the trigger {kind} of {attempt.run.dag_id}.{attempt.task_id}{index} (run {attempt.run.run_id})"

    def log_blocked_loop(self, frame: FrameType) -> str | None:
        """Log to the task's log that the trigger blocks the event loop; returns the message. Logs each line once."""
        line = line_of(frame, type(self.trigger).__module__)
        if line in self._blocked_at:
            return None
        self._blocked_at.add(line)
        message = f"{self.title} blocks the event loop, and every other trigger with it, at {line}"
        if self._file is not None:
            self._file.line("WARNING", "aiosched", f"{message}. Await, or use asyncio.to_thread.")
        return message

    async def kill(self) -> None:
        """Call the trigger's `on_kill` if the task was ended and the trigger had started."""
        if self.killed and self.trigger is not None:
            self.killed = False
            await self._within_grace("on_kill", self.trigger.on_kill)

    async def _within_grace(self, name: str, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            async with clean_up_timeout(KILL_GRACE):
                await self._guarded(name, call)
        except TimeoutError:
            self._log("ERROR", f"{name} took longer than {KILL_GRACE:g} s and was cancelled")

    async def _end_task(self, event: TaskEndEvent, dags: DagSource) -> Report:
        """The report of a trigger that ends its task: the same as a worker's report."""
        limit = self._environment.xcom_limits
        found = collect_xcoms(None, event.xcoms.items(), push_result=False, multiple_outputs=False, limit=limit)
        xcoms = await self._stored(found)
        assets: tuple[AssetTouch, ...] = ()
        if event.outcome is Outcome.SUCCESS:
            assets = await self._touches(dags)
        reason = secrets.redact(event.reason) if event.reason else None
        if reason is None and event.outcome is not Outcome.SUCCESS:
            reason = f"its trigger {type(self.trigger).__name__} ended it"
        self._log("INFO", f"the trigger ended the task: {event.outcome}{f' ({reason})' if reason else ''}")
        return self._report(event.outcome, ends=True, reason=reason, assets=assets, **xcoms)

    async def _touches(self, dags: DagSource) -> tuple[AssetTouch, ...]:
        run, task_id = self.attempt.run, self.attempt.task_id
        dag = dags.cached(run) or await dags.load(run)
        task = dag.task_dict.get(task_id)
        if task is None or not task.outlets:
            return ()
        names = await check_assets(task, self._services, self.attempt.key.run)
        return touches(OutletEvents(task.outlets), names, run, limit=self._environment.max_xcom_bytes)

    async def _load(self, deferral: Deferral, dags: DagSource) -> BaseTrigger:
        run, module_name = self.attempt.run, deferral.classpath.rpartition(".")[0]

        def find(name: str) -> ModuleType:
            return sys.modules[name] if name.startswith(DAG_MODULES) else importlib.import_module(name)

        def is_of_a_folder() -> bool:
            return module_name.startswith(DAG_MODULES) or finder.knows(module_name)

        try:
            for _ in range(_LOADS):  # the modules of another bundle may get into use before those of this one are found
                if not is_of_a_folder():
                    with contextlib.suppress(ImportError, DagError):  # of the DAGs folder: importable with its DAG
                        importlib.import_module(module_name)
                is_there = dags.cached(run) is not None if is_of_a_folder() else module_name in sys.modules
                if is_there:
                    break
                await dags.load(run)  # it is reloaded along with its DAG
            kind = class_of(deferral.classpath, find)
            return kind(**load(deferral.kwargs))
        except DagUnavailable:
            raise
        except BaseException as error:
            if self._is_ended_from_outside(error):
                raise
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
    """Runs all callbacks named in a `CallbackCall`: SUCCESS, or FAILED if any of them raised."""

    __slots__ = ("_failed",)

    async def _steps(self, dags: DagSource) -> Report:
        call = self.attempt.callback
        assert call is not None
        self._failed: list[str] = []
        if call.notice is not None:
            return await self._deliver_alert(call.notice)
        self.attempt: Attempt = with_secrets(self.attempt)
        dag = dags.cached(self.attempt.run) or await dags.load(self.attempt.run)
        self.context = context = self._context(call, dag)
        if call.kind == "render":
            return await self._report_fields(call, dag, context)
        with (
            offering(Services(self._services, self.attempt.key.run, self._blocking)),
            current_context(context) if context["ti"] is not None else contextlib.nullcontext(),
        ):
            if call.kind == "sla_miss":
                await self._notify_missed_slas(call, dag, context)
            else:
                await self._call_all("callback", callbacks_of(call, dag))
        if self._failed:
            return self._report(Outcome.FAILED, reason="; ".join(self._failed))
        return self._report(Outcome.SUCCESS)

    async def _deliver_alert(self, notice: str) -> Report:
        """Call the notifier of an alert. Its context has a DAG without tasks, and the facts as `alert`."""
        from aiosched.authoring.dag.dag import DAG
        from aiosched.authoring.notifiers.alerts import notifier_of, with_address

        given = json.loads(notice)
        facts = with_address(given["alert"])
        self.context = context = build_run_context(DAG(self.attempt.run.dag_id), self.attempt.run)
        context.update(alert=facts, reason=facts["title"])
        with offering(Services(self._services, self.attempt.key.run, self._blocking)):
            try:
                notifier = notifier_of(given["notifier"], given["arguments"], facts)
            except AioschedError as error:
                return self._report(Outcome.FAILED, reason=str(error))
            await self._call_all("callback", [notifier])
        return self._report(Outcome.FAILED if self._failed else Outcome.SUCCESS, reason="; ".join(self._failed) or None)

    async def _report_fields(self, call: CallbackCall, dag: DAG, context: Context) -> Report:
        """The template fields of a task, rendered without running it."""
        task, ti = dag.task_dict.get(call.task_id or ""), context["ti"]
        if task is None or ti is None:
            raise DagUnavailable(f"The DAG {dag.dag_id!r} has no task {call.task_id!r} any more: it was changed.")
        with current_context(context):
            await ti.prefetch(task.xcom_references(call.map_index))
            if self.attempt.is_async:
                await ti.load_remote()
            operator = await in_thread(task.render, context)  # it may ask and wait: not on a loop
        return self._report(Outcome.SUCCESS, rendered=shown_fields_json(operator, self._environment.max_field_length))

    async def _notify_missed_slas(self, call: CallbackCall, dag: DAG, context: Context) -> None:
        """Call the DAG's `sla_miss_callback`, and send the mail; the misses are fetched now (23.3)."""
        from aiosched.authoring.dag.slas import MissedSlas  # few DAGs have callbacks

        answer = await self._services.call(self.attempt.key.run, "sla_misses", json.dumps({"callback": call.id}))
        missed = msgspec.json.decode(answer, type=MissedSlas)
        if missed.slas:
            for name, function, arguments in missed.calls(dag, context):
                self._log("INFO", f"running {name}")
                await self._guarded(name, function, *arguments)

    def _context(self, call: CallbackCall, dag: DAG) -> Context:
        """The context of callbacks: includes `ti` if the scheduler named a task instance."""
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
            ti = TaskInstance(attempt, task, self._services, self._blocking, read_remote=self._read_xcom)
            context = build_context(task, ti, attempt, dag)
        if (ended := _ENDED.get(call.kind)) is not None:
            of_run = [context["dag_run"]] if call.kind.startswith("dag_") else []
            for one in [context["ti"], *of_run]:
                if one is not None:
                    one.state, one.end_date = ended.value, moment(SystemClock().now())
        error = AioschedError(call.reason) if call.reason is not None and call.kind in _ABOUT_A_FAILURE else None
        context.update(reason=call.reason, exception=error)
        return context

    async def _guarded(self, name: str, call: Callable[..., Any], *arguments: Any) -> None:
        """Run like a try's callbacks, and record which of them failed."""
        try:
            await self._finish_call(call, *arguments)
        except BaseException as error:
            if self._is_ended_from_outside(error):
                raise
            self._failed.append(f"{name} raised {reason_of(error)}")
            self._log("ERROR", f"{self._failed[-1]}\n{details_of(error)}")


def callbacks_of(call: CallbackCall, dag: DAG) -> Sequence[Callable[..., Any]]:
    """The functions that a call names, in the current version of the DAG."""
    match call.kind:
        case "dag_success":
            return dag.on_success_callback
        case "dag_failure":
            return dag.on_failure_callback
        case "deadline":
            if call.index >= len(dag.deadlines):
                raise DagUnavailable(f"The DAG {dag.dag_id!r} has no deadline {call.index} any more: it was changed.")
            return [dag.deadlines[call.index].callback]
        case kind if (callbacks := _OF_A_TASK.get(kind)) is not None:
            task = dag.task_dict.get(call.task_id or "")
            if task is None:
                raise DagUnavailable(f"The DAG {dag.dag_id!r} has no task {call.task_id!r} any more: it was changed.")
            return callbacks(task)
    raise AioschedError(f"There is no callback of the kind {call.kind!r}: this is a bug in aiosched.")


_ENDED: Final = MappingProxyType(
    {
        "dag_success": TaskState.SUCCESS, "dag_failure": TaskState.FAILED, "task_success": TaskState.SUCCESS,
        "task_skipped": TaskState.SKIPPED, "task_failure": TaskState.FAILED, "task_retry": TaskState.UP_FOR_RETRY,
    }
)  # fmt: skip
_ABOUT_A_FAILURE: Final = frozenset({"task_failure", "task_retry", "task_skipped"})
_OF_A_TASK: Final[Mapping[str, Callable[[BaseOperator], Sequence[Callable[..., Any]]]]] = MappingProxyType(
    {
        "task_success": lambda task: task.on_success_callback,
        "task_skipped": lambda task: task.on_skipped_callback,
        "task_failure": lambda task: task.on_failure_callback,
        "task_retry": lambda task: task.on_retry_callback,
    }
)
