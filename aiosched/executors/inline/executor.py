"""The inline executor: attempts run in the scheduler's own process.

`async def` tasks are asyncio tasks on the caller's loop, plain functions run in a bounded set of threads. The process
belongs to the host: no output is redirected (see logs.py for what is captured), no signal handler is set, no process is
forked. This has a cost: a thread cannot be killed, so a plain function that must stop gets its `on_kill`, is reported
after its grace period, and keeps its slot until it ends by itself. The commands of operators end with their attempts,
even if the host is killed (host_guard.py).
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from aiosched.authoring.operators.subprocesses import current_guard
from aiosched.authoring.tasks.task_context import CONTEXT_KEYS
from aiosched.core.values.messages import (
    Attempt,
    AttemptKey,
    Outcome,
    Report,
    RunInfo,
    TaskServices,
    Upcoming,
    XComPairs,
    XComRef,
)
from aiosched.errors import ConfigError, TaskTimeout
from aiosched.executors.attempt.attempts import TriggerExecution, execution_of
from aiosched.executors.attempt.blocking import answered_on, blocking_on
from aiosched.executors.attempt.dag_cache import ANSWERED_WITHIN, FileDags, asking, fetching
from aiosched.executors.attempt.driven import DrivenCoroutine
from aiosched.executors.attempt.environment import AttemptEnvironment, GivenObjects
from aiosched.executors.attempt.failures import timeout_reason
from aiosched.executors.attempt.logs import TaskLoggerCapture
from aiosched.executors.attempt.runner import (
    DagSource,
    DagUnavailable,
    Execution,
    drive,
)
from aiosched.executors.attempt.start_notices import StartNotices
from aiosched.executors.attempt.trigger_tasks import TriggerTasks
from aiosched.executors.inline.host_guard import HostGuard
from aiosched.executors.worker.background_imports import InBackground
from aiosched.executors.worker.early_imports import EarlyImports
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.signatures import can_be_given
from aiosched.timeouts import clean_up_timeout

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.runtime.context import Context

T = TypeVar("T")
log: logging.Logger = logging.getLogger(__name__)

FAILURES: Final = "aiosched.failures"  # a task that fails is told to the logger `aiosched.failures.<dag_id>.<task_id>`

_STOPPED: Final = "the scheduler stopped"
_ON_REQUEST: Final = "was stopped on request"
_NO_OTHER_USER: Final = (
    "the task names another user (run_as_user), and the executor 'inline' runs tasks in this process: use 'local', or "
    "leave run_as_user out"
)


class InlineExecutor:
    """Runs attempts in this process.

    Implements the Executor protocol. `dags` are the DAGs known to this process: a mapping by id, a function that
    returns None for an unknown id, or a DagSource that blocks while it loads (FileDags). Times in seconds.
    """

    name = "inline"

    def __init__(
        self,
        dags: Mapping[str, DAG] | Callable[[str], DAG | None] | DagSource,
        environment: AttemptEnvironment | None = None,
        *,
        slots: int | None = None,
        async_slots: int = 1000,
        cleanup_time: float = 60.0,
        kill_after: float = 5.0,
    ) -> None:
        self.lease_deadline: LeaseDeadline = LeaseDeadline()  # the lease thread writes the lease's end there
        self._guard = HostGuard(self.lease_deadline)
        self._dags: DagSource = RegisteredDags(dags) if isinstance(dags, Mapping) or callable(dags) else dags
        self._dags_for_loop = InBackground(self._dags)
        self._slots = slots or 4 * (os.cpu_count() or 1)
        self._async_slots = async_slots
        self._cleanup_time, self._kill_after = cleanup_time, kill_after
        self._environment = environment or AttemptEnvironment()
        self._running: dict[AttemptKey, Execution] = {}  # accepted but not yet reported
        self._tasks: dict[AttemptKey, asyncio.Task[None]] = {}  # of async attempts
        self._strays: set[asyncio.Task[None]] = set()  # given up, still running
        self._begun: set[AttemptKey] = set()  # plain attempts in a thread
        self._verdicts: dict[AttemptKey, tuple[Outcome, str]] = {}
        self._timers: dict[AttemptKey, asyncio.TimerHandle] = {}
        self._busy = 0  # used slots: waiting, running, or given up but still in a thread
        self._stopping = False
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._started = False
        self._given: tuple[Mapping[Any, Any], Callable[[Context], AbstractAsyncContextManager[Any]] | None] | None = (
            None
        )

    def give(
        self, context: Mapping[Any, Any], around: Callable[[Context], AbstractAsyncContextManager[Any]] | None
    ) -> None:
        """Give tasks values by name or type, and a context manager around each: see `Scheduler`. Raises ConfigError."""
        if taken := sorted(CONTEXT_KEYS & context.keys()):
            raise ConfigError(f"context= cannot give {', '.join(taken)}: tasks know these names. Choose other ones.")
        if wrong := [key for key in context if not isinstance(key, str) and not can_be_given(key)]:
            raise ConfigError(f"context= takes names and types, not {wrong[0]!r}.")
        self._given = dict(context), around

    @property
    def pid(self) -> int:
        """The process of all attempts: this one."""
        return self._environment.pid

    @property
    def slots(self) -> int:
        """The number of plain-function attempts it runs at a time."""
        return self._slots

    @property
    def open_slots(self) -> int:
        """How many more plain-function attempts it accepts."""
        return 0 if self._stopping else max(0, self._slots - self._busy)

    @property
    def open_async_slots(self) -> int:
        """How many more `async def` attempts it accepts."""
        return 0 if self._stopping else max(0, self._async_slots - len(self._tasks) - len(self._strays))

    async def start(self, report: Callable[[Report], None], services: TaskServices) -> None:
        """Start on the caller's loop."""
        self._loop = asyncio.get_running_loop()
        if self._given is not None:
            self._environment = replace(self._environment, given=GivenObjects(*self._given, self._loop))
        self._report, self._services = report, services
        self._blocking_services = services_in_threads = BlockingServices(self._loop, services)
        if isinstance(self._dags, FileDags):
            self._dags.fetch = fetching(lambda *call: drive(services_in_threads.call(*call)))
            answered = answered_on(self._loop, seconds=ANSWERED_WITHIN)
            self._dags.ask = asking(lambda *call: answered(services.call(*call)))
        self._blocking = blocking_on(self._loop)
        self._triggers: TriggerTasks[AttemptKey] = TriggerTasks(self._dags_for_loop, lambda _, ended: report(ended))
        self._threads = DaemonThreads(self._slots)
        self._early_imports = EarlyImports(self._dags_for_loop, lambda *_: None)
        self._starts = StartNotices(self._loop, report, hostname=socket.gethostname())
        TaskLoggerCapture.begin()
        self._started = True

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Accept the attempts and start them, in order, in the next loop iteration or when a thread is free."""
        for attempt in attempts:
            if self._stopping:
                report = _final(attempt.key, Outcome.LOST, _STOPPED, self._environment)
                self._loop.call_soon(self._report, report)
            elif attempt.trigger is not None:
                self._wait_for(attempt)
            elif attempt.run_as_user is not None:
                report = _final(attempt.key, Outcome.FAILED, _NO_OTHER_USER, self._environment)
                self._loop.call_soon(self._report, report)
            elif attempt.is_async:
                execution = execution_of(attempt, self._services, self._environment, blocking=self._blocking)
                execution.on_rendered = partial(self._starts.rendered, attempt.key)
                self._running[attempt.key] = execution
                self._tasks[attempt.key] = self._loop.create_task(DrivenCoroutine(self._run_async(execution)))
                if attempt.execution_timeout is not None:
                    self._watch(attempt.key, attempt.execution_timeout, self._cleanup_time)
            else:
                execution = execution_of(attempt, self._blocking_services, self._environment, blocking=drive)
                execution.on_rendered = partial(self._call_on_loop, self._rendered, execution)
                self._running[attempt.key] = execution
                self._busy += 1
                self._threads.submit(lambda execution=execution: self._run_in_thread(execution))  # type: ignore[misc]
        if self._running:
            self._quiet.clear()

    def prepare(self, upcoming: Sequence[Upcoming]) -> None:
        """Import the files of runs that are expected, one after the other, in a thread; registered DAGs need none."""
        if isinstance(self._dags, FileDags) and not self._stopping:
            for each in upcoming:
                self._early_imports.add(0, each.run)

    async def cancel(self, attempt: AttemptKey, grace: float) -> None:
        """Ask an attempt to stop and return at once; its report (FAILED) follows within `grace` seconds.

        An attempt that does not stop is given up: it is reported, but still runs in this process.
        """
        if self._triggers.stop(attempt, kill=True):
            self._report(_final(attempt, Outcome.FAILED, _ON_REQUEST, self._environment))
        else:
            self._stop_attempt(attempt, grace, Outcome.FAILED, _ON_REQUEST)

    def forget(self, triggers: Sequence[AttemptKey]) -> None:
        """Stop triggers that now wait elsewhere."""
        for key in triggers:
            self._triggers.stop(key, kill=False)

    async def stop(self, grace: float) -> None:
        """Wait up to `grace` seconds for running attempts, then cancel them, then give up those that still run.

        Stopped attempts are reported as LOST: this uses no retry. A second call with a shorter grace shortens a stop in
        progress.
        """
        self._stopping = True
        if self._started:
            for key in self._triggers.stop_all():
                self._report(_final(key, Outcome.LOST, _STOPPED, self._environment))
        if not await self._quiet_within(grace):
            for key in list(self._running):
                self._stop_attempt(key, self._kill_after, Outcome.LOST, _STOPPED)
            await self._quiet_within(self._kill_after + 1)
        if self._started:
            self._started = False
            self._early_imports.close()
            await asyncio.to_thread(self._guard.close)
            await self._triggers.left()
            self._starts.close()
            self._threads.close()
            TaskLoggerCapture.end()

    async def _quiet_within(self, seconds: float) -> bool:
        self._settle()
        try:
            async with clean_up_timeout(seconds):
                await self._quiet.wait()
        except TimeoutError:
            return self._quiet.is_set()
        return True

    # Running

    def _wait_for(self, attempt: Attempt) -> None:
        attempt = msgspec.structs.replace(attempt, is_async=True, execution_timeout=None)
        trigger = TriggerExecution(attempt, self._services, self._environment, blocking=self._blocking)
        self._triggers.start(attempt.key, trigger)

    async def _run_async(self, execution: Execution) -> None:
        key = execution.attempt.key
        current_guard.set(self._guard)
        if execution.attempt.callback is None:
            self._starts.began(key, self)
        report = await execution.run(self._dags_for_loop)
        task = self._tasks.pop(key, None)
        if task is not None and self._running.get(key) is execution:
            self._finish(report)

    def _run_in_thread(self, execution: Execution) -> None:
        current_guard.set(self._guard)
        if not execution.stop_requested:
            self._call_on_loop(self._began, execution)
            report = drive(execution.run(self._dags))
        else:
            report = _final(execution.attempt.key, Outcome.LOST, "was told to stop", self._environment)
        self._call_on_loop(self._thread_ended, execution, report)

    def _call_on_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the host closed its loop while a task that was given up still ran
            log.warning("a task ended after its event loop was closed; its result is dropped")

    def _began(self, execution: Execution) -> None:
        key = execution.attempt.key
        if self._running.get(key) is execution:
            self._begun.add(key)
            if execution.attempt.callback is None:
                self._starts.began(key, self)
            if execution.attempt.execution_timeout is not None:
                self._watch(key, execution.attempt.execution_timeout, 0)

    def _rendered(self, execution: Execution, fields: str) -> None:
        key = execution.attempt.key
        if self._running.get(key) is execution:
            self._starts.rendered(key, fields)

    def _thread_ended(self, execution: Execution, report: Report) -> None:
        self._busy -= 1
        if self._running.get(report.key) is execution:
            self._finish(report)

    def _finish(self, report: Report) -> None:
        key = report.key
        attempt = self._running.pop(key).attempt
        report = self._starts.with_fields(report)
        self._starts.ended(key)
        self._begun.discard(key)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        verdict = self._verdicts.pop(key, None)
        if verdict is not None and report.outcome is Outcome.LOST:
            outcome, reason = verdict
            report = msgspec.structs.replace(report, outcome=outcome, reason=reason)
        if report.outcome is Outcome.FAILED and attempt.callback is None:
            _tell_failure(attempt, report)
        self._report(report)
        self._settle()

    def _settle(self) -> None:
        if not self._running:
            self._quiet.set()

    # Stopping

    def _stop_attempt(self, key: AttemptKey, grace: float, outcome: Outcome, reason: str) -> None:
        execution = self._running.get(key)
        if execution is None:
            return
        first = not execution.stop_requested
        execution.stop_requested = True
        self._verdicts.setdefault(key, (outcome, reason))
        task = self._tasks.get(key)
        if not (key in self._begun if task is None else _has_begun(task)):
            if task is not None:
                del self._tasks[key]
                task.cancel()
            self._finish(_final(key, Outcome.LOST, reason, self._environment))
            return
        if task is not None:
            task.cancel()
        elif first:
            run_in_thread(lambda: drive(execution.kill()))
        self._loop.call_later(grace, self._give_up, execution, outcome, reason)

    def _watch(self, key: AttemptKey, seconds: float, patience: float) -> None:
        execution = self._running[key]
        self._timers[key] = self._loop.call_later(seconds + patience, self._overdue, execution, seconds)

    def _overdue(self, execution: Execution, seconds: float) -> None:
        """Conclude an uninterruptible attempt that exceeded its timeout, independently of its thread or task."""
        if self._running.get(execution.attempt.key) is not execution:
            return
        self._let_go(execution)
        error = TaskTimeout(f"{timeout_reason(seconds)}; it cannot be interrupted and still runs in this process")
        if execution.attempt.is_async:
            task = self._loop.create_task(self._conclude(execution, error))
            self._strays.add(task)
            task.add_done_callback(self._strays.discard)
        else:
            run_in_thread(
                lambda: self._call_on_loop(self._concluded, execution, drive(execution.conclude_elsewhere(error)))
            )

    async def _conclude(self, execution: Execution, error: BaseException) -> None:
        self._concluded(execution, await execution.conclude_elsewhere(error))

    def _concluded(self, execution: Execution, report: Report) -> None:
        if self._running.get(report.key) is execution:
            self._finish(report)

    def _give_up(self, execution: Execution, outcome: Outcome, reason: str) -> None:
        key = execution.attempt.key
        if self._running.get(key) is not execution:
            return
        if (task := self._tasks.get(key)) is not None:
            task.cancel()  # again: a command that waits for its end is killed
        self._let_go(execution)
        log.warning("task %s.%s does not stop and still runs", execution.attempt.run.dag_id, execution.attempt.task_id)
        self._verdicts.pop(key, None)
        self._finish(_final(key, outcome, f"{reason}, but still runs: this process cannot end it", self._environment))

    def _let_go(self, execution: Execution) -> None:
        task = self._tasks.pop(execution.attempt.key, None)
        if task is not None:
            self._strays.add(task)
            task.add_done_callback(self._strays.discard)


def _has_begun(task: asyncio.Task[None]) -> bool:
    """Whether the loop has started it: if cancelled before that, its coroutine never runs and reports nothing."""
    coroutine = task.get_coro()
    return not isinstance(coroutine, DrivenCoroutine) or coroutine.begun


class RegisteredDags:
    """The DAGs registered in this process, by id."""

    def __init__(self, dags: Mapping[str, DAG] | Callable[[str], DAG | None]) -> None:
        self._known = dags if isinstance(dags, Mapping) else None
        self._find: Callable[[str], DAG | None] = dags.get if isinstance(dags, Mapping) else dags

    def cached(self, run: RunInfo) -> DAG | None:
        """The DAG, if this process knows it."""
        return self._find(run.dag_id)

    async def load(self, run: RunInfo) -> DAG:
        """Raises DagUnavailable: there is no file to load it from."""
        names = sorted(self._known) if self._known is not None else []
        known = f" (it knows {', '.join(names[:20])}{' …' if len(names) > 20 else ''})" if names else ""
        raise DagUnavailable(
            f"Process {os.getpid()} on {socket.gethostname()} does not know the DAG {run.dag_id!r}{known}: "
            "give every process with a scheduler on this database the same DAGs, or use the local executor."
        )

    def forget(self, run: RunInfo) -> None:
        """Does nothing: registered DAGs do not change."""


class BlockingServices:
    """A loop's services for code in another thread: its coroutines block and never suspend."""

    def __init__(self, loop: asyncio.AbstractEventLoop, services: TaskServices) -> None:
        self._loop, self._services = loop, services

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[XComPairs]:
        """See TaskServices. Blocks."""
        return self._wait(self._services.get_xcoms(run, refs))

    async def call(self, run: int, name: str, args: str) -> str:
        """See TaskServices. Blocks."""
        return self._wait(self._services.call(run, name, args))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _tell_failure(attempt: Attempt, report: Report) -> None:
    """Let the application's log have the error, too: each task has a logger of its own to configure."""
    run, key = attempt.run, attempt.key
    logger = logging.getLogger(f"{FAILURES}.{run.dag_id}.{attempt.task_id}")
    index = "" if key.map_index < 0 else f"[{key.map_index}]"
    logger.error(
        "%s%s of %s, run %s, failed in try %d of %d: %s%s", attempt.task_id, index, run.dag_id, run.run_id,
        key.try_number, attempt.max_tries + 1, report.reason, f"\n{report.details.rstrip()}" if report.details else "",
        extra={"dag_id": run.dag_id, "run_id": run.run_id, "task_id": attempt.task_id, "map_index": key.map_index},
    )  # fmt: skip


def _final(key: AttemptKey, outcome: Outcome, reason: str, where: AttemptEnvironment) -> Report:
    return Report(key=key, outcome=outcome, at=datetime.now(UTC), reason=reason, hostname=where.hostname, pid=where.pid)


Job = Callable[[], None]


class DaemonThreads:
    """Runs jobs in up to `size` daemon threads, first come first served. A job must not raise.

    A ThreadPoolExecutor would make the interpreter wait at exit for tasks that never end.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._started = 0
        self._waiting = threading.Semaphore(0)  # threads without a job

    def submit(self, job: Job) -> None:
        """Run `job` as soon as a thread is free. Call it from one thread only."""
        if not self._waiting.acquire(blocking=False) and self._started < self._size:
            self._started += 1
            threading.Thread(target=self._work, name=f"aiosched-task-{self._started}", daemon=True).start()
        self._jobs.put(job)

    def close(self) -> None:
        """End idle threads; a busy thread ends after its job."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._waiting.release()


def run_in_thread(job: Job) -> None:
    """Run `job` in a new daemon thread."""
    threading.Thread(target=job, name="aiosched-helper", daemon=True).start()
