"""Commands of tasks: each runs in its own process group, and its output is logged line by line.

Processes that a command leaves behind are ended with it. If the process of the inline executor is killed, a guard ends
them; those of a killed worker are found and ended without a guard.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from aiosched import leftovers
from aiosched.scratch import scratch_folder
from aiosched.timeouts import clean_up_timeout

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context

KILL_AFTER: Final = 10.0  # seconds between TERM and KILL
EXPLAINED_AFTER = 10.0  # seconds after the end of a command until the log says why its task goes on


class CommandGuard(Protocol):
    """Ends the commands when this process is killed. `mark` identifies their processes."""

    mark: str

    def stand(self) -> None: ...
    def begun(self, group: int) -> None: ...
    def ended(self, group: int) -> None: ...


current_guard: ContextVar[CommandGuard | None] = ContextVar("aiosched_command_guard", default=None)


@dataclass(kw_only=True)
class ProcessCommand:
    """One run of a program. Its environment is `env` and marks of aiosched; `cwd` is by default a temporary folder."""

    arguments: Sequence[str]
    env: Mapping[str, str]
    log: logging.Logger
    cwd: str | None = None
    encoding: str = "utf-8"
    _group: int | None = None

    async def run(self) -> tuple[int, str]:
        """Run it; the exit code (minus the signal's number if it was killed) and the last line of output.

        When the caller is cancelled, the process group gets TERM, then KILL.
        """
        guard, name = current_guard.get(), uuid.uuid4().hex
        marks = {leftovers.COMMAND: name}
        if mark := _mark():
            marks[leftovers.MARK] = mark
        with contextlib.ExitStack() as stack:
            folder = self.cwd or stack.enter_context(command_folder())
            if guard is not None:
                guard.stand()
            output, theirs = await _pipe(stack)
            try:
                process = subprocess.Popen(  # noqa: ASYNC220  it returns within a millisecond
                    self.arguments,
                    stdin=subprocess.DEVNULL,
                    stdout=theirs,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    env={**self.env, **marks},
                    start_new_session=True,
                )
            finally:
                os.close(theirs)
            self._group = process.pid
            if guard is not None:
                guard.begun(process.pid)
            notice = asyncio.create_task(self._explain_wait(process))
            try:
                last = await self._follow(output)
                return await _wait_for_exit(process), last
            finally:
                notice.cancel()
                try:
                    await _stop_group(process)
                finally:
                    await self._end_leftovers(name)
                    if guard is not None:
                        guard.ended(process.pid)

    def stop(self) -> None:
        """Send TERM to the process group."""
        if self._group is not None:
            _signal_group(self._group, signal.SIGTERM)

    async def _follow(self, output: asyncio.StreamReader) -> str:
        """Log each line of output until all writers have closed the pipe; the last line."""
        rest, last = b"", ""
        while chunk := await output.read(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                last = self._log_line(line)
        return self._log_line(rest) if rest else last

    async def _explain_wait(self, process: subprocess.Popen[bytes]) -> None:
        """Say why the task goes on if the output stays open long after the end of the command."""
        if not await _has_ended(process):
            return
        await asyncio.sleep(EXPLAINED_AFTER)
        self.log.warning(
            "the command itself has ended, but processes that it has started still hold its output: the task waits for "
            "them. Let the command wait for them, or end them, or send their output to a file."
        )

    async def _end_leftovers(self, name: str) -> None:
        """End the processes that the command has left behind; they are marked with `name`."""
        if leftovers.inherits_orphans() and not leftovers.children_of(os.getpid()):
            return
        if left := await asyncio.to_thread(leftovers.end_named, name):
            self.log.warning("%s", left.text("the command"))

    def _log_line(self, line: bytes) -> str:
        text = line.decode(self.encoding, errors="backslashreplace").rstrip()
        self.log.info("%s", text)
        return text


def command_folder() -> tempfile.TemporaryDirectory[str]:
    """A new scratch folder for a command, for a `with`; it is removed also when this process is killed."""
    return scratch_folder(_mark() or leftovers.new_mark())


def _mark() -> str | None:
    """The mark of the scheduler that runs this task, if one does."""
    guard = current_guard.get()
    return guard.mark if guard is not None else os.environ.get(leftovers.MARK)


def describe_code(code: int) -> str:
    """How a command ended, as text: `ended with exit code 3`, `was killed by SIGTERM`."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def command_environment(context: Context, given: Mapping[str, str] | None, *, inherit: bool) -> dict[str, str]:
    """The environment of a command: the worker's with `inherit`, the given variables, and those of the attempt.

    Tests call operators with an empty context.
    """
    environment = {**(os.environ if inherit else {}), **{name: str(value) for name, value in (given or {}).items()}}
    if (ti := context.get("ti")) is None:
        return environment
    logical_date = context.get("logical_date")
    return environment | {
        "AIRFLOW_CTX_DAG_ID": ti.dag_id,
        "AIRFLOW_CTX_TASK_ID": ti.task_id,
        "AIRFLOW_CTX_DAG_RUN_ID": ti.run_id,
        "AIRFLOW_CTX_TRY_NUMBER": str(ti.try_number),
        "AIRFLOW_CTX_LOGICAL_DATE": logical_date.isoformat() if logical_date is not None else "",
    }


async def _pipe(stack: contextlib.ExitStack) -> tuple[asyncio.StreamReader, int]:
    """The reader of a command's output, and the descriptor to which the command writes."""
    reader, loop = asyncio.StreamReader(), asyncio.get_running_loop()
    ours, theirs = os.pipe()
    try:
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", buffering=0)
        )
    except BaseException:
        os.close(theirs)
        raise
    stack.callback(transport.close)
    return reader, theirs


async def _wait_for_exit(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process; its exit code.

    asyncio's subprocesses are not used: with uvloop a child inherits duplicates of its pipes, so a process that a
    command left behind would keep the pipe open, and with it the attempt, although it had closed its output.
    """
    if not await _has_ended(process):
        ended = asyncio.Event()
        threading.Thread(target=_signal_end, args=(process, asyncio.get_running_loop(), ended), daemon=True).start()
        await ended.wait()
    return _exit_code(process)


async def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait for its end, and leave its exit code to others; False at once where that is not possible."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # macOS, old kernels
        return False
    try:
        loop.add_reader(descriptor, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return True


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that has ended. `Popen.wait` returns 0 if it was already waited for."""
    if process.returncode is None:
        try:
            _, status = os.waitpid(process.pid, 0)
        except ChildProcessError:
            process.returncode = 255
            raise ChildProcessError(
                f"The exit code of process {process.pid} is not known: something else in this worker has waited for it."
            ) from None
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def _signal_end(process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(ended.set)


async def _stop_group(process: subprocess.Popen[bytes]) -> None:
    """TERM, then KILL, for a command that still runs because its attempt was cancelled."""
    if process.returncode is not None:
        return
    _signal_group(process.pid, signal.SIGTERM)
    with contextlib.suppress(ChildProcessError):  # it has ended, and other code has waited for it
        try:
            async with clean_up_timeout(KILL_AFTER):
                await _wait_for_exit(process)
        except TimeoutError:
            pass  # it ignores TERM
        finally:
            if process.returncode is None:
                _signal_group(process.pid, signal.SIGKILL)
                await _wait_for_exit(process)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
