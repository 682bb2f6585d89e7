"""A worker process for plain functions: one attempt at a time, in its main thread.

The main thread waits for work, runs it and reports; there is no other thread. So signals and alarms reach the task
itself: SIGALRM ends it at its execution_timeout, and SIGTERM (which the scheduler sends to the worker's whole process
group) raises AttemptStopped in it, so that its `finally` blocks and `on_kill` run.

Between two attempts the worker reverts changes that a task made to its process (process_state.py), including
descriptors 1 and 2. Processes that the attempt left behind are ended before the end of the attempt is reported. A
worker asks to be replaced if there was such a process, if a change cannot be reverted, if its memory has grown, and
after `max_attempts`.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from types import FrameType
from typing import Final, NoReturn

from aiosched import leftovers
from aiosched.core.values.masking import secrets
from aiosched.core.values.messages import Attempt, Report, RunInfo, XComPairs, XComRef
from aiosched.errors import AttemptStopped, ExecutorError
from aiosched.executors.attempt.attempts import execution_of
from aiosched.executors.attempt.dag_cache import FileDags, asking, fetching
from aiosched.executors.attempt.failures import reason_of
from aiosched.executors.attempt.interrupts import alarm, interrupts
from aiosched.executors.attempt.log_opening import RemoteLogFiles
from aiosched.executors.attempt.logs import AttemptLog, capture_process, current_log
from aiosched.executors.attempt.runner import Execution, drive
from aiosched.executors.worker.claim_pipe import draw
from aiosched.executors.worker.direct_output import DirectOutput
from aiosched.executors.worker.lease_deadline import LeaseDeadline
from aiosched.executors.worker.process_parts import parts_of_this_process
from aiosched.executors.worker.process_state import ProcessState
from aiosched.executors.worker.processes import has_children, peak_memory
from aiosched.executors.worker.protocol import (
    Ended,
    FieldsRendered,
    FrameReader,
    Ready,
    RunAttempts,
    ServiceCall,
    ServiceResult,
    Warm,
    Warmed,
    Withdraw,
    WorkerConfig,
    XComCall,
    XComResult,
    environment_of,
    error_of,
    frame,
)
from aiosched.forks import reset_in_children

_READ: Final = 262_144


class SchedulerGone(BaseException):
    """The other end of the socket is closed, or our end, in a child that a task forked."""


class Channel:
    """The blocking socket to the scheduler. It is also the worker's TaskServices."""

    def __init__(self, sock: socket.socket, claim_pipe: int, lease: LeaseDeadline | None = None) -> None:
        sock.setblocking(True)
        self._socket, self._claim_pipe, self._lease = sock, claim_pipe, lease
        self._reader = FrameReader()
        self._warms: deque[Warm] = deque()
        self._line: deque[tuple[int, Attempt]] = deque()  # received, with their numbers; some taken back
        self._answers: deque[XComResult | ServiceResult] = deque()
        self._asking = threading.Lock()  # a task can ask from its own threads
        self._asked = 0

    def next_work(self) -> Attempt | Warm:
        """Wait for the next attempt and claim it; while there is none, a file to import. Raises SchedulerGone."""
        while True:
            try:
                ticket = draw(self._claim_pipe)
            except OSError:
                raise SchedulerGone from None
            if ticket is not None:
                break
            self._line.clear()
            if self._warms:
                return self._warms.popleft()
            self._read()
        while True:
            while not self._line:
                self._read()
            number, attempt = self._line.popleft()
            if number == ticket:
                if self._lease is not None and self._lease.has_passed:  # this process stood still: others may run it
                    raise SchedulerGone
                return attempt

    def await_end(self) -> NoReturn:
        """Begin no more attempts; raises SchedulerGone when the scheduler dismisses this worker."""
        while True:
            self._read()

    def _read(self) -> None:
        """Read messages, waiting for them. Raises SchedulerGone."""
        try:
            data = self._socket.recv(_READ)
        except OSError:
            data = b""
        if not data:
            raise SchedulerGone
        for message in self._reader.feed(data):
            if isinstance(message, RunAttempts):
                self._line.extend(enumerate(message.attempts, message.first))
            elif isinstance(message, XComResult | ServiceResult):
                self._answers.append(message)
            elif isinstance(message, Warm):
                self._warms.append(message)

    def send(self, message: Ready | Ended | Warmed | FieldsRendered | XComCall | ServiceCall | Withdraw) -> None:
        """Send a message; raises SchedulerGone."""
        try:
            self._socket.sendall(frame(message))
        except OSError:
            raise SchedulerGone from None

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[XComPairs]:
        """See TaskServices. Blocks."""
        answer = self._put(lambda number: XComCall(number, run, list(refs)))
        if not isinstance(answer, XComResult):
            raise ExecutorError(f"The scheduler answered {type(answer).__name__}: this is a bug in aiosched.")
        if answer.error is not None:
            raise ExecutorError(answer.error)
        return answer.pairs

    async def call(self, run: int, name: str, args: str) -> str:
        """See TaskServices. Blocks."""
        reply = self._put(lambda number: ServiceCall(number, run, name, args))
        if not isinstance(reply, ServiceResult):
            raise ExecutorError(f"The scheduler answered {type(reply).__name__}: this is a bug in aiosched.")
        if (error := error_of(reply)) is not None:
            raise error
        return reply.answer

    def _put(self, call: Callable[[int], XComCall | ServiceCall]) -> XComResult | ServiceResult:
        """Send a call with the next number and wait for its answer, unless interrupted by a signal."""
        with self._asking:
            self._asked += 1
            number = self._asked
            try:
                with interrupts.shield():
                    self.send(call(number))
                while True:
                    while self._answers:
                        if (answer := self._answers.popleft()).number == number:
                            return answer
                    self._await_message()
                    with interrupts.shield():
                        self._read()
            except SchedulerGone:
                raise
            except BaseException:
                with interrupts.shield():
                    self.send(Withdraw(number))
                raise

    def _await_message(self) -> None:
        """Wait until the socket is readable. Raises SchedulerGone, and errors of signal handlers."""
        descriptor = self._socket.fileno()
        if descriptor < 0:
            raise SchedulerGone
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()


class Housekeeping:
    """Logs what attempts write to descriptors 1 and 2, and reverts their changes to the process."""

    def __init__(self, output: DirectOutput) -> None:
        self._output = output.descriptor
        self._connect()
        self.state: ProcessState = ProcessState(parts_of_this_process())

    def after(self, log: AttemptLog) -> bool:
        """Log direct writes to the descriptors (child processes, C code) and revert changes; False if some remain."""
        for stream in (sys.stdout, sys.stderr, sys.__stdout__):  # set by the task; that of its threads
            if type(stream) is io.TextIOWrapper:
                _flush(stream, log)
        try:
            unchanged = os.path.samestat(os.fstat(1), os.fstat(2)) and os.fstat(1).st_size == 0
        except OSError:
            unchanged = False
        if not unchanged:
            self._collect(log)
        return self.state.tidy([log])

    def after_import(self) -> bool:
        """Drop what an import without an attempt wrote, and revert its changes; False if some remain."""
        os.ftruncate(self._output, 0)
        self._connect()
        return self.state.tidy([])

    def _collect(self, log: AttemptLog) -> None:
        size = os.fstat(self._output).st_size
        position = 0
        while position < size and (piece := os.pread(self._output, 1_048_576, position)):
            piece = piece[: piece.rfind(b"\n") + 1] or piece  # whole lines, so that no secret is cut in two
            log.raw(piece)
            position += len(piece)
        os.ftruncate(self._output, 0)
        log.close()
        self._connect()

    def _connect(self) -> None:
        os.dup2(self._output, 1)
        os.dup2(self._output, 2)


def _flush(stream: io.TextIOWrapper, log: AttemptLog) -> None:
    """Write the text that a stream still holds; if it is above a RoutedStream, into this log."""
    token = current_log.set(log)
    with contextlib.suppress(Exception):  # such as one that the task has closed
        stream.flush()
    current_log.reset(token)


class Worker:
    """Runs attempts until the scheduler closes the socket."""

    def __init__(
        self, channel: Channel, config: WorkerConfig, output: DirectOutput, log_files: RemoteLogFiles | None = None
    ) -> None:
        self._channel, self._config = channel, config
        self._environment = environment_of(config, log_files)
        self._dags = FileDags(
            places=config.places,
            import_timeout=config.import_timeout,
            time_limit=alarm,
            defaults=config.defaults,
            owns_process=True,
        )
        self._dags.fetch = fetching(lambda *call: drive(channel.call(*call)))
        self._dags.ask = asking(lambda *call: drive(channel.call(*call)))
        self._running: Execution | None = None
        self._done = 0
        self._left_children = self._is_changed = False
        self._memory = peak_memory()
        signal.signal(signal.SIGTERM, self._on_term)
        reset_in_children(signal.SIGTERM)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        capture_process(config.log_level)
        self._housekeeping = Housekeeping(output)
        secrets.listener = output.remember
        self._dags.after_import = self._housekeeping.state.accept_imports

    def serve(self) -> None:
        """Run attempts; returns when the scheduler is gone or has no more work for this worker."""
        self._channel.send(Ready())
        while True:
            work = self._channel.next_work()
            began, imported = time.monotonic(), self._dags.seconds
            if isinstance(work, Warm):
                error = self._warm(work.run)
                retire = self._why_retire("an import")
                self._channel.send(Warmed(work.number, time.monotonic() - began, error, retire))
            else:
                report = self._execute(work)
                self._done += 1
                retire = self._why_retire("the attempt")
                self._channel.send(Ended([report], retire, time.monotonic() - began, self._dags.seconds - imported))
            if retire is not None:
                self._channel.await_end()

    def _execute(self, attempt: Attempt) -> Report:
        channel = self._channel
        execution = execution_of(attempt, channel, self._environment, blocking=drive, time_limit=alarm)
        execution.on_rendered = lambda fields: self._tell_rendered(attempt, fields)
        self._running = execution
        try:
            return copy_context().run(drive, execution.run(self._dags))
        finally:
            self._running = None
            log = self._environment.new_log(attempt)
            self._left_children = has_children()
            if self._left_children and (left := leftovers.end_children()):
                log.line("WARNING", "aiosched", left.text("the attempt"))
            self._is_changed = not self._housekeeping.after(log)
            log.close()

    def _warm(self, run: RunInfo) -> str | None:
        """Import a file; returns why that is not possible. What it writes has no log, and is dropped."""
        try:
            copy_context().run(drive, self._dags.warm(run))
        except SchedulerGone:
            raise
        except BaseException as error:
            return reason_of(error)
        finally:
            self._left_children = has_children()
            if self._left_children:
                leftovers.end_children()
            self._is_changed = not self._housekeeping.after_import()
        return None

    def _tell_rendered(self, attempt: Attempt, fields: str) -> None:
        with interrupts.shield():
            self._channel.send(FieldsRendered(attempt.key, fields))

    def _why_retire(self, what: str) -> str | None:
        if self._left_children:
            return f"{what} left child processes behind"
        if self._is_changed:
            return f"{what} changed its process permanently"
        if self._done >= self._config.max_attempts:
            return f"it has run {self._done:,} attempts"
        if peak_memory() - self._memory > self._config.max_growth_bytes:
            return "its memory has grown"
        return None

    def _on_term(self, signum: int, frame: FrameType | None) -> None:
        running = self._running
        if running is None:
            return  # the scheduler closes the socket of an idle worker; a stray TERM is ignored
        if running.interruptible:
            running.interruptible = False  # only once: from now on the task cleans up
            running.stop_requested = True
            interrupts.strike(AttemptStopped("was told to stop by SIGTERM"))


def run_worker(
    sock: socket.socket,
    claim_pipe: int,
    config: WorkerConfig,
    lease: LeaseDeadline,
    log_files: RemoteLogFiles | None,
    output: DirectOutput,
) -> None:
    """The main function of a worker process."""

    def let_go() -> None:  # in a task's forked child; ends one that continues as the worker
        sock.close()
        with contextlib.suppress(OSError):
            os.close(claim_pipe)
        secrets.listener = output.distrust

    os.register_at_fork(after_in_child=let_go)
    try:
        Worker(Channel(sock, claim_pipe, lease), config, output, log_files).serve()
    except SchedulerGone:
        logging.shutdown()
    finally:
        sock.close()
