"""Commands that tasks run: each in a process group of its own, its output logged line by line.

What a command started and left behind is ended with it. In the host's own process (the inline executor) a guard sees to
that when the host is killed; a worker's processes are found and ended without one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from aiosched import leftovers
from aiosched.timeouts import clean_up_timeout

if TYPE_CHECKING:
    from aiosched.authoring.context import Context

KILL_AFTER: Final = 10.0  # seconds between TERM and KILL


class CommandGuard(Protocol):
    """Whoever ends commands when this process is killed. `mark`: what their processes are known by."""

    mark: str

    def stand(self) -> None: ...
    def begun(self, group: int) -> None: ...
    def ended(self, group: int) -> None: ...


current_guard: ContextVar[CommandGuard | None] = ContextVar("aiosched_command_guard", default=None)


@dataclass(kw_only=True)
class Command:
    """One run of a program. `env` is all that it sees, but for marks of ours; `cwd` a temporary folder unless given."""

    arguments: Sequence[str]
    env: Mapping[str, str]
    log: logging.Logger
    cwd: str | None = None
    encoding: str = "utf-8"
    _group: int | None = None

    async def run(self) -> tuple[int, str]:
        """Run it to its end; its exit code (minus the signal's number when it was killed) and its last line.

        When the caller is cancelled, the group gets TERM, then KILL.
        """
        guard, name = current_guard.get(), uuid.uuid4().hex
        marks = {leftovers.COMMAND: name}
        if mark := guard.mark if guard is not None else os.environ.get(leftovers.MARK):
            marks[leftovers.MARK] = mark
        with contextlib.ExitStack() as stack:
            folder = self.cwd or stack.enter_context(tempfile.TemporaryDirectory(prefix="aiosched-"))
            if guard is not None:
                guard.stand()
            process = await asyncio.create_subprocess_exec(
                *self.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=folder,
                env={**self.env, **marks},
                start_new_session=True,
            )
            self._group = process.pid
            if guard is not None:
                guard.begun(process.pid)
            try:
                last = await self._follow(process)
                return await process.wait(), last
            finally:
                try:
                    await _stop_group(process)
                finally:
                    await self._end_leftovers(name)
                    if guard is not None:
                        guard.ended(process.pid)

    def stop(self) -> None:
        """Ask it and everything it started to end."""
        if self._group is not None:
            _signal_group(self._group, signal.SIGTERM)

    async def _follow(self, process: asyncio.subprocess.Process) -> str:
        """Log each line of output as it comes; returns the last one."""
        assert process.stdout is not None
        rest, last = b"", ""
        while chunk := await process.stdout.read(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                last = self._log_line(line)
        return self._log_line(rest) if rest else last

    async def _end_leftovers(self, name: str) -> None:
        """End what carries the name of the command: nothing of it lives longer than the command."""
        if leftovers.inherits_orphans() and not leftovers.children_of(os.getpid()):
            return
        if left := await asyncio.to_thread(leftovers.end_named, name):
            self.log.warning("%s", left.text("the command"))

    def _log_line(self, line: bytes) -> str:
        text = line.decode(self.encoding, errors="backslashreplace").rstrip()
        self.log.info("%s", text)
        return text


def describe_code(code: int) -> str:
    """How a command ended, for people: `ended with exit code 3`, `was killed by SIGTERM`."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def command_environment(context: Context, given: Mapping[str, str] | None, *, inherit: bool) -> dict[str, str]:
    """The variables of a command: those given, besides the worker's with `inherit`, and which attempt it is."""
    ti, logical_date = context["ti"], context.get("logical_date")
    return {
        **(os.environ if inherit else {}),
        **{name: str(value) for name, value in (given or {}).items()},
        "AIRFLOW_CTX_DAG_ID": ti.dag_id,
        "AIRFLOW_CTX_TASK_ID": ti.task_id,
        "AIRFLOW_CTX_DAG_RUN_ID": ti.run_id,
        "AIRFLOW_CTX_TRY_NUMBER": str(ti.try_number),
        "AIRFLOW_CTX_LOGICAL_DATE": logical_date.isoformat() if logical_date is not None else "",
    }


async def _stop_group(process: asyncio.subprocess.Process) -> None:
    """TERM, then KILL, for a command that still runs, as when its attempt was cancelled."""
    if process.returncode is not None:
        return
    _signal_group(process.pid, signal.SIGTERM)
    try:
        async with clean_up_timeout(KILL_AFTER):
            await process.wait()
    finally:
        _signal_group(process.pid, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
