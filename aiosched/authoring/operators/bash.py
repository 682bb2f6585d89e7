"""Tasks that run a shell command."""

from __future__ import annotations

import asyncio
import inspect
import shutil
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.operators.python import call_arguments
from aiosched.authoring.operators.subprocesses import ProcessCommand, command_environment, describe_code
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.authoring.tasks.rendering import render_value
from aiosched.errors import CommandFailed, SkipTask

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class BashOperator(BaseOperator):
    """Runs `bash_command` in bash; the last line of its output is pushed as XCom.

    The command has its own process group, which is stopped as a whole. It runs in a temporary folder unless
    `cwd` is given. With `env` it gets only those variables, with `append_env` also the worker's. Exit
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
        self._command: ProcessCommand | None = None

    @for_plain_callers
    async def execute(self, context: Context) -> Any:
        """Run the command; raises SkipTask or CommandFailed, depending on its exit code."""
        environment = command_environment(context, self.env, inherit=self.env is None or self.append_env)
        arguments = bash_arguments(self.bash_command)
        self._command = ProcessCommand(
            arguments=arguments, env=environment, cwd=self.cwd, encoding=self.output_encoding, log=self.log
        )
        code, last = await self._command.run()
        if code in self.skip_on_exit_code:
            raise SkipTask(f"the command ended with exit code {code}, which means skip")
        if code != 0:
            raise CommandFailed(f"The command of task {self.task_id!r} {describe_code(code)}. Its last line: {last!r}")
        return self.output_processor(last) if self.output_processor is not None else last

    def on_kill(self) -> None:
        """Stop the command and everything it started."""
        if self._command is not None:
            self._command.stop()


class DecoratedBashOperator(BashOperator):
    """Runs the command that a function returns. Made by `@task.bash`.

    With `render_returned` the command is a template, as in Airflow. Never use that with text from outside in it, such
    as `conf`: what looks like a template there would be rendered, and could become any command. Quoting does not help.
    """

    template_fields: ClassVar[Sequence[str]] = ("env", "cwd", "op_args", "op_kwargs")

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        render_returned: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(bash_command="", **kwargs)
        self.render_returned = render_returned
        self.python_callable = python_callable
        self.op_args: Collection[Any] = op_args if op_args is not None else ()
        self.op_kwargs: Mapping[str, Any] = op_kwargs if op_kwargs is not None else {}

    @for_plain_callers
    async def execute(self, context: Context) -> Any:
        """Call the function (plain or coroutine), then run what it returned."""
        command = self.python_callable(
            *self.op_args, **call_arguments(self.python_callable, self.op_args, self.op_kwargs, context)
        )
        if inspect.isawaitable(command):
            command = await command
        if not isinstance(command, str) or not command.strip():
            raise CommandFailed(f"The function of task {self.task_id!r} must return a command, not {command!r}.")
        if self.render_returned:
            command = await asyncio.to_thread(render_value, self, "bash_command", command, context)
        self.bash_command = command
        return await super().execute(context)


def bash_arguments(command: object) -> list[str]:
    """The arguments that start bash with a command."""
    return [shutil.which("bash") or "/bin/bash", "-c", str(command)]
