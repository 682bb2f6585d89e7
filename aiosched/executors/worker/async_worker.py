"""A worker process for `async def` tasks: many attempts at a time on one loop.

They share the process: its environment, its working directory and a blocked loop affect all of them. If an attempt does
not stop when told to, the scheduler ends the whole worker after the grace period. A process left behind by an attempt
is ended with the attempt if it carries its name (marking_loop.py). The attempt that started any other process is
unknown, so it is ended once no attempt is left that was running when it was started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

from aiosched import leftovers
from aiosched.core.values.messages import Attempt, AttemptKey, Report, XComPairs, XComRef
from aiosched.errors import ExecutorError
from aiosched.executors.attempt.attempts import TriggerExecution, execution_of
from aiosched.executors.attempt.blocking import answered_on, blocking_on
from aiosched.executors.attempt.dag_cache import ANSWERED_WITHIN, FileDags, asking, fetching
from aiosched.executors.attempt.driven import DrivenCoroutine
from aiosched.executors.attempt.log_opening import RemoteLogFiles
from aiosched.executors.attempt.logs import AttemptLog, capture_process
from aiosched.executors.attempt.runner import Execution
from aiosched.executors.attempt.trigger_tasks import TriggerTasks
from aiosched.executors.worker.background_imports import InBackground
from aiosched.executors.worker.early_imports import EarlyImports
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.executors.worker.loop_health import LoopHealth
from aiosched.executors.worker.loop_heartbeat import LoopHeartbeat
from aiosched.executors.worker.marking_loop import name_of, new_marking_loop, read_nothing
from aiosched.executors.worker.process_parts import parts_of_loop, parts_of_this_process
from aiosched.executors.worker.process_state import SharedProcessState
from aiosched.executors.worker.processes import has_children, peak_memory
from aiosched.executors.worker.protocol import (
    Cancel,
    Ended,
    FieldsRendered,
    Fired,
    FrameReader,
    Ready,
    RunAttempts,
    ServiceCall,
    ServiceResult,
    Unwatch,
    Warm,
    Warmed,
    Watch,
    Withdraw,
    WorkerConfig,
    XComCall,
    XComResult,
    environment_of,
    error_of,
    frame,
)
from aiosched.forks import reset_in_children

_LARGE: Final = 1_048_576  # bytes of XComs in one message


class AsyncWorker(asyncio.Protocol):
    """The socket to the scheduler, the running attempts, and their TaskServices."""

    def __init__(
        self,
        config: WorkerConfig,
        gone: asyncio.Event,
        sign: LoopHeartbeat,
        lease: LeaseDeadline,
        log_files: RemoteLogFiles | None = None,
    ) -> None:
        self._config, self._gone, self._lease = config, gone, lease
        self._environment = environment_of(config, log_files)
        dags = FileDags(
            places=config.places,
            import_timeout=config.import_timeout,
            defaults=config.defaults,
            owns_process=True,
        )
        self._dags = InBackground(dags)
        self._loop = asyncio.get_running_loop()
        parts = (*parts_of_this_process(), *parts_of_loop(self._loop))
        self._state = SharedProcessState(parts, self._log_of)
        dags.after_import = self._state.state.accept_imports
        self._reader = FrameReader()
        self._left_behind: list[object] = []  # in a forked child: what its parent runs
        self._running: dict[AttemptKey, tuple[asyncio.Task[None], Execution]] = {}
        self._began: dict[AttemptKey, float] = {}  # the same, oldest first; in leftovers.boot_time
        self._tidying: set[asyncio.Task[None]] = set()  # their attempts have ended, but not their leftover processes
        self._ended: list[tuple[Attempt, Report]] = []
        self._early_imports = EarlyImports(self._dags, self._warmed)
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._asked = 0
        self._done = 0
        self._memory = peak_memory()
        self._transport: asyncio.Transport | None = None
        self._blocking = blocking_on(self._loop)
        dags.fetch = fetching(lambda *call: self._blocking(self.call(*call)))
        answered = answered_on(self._loop, seconds=ANSWERED_WITHIN)
        dags.ask = asking(lambda *call: answered(self.call(*call)))
        self._triggers: TriggerTasks[int] = TriggerTasks(
            self._dags, lambda number, report: self._tell(Fired(number, report))
        )
        self._health = LoopHealth(sign, lambda: len(self._running))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclasses
        self._transport.write(frame(Ready()))

    def data_received(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            match message:
                case RunAttempts(attempts):
                    if self._lease.has_passed:  # this process stood still: others may run them
                        self._gone.set()
                        return
                    for attempt in attempts:
                        self._begin(attempt)
                case Cancel(key):
                    self._cancel(key)
                case Watch(number, attempt):
                    trigger = TriggerExecution(attempt, self, self._environment, blocking=self._blocking)
                    self._triggers.start(number, trigger)
                case Unwatch(number, kill):
                    self._triggers.stop(number, kill=kill)
                case Warm(number, run):
                    self._early_imports.add(number, run)
                case XComResult(number, pairs, error):
                    self._answer(number, pairs, None if error is None else ExecutorError(error))
                case ServiceResult(number, answer):
                    self._answer(number, answer, error_of(message))

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()

    async def end(self) -> None:
        """Cancel the running attempts and wait for them (the scheduler kills this process if that takes too long)."""
        tasks = [task for task, _ in self._running.values()]
        self._early_imports.close()
        for task, execution in self._running.values():
            execution.stop_requested = True
            task.cancel()
        self._health.close()
        self._triggers.stop_all()
        await asyncio.gather(*tasks, *self._tidying, self._triggers.left(), return_exceptions=True)

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[XComPairs]:
        """See TaskServices."""
        pairs: list[XComPairs] = await self._put(lambda number: XComCall(number, run, list(refs)))
        return pairs

    async def call(self, run: int, name: str, args: str) -> str:
        """See TaskServices."""
        answer: str = await self._put(lambda number: ServiceCall(number, run, name, args))
        return answer

    async def _put(self, call: Callable[[int], XComCall | ServiceCall]) -> Any:
        """Send a call with the next number and wait for its answer."""
        if self._transport is None or self._gone.is_set():
            raise ExecutorError("The scheduler is gone: it can no longer be asked.")
        self._asked += 1
        number = self._asked
        answer = self._calls[number] = self._loop.create_future()
        self._transport.write(frame(call(number)))
        try:
            return await answer
        except asyncio.CancelledError:
            self._transport.write(frame(Withdraw(number)))
            raise
        finally:
            self._calls.pop(number, None)

    def _answer(self, number: int, found: Any, error: Exception | None) -> None:
        answer = self._calls.get(number)
        if answer is None or answer.done():
            return  # the asking attempt was cancelled
        if error is None:
            answer.set_result(found)
        else:
            answer.set_exception(error)

    def _begin(self, attempt: Attempt) -> None:
        execution = execution_of(attempt, self, self._environment, blocking=self._blocking)
        execution.on_rendered = lambda fields: self._tell(FieldsRendered(attempt.key, fields))
        self._began[attempt.key] = leftovers.boot_time()
        self._running[attempt.key] = (self._loop.create_task(DrivenCoroutine(self._run(execution))), execution)
        self._health.turn_on()

    async def _run(self, execution: Execution) -> None:
        report = await execution.run(self._dags)
        task, _ = self._running.pop(execution.attempt.key)
        del self._began[execution.attempt.key]
        if has_children():
            self._tidying.add(task)
            await self._end_leftovers(execution.attempt)
            self._tidying.discard(task)
        self._done += 1
        if not self._ended:
            self._loop.call_soon(self._flush)
        self._ended.append((execution.attempt, report))

    async def _end_leftovers(self, attempt: Attempt) -> None:
        """End processes that carry the name of an attempt, and those started before all current and new attempts.

        Start times have the resolution of a kernel tick. If nothing runs, leftover processes are old enough one tick
        later.
        """
        for pause in (0.0, leftovers.TICK):
            await asyncio.sleep(pause)
            before = next(iter(self._began.values()), leftovers.boot_time())
            if left := await asyncio.to_thread(_end_leftovers, name_of(attempt.key), before):
                log = self._log_of(attempt)
                log.line("WARNING", "aiosched", left.text("the attempt"))
                log.close()
            if self._began or not has_children():
                break

    def _log_of(self, attempt: Attempt) -> AttemptLog:
        return self._environment.new_log(attempt)

    def _flush(self) -> None:
        ended, self._ended = self._ended, []
        reports = [report for _, report in ended]
        oldest = next(iter(self._began.values()), None)
        retire: str | None
        if not self._state.after([attempt for attempt, _ in ended], oldest, leftovers.boot_time()):
            retire = "an attempt changed its process permanently"
        elif self._done >= self._config.max_attempts:
            retire = f"it has run {self._done:,} attempts"
        elif peak_memory() - self._memory > self._config.max_growth_bytes:
            retire = "its memory has grown"
        else:
            retire = self._what_hangs
        if self._transport is None or self._gone.is_set():
            return
        batch: list[Report] = []
        size = 0
        for report in reports:
            batch.append(report)
            size += sum(len(xcom.value) for xcom in report.xcoms)
            if size > _LARGE:
                self._transport.write(frame(Ended(batch, retire)))
                batch, size = [], 0
        if batch:
            self._transport.write(frame(Ended(batch, retire)))

    @property
    def _what_hangs(self) -> str | None:
        """Why this worker is to be replaced, if an import hangs: another process may do better with the file."""
        return None if self._dags.hanging is None else f"the import of {self._dags.hanging} does not end"

    def _warmed(self, number: int, seconds: float, error: str | None) -> None:
        self._tell(Warmed(number, seconds, error, self._what_hangs))

    def _tell(self, message: Fired | FieldsRendered | Warmed) -> None:
        if self._transport is not None and not self._gone.is_set():
            self._transport.write(frame(message))

    def let_go(self, descriptor: int) -> None:
        """In a child that a task has forked: it ends where it would go on as this worker, and run others' attempts.

        So does one that becomes another program, until then. The coroutines are kept: one that is dropped runs what its
        `finally` says. The descriptor is that of the socket, which the loop would not close here.
        """
        os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), descriptor, inheritable=False)
        for task, _ in self._running.values():
            coroutine = cast("DrivenCoroutine[None]", task.get_coro())
            self._left_behind.append(coroutine.inner)
            coroutine.inner = _end_child()
        read_nothing(self._loop)
        self._loop.call_soon(os._exit, 0)

    def _cancel(self, key: AttemptKey) -> None:
        if key in self._running:
            task, execution = self._running[key]
            execution.stop_requested = True
            task.cancel()


async def _end_child() -> None:
    os._exit(0)


def _end_leftovers(name: str, before: float) -> leftovers.EndedProcesses:
    """End processes that carry the name of an attempt, and those started before the given time."""
    return leftovers.end_named(name) + leftovers.end_children(before=before)


async def _work(
    sock: socket.socket,
    sign: LoopHeartbeat,
    config: WorkerConfig,
    lease: LeaseDeadline,
    log_files: RemoteLogFiles | None,
) -> None:
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: None)  # the scheduler requests that by closing the socket
    reset_in_children(signal.SIGTERM)
    worker = AsyncWorker(config, gone, sign, lease, log_files)
    os.register_at_fork(after_in_child=partial(worker.let_go, sock.fileno()))
    transport, _ = await loop.create_unix_connection(lambda: worker, sock=sock)
    try:
        await gone.wait()
        await worker.end()
    finally:
        transport.close()


def run_worker(
    sock: socket.socket,
    sign: int,
    config: WorkerConfig,
    lease: LeaseDeadline,
    log_files: RemoteLogFiles | None = None,
) -> None:
    """The main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    capture_process(config.log_level)
    with asyncio.Runner(loop_factory=new_marking_loop) as runner:
        loop = runner.get_loop()
        asyncio.set_event_loop(loop)
        work = loop.create_task(_work(sock, LoopHeartbeat(sign), config, lease, log_files))
        while not work.done():
            try:
                loop.run_until_complete(work)
            except (SystemExit, KeyboardInterrupt):  # from a user's own asyncio task: ends that task, not this process
                if work.done():
                    raise
