"""Tasks that run a shell command."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aiosched.authoring.operator import BaseOperator
from aiosched.errors import CommandFailed, SkipTask

if TYPE_CHECKING:
    from aiosched.authoring.context import Context

KILL_AFTER: Final = 10.0  # seconds between TERM and KILL


class BashOperator(BaseOperator):
    """Runs `bash_command` in bash; the last line of its output is pushed as XCom.

    The command has its own process group, which is stopped as a whole. It runs in a temporary folder unless
    `cwd` is given. With `env` it sees only those variables, with `append_env` those besides the worker's. Exit
    code `skip_on_exit_code` (one or several, default 99) skips the task, any other but 0 fails it; the code
    of a killed command is minus the signal's number.
    """

    template_fields: ClassVar[Sequence[str]] = ("bash_command", "env", "cwd")
    template_ext: ClassVar[Sequence[str]] = (".sh", ".bash")
    template_fields_renderers: ClassVar[Mapping[str, str]] = {"bash_command": "bash", "env": "json"}
    ui_color = "#f0ede4"

    def __init__(
        self,
        *,
        bash_command: str | Any,
        env: Mapping[str, str] | None = None,
        append_env: bool = False,
        output_encoding: str = "utf-8",
        skip_on_exit_code: int | Container[int] | None = 99,
        cwd: str | None = None,
        output_processor: Callable[[str], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.bash_command = bash_command
        self.env = env
        self.append_env = append_env
        self.output_encoding = output_encoding
        self.skip_on_exit_code: Container[int] = (
            (skip_on_exit_code,) if isinstance(skip_on_exit_code, int) else skip_on_exit_code or ()
        )
        self.cwd = cwd
        self.output_processor = output_processor
        self._command: BashCommand | None = None

    async def execute(self, context: Context) -> Any:
        """Run the command to its end; raises SkipTask or CommandFailed by its exit code."""
        self._command = BashCommand(
            str(self.bash_command),
            env=self.env,
            append_env=self.append_env,
            cwd=self.cwd,
            encoding=self.output_encoding,
            log=self.log,
            context=context,
        )
        return self._result(*await self._command.run())

    def on_kill(self) -> None:
        """Stop the command and everything it started."""
        if self._command is not None:
            self._command.stop()

    def _result(self, code: int, last: str) -> Any:
        if code in self.skip_on_exit_code:
            raise SkipTask(f"the command ended with exit code {code}, which means skip")
        if code != 0:
            ending = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise CommandFailed(f"The command of task {self.task_id!r} {ending}. Its last line: {last!r}")
        return self.output_processor(last) if self.output_processor is not None else last


@dataclass(kw_only=True)
class BashCommand:
    """One run of a command in bash, in a process group of its own; its output is logged line by line."""

    command: str = field(kw_only=False)
    context: Context
    log: logging.Logger
    env: Mapping[str, str] | None = None
    append_env: bool = False
    cwd: str | None = None
    encoding: str = "utf-8"
    _group: int | None = None

    async def run(self) -> tuple[int, str]:
        """Run it to its end; its exit code (minus the signal's number when it was killed) and its last line."""
        with contextlib.ExitStack() as stack:
            folder = self.cwd or stack.enter_context(tempfile.TemporaryDirectory(prefix="aiosched-"))
            process = await asyncio.create_subprocess_exec(
                shutil.which("bash") or "/bin/bash",
                "-c",
                self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=folder,
                env=self._environment(),
                start_new_session=True,
            )
            self._group = process.pid
            try:
                last = await self._follow(process)
                return await process.wait(), last
            finally:
                await _stop_group(process)

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

    def _log_line(self, line: bytes) -> str:
        text = line.decode(self.encoding, errors="backslashreplace").rstrip()
        self.log.info("%s", text)
        return text

    def _environment(self) -> dict[str, str]:
        """The variables of the command: chosen ones, and which attempt it is."""
        given = {name: str(value) for name, value in (self.env or {}).items()}
        chosen = {**os.environ, **given} if self.env is None or self.append_env else given
        ti, logical_date = self.context["ti"], self.context.get("logical_date")
        return chosen | {
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
        async with asyncio.timeout(KILL_AFTER):
            await process.wait()
    finally:
        _signal_group(process.pid, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
