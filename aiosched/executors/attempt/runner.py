"""Runs one attempt in this process and reports its outcome.

Lives here: the steps of an attempt, from building its context to its report. The same code runs `async def` tasks on a
loop and plain functions without a loop: for a plain function nothing in `Execution.run` ever suspends, so `drive` can
run it to completion in any thread. Does not live here: where attempts run (inline, worker), triggers and callbacks
(attempts.py), XComs (results.py), output (logs.py).

Source: the semantics reference, sections 7.1, 21.2, 22.2, 23.1, 25 and 27.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from aiosched.authoring.base.settings import defaults
from aiosched.authoring.plugins.listeners import call
from aiosched.authoring.plugins.loading import LoadedPlugins, loaded_plugins
from aiosched.authoring.plugins.policies import INSTANCE_HOOK
from aiosched.authoring.runtime.context import current_context
from aiosched.authoring.runtime.task_instance import TaskInstance
from aiosched.authoring.tasks.links import push_links
from aiosched.authoring.tasks.nesting import map_length
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.authoring.tasks.previous_run import load_previous_run
from aiosched.authoring.tasks.rendering import render_label
from aiosched.authoring.tasks.shown_values import shown_fields_json
from aiosched.authoring.tasks.task_context import build_context
from aiosched.authoring.triggers.encoding import deferral_of
from aiosched.core.run.code import newer_code
from aiosched.core.values.masking import secrets
from aiosched.core.values.messages import (
    AssetTouch,
    Attempt,
    Outcome,
    Report,
    RunInfo,
    TaskServices,
    XComPlace,
    XComValue,
)
from aiosched.core.values.retries import may_retry
from aiosched.core.values.states import TaskState
from aiosched.core.values.unwritten import UnwrittenLog
from aiosched.errors import (
    AioschedError,
    AttemptStopped,
    FailTask,
    RemoteStorageError,
    RescheduleTask,
    SkipTask,
    TaskDeferred,
    TaskTimeout,
    TemplateError,
)
from aiosched.executors.attempt.asset_touches import check_assets, touches
from aiosched.executors.attempt.blocking import WouldBlock
from aiosched.executors.attempt.driven import in_thread, run_alone
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.failures import details_of, presentable, reason_of, timeout_reason
from aiosched.executors.attempt.logs import current_log, write_to_console
from aiosched.executors.attempt.plans import AttemptPlan, plan_of
from aiosched.executors.attempt.results import UnusableResult, collect_xcoms
from aiosched.executors.attempt.retry_policies import Retry, ask
from aiosched.executors.attempt.secret_conf import with_secrets
from aiosched.trace_context import continued

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.runtime.context import Context

T = TypeVar("T")
Callbacks = Sequence[Callable[..., Any]]
TimeLimit = Callable[[float, str], AbstractContextManager[None]]


class DagUnavailable(AioschedError):
    """The DAG or task of an attempt cannot be loaded in this process; the message is the attempt's reason.

    `passing`: it may be available when the attempt is called again, such as a file that is being replaced.
    """

    def __init__(self, message: str, details: str | None = None, *, passing: bool = False) -> None:
        super().__init__(message)
        self.details: str | None = details
        self.passing: bool = passing


class DagSource(Protocol):
    """Provides a runner with the DAG of an attempt."""

    def cached(self, run: RunInfo) -> DAG | None:
        """The DAG, if it is already loaded."""
        ...

    async def load(self, run: RunInfo) -> DAG:
        """Load the DAG; raises DagUnavailable."""
        ...

    def forget(self, run: RunInfo) -> None:
        """Drop the DAG of `run`, which does not match: load it again on the next use."""
        ...


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, without a loop."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("A plain function's attempt waited for an event loop: this is a bug in aiosched.")


class Execution:
    """One running attempt. `run` never raises errors of user code.

    `blocking` runs a coroutine of `services` to completion for `ti.xcom_pull` (see TaskInstance). `time_limit` bounds
    plain functions; without it the executor enforces the execution timeout (threads cannot be interrupted).
    """

    __slots__ = (
        "_blocking", "_driver", "_environment", "_plan", "_plugins", "_services", "_ti", "_time_limit", "attempt",
        "context", "interruptible", "map_label", "on_rendered", "operator", "source", "started_at", "stop_requested",
        "task",
    )  # fmt: skip

    def __init__(
        self,
        attempt: Attempt,
        services: TaskServices,
        environment: AttemptEnvironment,
        *,
        blocking: Callable[[Coroutine[Any, Any, Any]], Any],
        time_limit: TimeLimit | None = None,
    ) -> None:
        self.attempt: Attempt = attempt
        self.started_at: datetime = datetime.now(UTC)
        self.task: BaseOperator | None = None
        self.operator: BaseOperator | None = None  # the rendered operator, once there is one
        self._plugins: LoadedPlugins | None = None
        self.context: Context | None = None
        self.interruptible: bool = False  # whether AttemptStopped can be raised in it now
        self.stop_requested: bool = False
        self.map_label: str | None = None
        self.source: str | None = None  # source hash of the running code
        self.on_rendered: Callable[[str], None] | None = None  # gets the template fields before the task runs
        self._ti: TaskInstance | None = None
        self._plan: AttemptPlan | None = None  # of its task, once known
        self._driver: asyncio.Task[Any] | None = None  # the asyncio task that drives it, on a loop
        self._services, self._environment = services, environment
        self._blocking, self._time_limit = blocking, time_limit

    async def run(self, dags: DagSource) -> Report:
        """Execute the attempt and return its one final report."""
        log = self._environment.new_log(self.attempt)
        token = current_log.set(log)
        self._driver = _current_task()
        try:
            report = await self._concluded(dags)
        finally:
            current_log.reset(token)
            log.close()
        if log.unwritten is not None:
            await self._tell_unwritten(log.unwritten)
        return report

    async def _concluded(self, dags: DagSource) -> Report:
        try:
            try:
                self.interruptible = True
                report = await self._steps(dags)
                self.interruptible = False
            except BaseException as error:
                self.interruptible = False
                if self._is_closed(error):
                    raise
                return await self.conclude(error)
            self._ended(TaskState.SUCCESS)
            if self._plan is not None and self._plan.on_success:
                await self._after("on_success_callback", self._plan.on_success)
            await self._tell_listeners(TaskState.SUCCESS)
            return report
        except BaseException as error:  # not the task's fault, but every attempt gets a report
            if self._is_closed(error):
                raise
            reason = f"aiosched could not finish it ({reason_of(error)}): this is a bug in aiosched"
            return self._report(Outcome.FAILED, reason=reason, details=details_of(error))

    async def _tell_unwritten(self, log: UnwrittenLog) -> None:
        """Say that output is lost; the report stays as it is, whatever comes of that."""
        try:
            told = log.told(self.attempt, self._environment.hostname)
            await self._services.call(self.attempt.key.run, "unwritten_log", told)
        except BaseException as error:
            if self._is_closed(error):
                raise
            name = f"{self.attempt.run.dag_id}.{self.attempt.task_id}"
            write_to_console(f"the log of {name} cannot be written: {log.why}")

    def _is_closed(self, error: BaseException) -> bool:
        """Whether the coroutine is being closed, as when its loop has ended: then no caller waits for a report.

        A GeneratorExit of user code is raised while the attempt's own asyncio task drives it.
        """
        return issubclass(type(error), GeneratorExit) and _current_task() is not self._driver

    def _is_ended_from_outside(self, error: BaseException) -> bool:
        """Whether `error` came from outside the called code, so that it has to propagate."""
        if issubclass(type(error), asyncio.CancelledError):
            return self.attempt.is_async and _cancelled_from_outside()
        return issubclass(type(error), AttemptStopped) or self._is_closed(error)

    async def _steps(self, dags: DagSource) -> Report:
        self.attempt = attempt = with_secrets(self.attempt)
        dag = dags.cached(attempt.run) or await dags.load(attempt.run)
        self.source = dag._source_hash
        if attempt.key.try_number > 1 and (message := newer_code(attempt, self.source)) is not None:
            self._log("INFO", message)
        task = dag.task_dict.get(attempt.task_id)
        if task is None:
            dags.forget(attempt.run)
            file = attempt.run.file
            where = "the DAG" if file is None else f"{file}: the DAG"
            reason = f"{where} {dag.dag_id!r} has no task {attempt.task_id!r} any more: it was changed"
            raise DagUnavailable(reason, passing=file is not None)
        self.task = task
        self._plan = plan = plan_of(task, dag)
        self._ti = ti = TaskInstance(
            attempt, task, self._services, self._blocking, start_date=self.started_at, read_remote=self._read_xcom
        )
        self._plugins = plugins = loaded_plugins()
        self.context = context = build_context(task, ti, attempt, dag)
        if self._environment.given is not None:
            context.update(self._environment.given.context)
        with current_context(context), continued(attempt.run.traceparent):
            if plan.references:
                indexed = plan.reads_own_index and ti.map_index >= 0
                await ti.prefetch(task.xcom_references(ti.map_index) if indexed else plan.references)
                if attempt.is_async:
                    await ti.load_remote()  # rendering must not wait for the store on this loop
            if plan.names_previous_run and attempt.is_async:
                await load_previous_run(context)
            ti.task = await self._render(task, context)
            if plugins.policies.by_kind[INSTANCE_HOOK]:
                plugins.policies.before_attempt(ti)
            self.operator = context["task"] = operator = ti.task
            if plan.has_templates and self.on_rendered is not None:
                self.on_rendered(shown_fields_json(operator, self._environment.max_field_length))
            if labelled := task.map_index_template is not None and ti.map_index >= 0:
                self._label(operator, context)
            asset_names = await check_assets(task, self._services, attempt.key.run) if plan.has_assets else {}
            if plan.on_execute:
                await self._call_all("on_execute_callback", plan.on_execute)
            await self._tell_listeners(TaskState.RUNNING)
            operator.pre_execute(context)
            try:
                if attempt.resume is None:
                    is_async = plan.is_async if task.expand_input is None else operator.is_async
                    result = await self._execute(operator.execute, context, is_async)
                else:
                    go_on = partial(operator.resume_execution, attempt.resume)
                    result = await self._execute(go_on, context, operator.resumes_async(attempt.resume))
            except SystemExit as exited:
                if exited.code not in (None, 0) or task._dialect is None or not task._dialect.may_exit:
                    raise
                result = None
            operator.post_execute(context, result)
            push_links(operator, ti)
        length = None
        if plan.is_mapped_over:
            limit = self._environment.max_map_length or defaults().max_map_length
            length = map_length(result, task, ti.map_index, limit)
        xcoms: dict[str, Any] = {}
        if result is not None or ti.pushed:
            limits, push = self._environment.xcom_limits, task.do_xcom_push
            found = collect_xcoms(
                result, ti.pushed.items(), push_result=push, multiple_outputs=task.multiple_outputs, limit=limits
            )
            xcoms = await self._stored(found)
        if labelled:
            self._label(operator, context)
        assets: tuple[AssetTouch, ...] = ()
        if task.outlets:
            limit = self._environment.max_xcom_bytes
            assets = touches(context["outlet_events"], asset_names, attempt.run, limit=limit)
        return self._report(Outcome.SUCCESS, skip=ti.skip_decision, map_length=length, assets=assets, **xcoms)

    def _label(self, operator: BaseOperator | None, context: Context | None) -> None:
        """Compute the label shown instead of the map index; this can fail before the task has run."""
        if operator is None or context is None or operator.map_index_template is None or self.attempt.key.map_index < 0:
            return
        try:
            self.map_label = context["ti"].rendered_map_index = secrets.redact(render_label(operator, context))
        except Exception as error:
            self._log("DEBUG", f"no label for the map index yet: {reason_of(error)}")

    async def _render(self, task: BaseOperator, context: Context) -> BaseOperator:
        try:
            return task.render(context)
        except TemplateError as error:
            if not isinstance(error.__cause__, WouldBlock):
                raise
        return await in_thread(task.render, context)  # it would have to wait: not on this loop

    async def _execute(self, call: Callable[[Context], Any], context: Context, is_async: bool) -> Any:
        seconds = self.attempt.execution_timeout
        given = self._environment.given
        if is_async and self.attempt.is_async:
            work = call(context) if given is None else given.within(context, lambda: call(context))
            return await (work if seconds is None else _within(seconds, work))
        if self.attempt.is_async:  # a plain function must not block the loop: it resumes, or the file has changed
            return await in_thread(call, context)
        with (
            nullcontext()
            if seconds is None or self._time_limit is None
            else self._time_limit(seconds, timeout_reason(seconds))
        ):
            if given is not None and not is_async:
                return given.within_in_thread(context, lambda: call(context))
            result = call(context)
            return run_alone(result) if is_async else result

    async def conclude(self, error: BaseException) -> Report:
        """The report of an attempt that ended with `error`; runs on_kill and the callbacks for that outcome."""
        error = presentable(error)
        if isinstance(error, DagUnavailable):
            self._log("ERROR", str(error) if error.details is None else f"{error}\n{error.details}")
            missing = error.passing
            return self._report(Outcome.FAILED, reason=str(error), details=error.details, dag_missing=missing)
        if self.stop_requested or isinstance(error, AttemptStopped):
            await self.kill()
            was_raised, log = isinstance(error, AttemptStopped), current_log.get()
            reason = str(error) if was_raised else "was told to stop"
            if was_raised or (log is not None and log.begun):  # thousands can be cancelled at a time
                self._log("WARNING", f"the attempt {reason}")
            return self._report(Outcome.LOST, reason=reason)
        if isinstance(error, asyncio.CancelledError) and _cancelled_from_outside():
            await self.kill()
            return self._report(Outcome.LOST, reason="its asyncio task was cancelled by the program it runs in")
        push_links(self.operator, self._ti)
        pushed = await self._pushed()
        self._label(self.operator, self.context)
        if isinstance(error, RescheduleTask):
            if error.at.tzinfo is not None:
                return self._report(Outcome.RESCHEDULED, reschedule_at=error.at, **pushed)
            error = ValueError(f"RescheduleTask needs an aware datetime, got {error.at!r}: give it a time zone.")
        if isinstance(error, TaskDeferred):
            try:
                return self._report(Outcome.DEFERRED, deferral=deferral_of(error), **pushed)
            except Exception as unusable:  # the author's trigger cannot be serialized
                error = unusable
        if isinstance(error, TaskTimeout):
            await self.kill()
            error = error if self.operator is None else self.operator.timed_out(error)
        reason = reason_of(error)
        if isinstance(error, SkipTask):
            self._log("INFO", f"skipped: {reason}")
            report = self._report(Outcome.SKIPPED, reason=reason, **pushed)
            self._ended(TaskState.SKIPPED)
            if self._plan is not None:
                await self._after("on_skipped_callback", self._plan.on_skipped, error, reason)
            await self._tell_listeners(TaskState.SKIPPED)
            return report
        if isinstance(error, TaskTimeout):
            reason = secrets.redact(str(error)) or reason
        details = details_of(error)
        self._log("ERROR", f"failed: {reason}\n{details}")
        fail_now = isinstance(error, FailTask)
        retries, delay = not fail_now and may_retry(self.attempt.key.try_number, self.attempt.max_tries), None
        if retries:
            retries, delay = self._retry_policy(error)[:2]
            fail_now = not retries
        report = self._report(
            Outcome.FAILED, reason=reason, details=details, fail_now=fail_now, retry_delay=delay, **pushed
        )
        self._ended(TaskState.UP_FOR_RETRY if retries else TaskState.FAILED)
        if (plan := self._plan) is not None:
            which = ("on_retry_callback", plan.on_retry) if retries else ("on_failure_callback", plan.on_failure)
            await self._after(*which, error, reason)
        await self._tell_listeners(TaskState.FAILED, error)
        return report

    def _retry_policy(self, error: BaseException) -> Retry:
        if self.context is None or self.task is None or self.task.retry_policy is None:
            return Retry()
        try:
            with current_context(self.context):
                decided = ask(self.task.retry_policy, error, self.context, self.attempt)
        except Exception as broken:  # then the task's options apply: 22.4
            self._log("ERROR", f"retry_policy raised {reason_of(broken)}\n{details_of(broken)}")
            return Retry()
        if decided.reason is not None:
            self._log("INFO", f"retry_policy decided to {decided.reason}")
        return decided

    async def _pushed(self) -> dict[str, Any]:
        """The XComs that an unsuccessful attempt pushed before it ended, as fields of its report."""
        if self._ti is None or not self._ti.pushed:
            return {}
        pushed, limit = self._ti.pushed.items(), self._environment.xcom_limits
        try:
            return await self._stored(
                collect_xcoms(None, pushed, push_result=False, multiple_outputs=False, limit=limit)
            )
        except (UnusableResult, RemoteStorageError) as error:
            self._log("WARNING", f"what the attempt pushed is dropped: {error}")
            return {}

    async def _stored(self, xcoms: Sequence[XComValue]) -> dict[str, Any]:
        """The XComs as fields of a report; large ones are in remote storage now."""
        if not xcoms:
            return {}
        small, large = await self._environment.store_xcoms(self.attempt, xcoms, self._services)
        return {"xcoms": small, "stored_xcoms": large}

    async def _read_xcom(self, place: XComPlace) -> str:
        return await self._environment.read_xcom(place, on_loop=self.attempt.is_async)

    async def conclude_elsewhere(self, error: BaseException) -> Report:
        """Like `conclude`, for an attempt that cannot be interrupted and still runs elsewhere."""
        log = self._environment.new_log(self.attempt)
        token = current_log.set(log)
        try:
            return await self.conclude(error)
        finally:
            current_log.reset(token)
            log.close()

    async def kill(self) -> None:
        """Call `on_kill` of the running operator, if it has started."""
        if self._plan is not None and self.operator is not None and self._plan.has_on_kill:
            await self._guarded("on_kill", self.operator.on_kill)

    def _ended(self, state: TaskState) -> None:
        if self._ti is not None:
            self._ti.ended(state)

    async def _after(self, kind: str, callbacks: Callbacks, error: BaseException | None = None, why: str = "") -> None:
        if callbacks and self.context is not None:
            self.context.update(exception=error, reason=why or None)
            with current_context(self.context):
                await self._call_all(kind, callbacks)

    async def _call_all(self, kind: str, callbacks: Callbacks) -> None:
        """Call them, each after a line in the log: one that hangs keeps the task running.

        Those of Airflow's files expect to be called where they may block, also if the task shares its loop.
        """
        in_threads = self.attempt.is_async and self.task is not None and self.task._dialect is not None
        for callback in callbacks:
            name = f"{kind} {getattr(callback, '__name__', callback)!s}"
            self._log("INFO", f"running {name}")
            await self._guarded(name, *((in_thread, callback) if in_threads else (callback,)), self.context)

    async def _tell_listeners(self, state: TaskState, error: BaseException | None = None) -> None:
        """Call the listeners of plugins. For an attempt that shares its loop they run in a thread: they may block."""
        if self.context is None or self._plugins is None or not self._plugins.hooks:
            return
        listeners = listeners_of(self._plugins, state, self._ti, error)
        with current_context(self.context):
            for name, listener in listeners:
                await self._guarded(name, *((in_thread, listener) if self.attempt.is_async else (listener,)))

    async def _guarded(self, name: str, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            await self._finish_call(call, *arguments)
        except BaseException as error:  # logged, the others still run, the state never changes: 23.1
            is_cancelled = issubclass(type(error), asyncio.CancelledError)
            if self._is_ended_from_outside(error) and (self.interruptible or not is_cancelled):
                raise  # once the task has ended, its callbacks run even if it is told to stop
            self._log("ERROR", f"{name} raised {reason_of(error)}\n{details_of(error)}")

    async def _finish_call(self, call: Callable[..., Any], *arguments: Any) -> None:
        outcome = call(*arguments)
        while inspect.isawaitable(outcome):
            outcome = await outcome if self.attempt.is_async else run_alone(outcome)

    def _log(self, level: str, text: str) -> None:
        if (log := current_log.get()) is not None:
            log.line(level, "aiosched", text)

    def _report(self, outcome: Outcome, **facts: Any) -> Report:
        return Report(
            key=self.attempt.key,
            outcome=outcome,
            at=datetime.now(UTC),
            started_at=self.started_at,
            hostname=self._environment.hostname,
            pid=self._environment.pid,
            map_label=self.map_label,
            source=self.source,
            **facts,
        )


def _current_task() -> asyncio.Task[Any] | None:
    """The current asyncio task; None without a loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _cancelled_from_outside() -> bool:
    task = _current_task()
    return task is not None and task.cancelling() > 0


async def _within(seconds: float, work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(seconds) as limit:
            result = await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise TaskTimeout(timeout_reason(seconds)) from None
    if limit.expired():  # the task swallowed the cancellation and returned
        raise TaskTimeout(timeout_reason(seconds))
    return result


def listeners_of(
    plugins: LoadedPlugins, state: TaskState, ti: TaskInstance | None, error: BaseException | None = None
) -> list[tuple[str, Callable[[], Any]]]:
    """The listeners to call when a task instance has got this state: their names to show, and the calls."""
    before = TaskState.QUEUED if state is TaskState.RUNNING else TaskState.RUNNING
    facts = {"previous_state": before, "task_instance": ti, "error": error}
    hooks = plugins.hooks.get(f"on_task_instance_{state.value}", ())
    return [(f"listener {hook.__module__}.{hook.__qualname__}", partial(call, hook, facts)) for hook in hooks]
