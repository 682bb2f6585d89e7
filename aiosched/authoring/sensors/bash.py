"""A sensor that runs a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.operators.bash import bash_arguments
from aiosched.authoring.operators.sensor import BaseSensorOperator
from aiosched.authoring.operators.subprocesses import ProcessCommand, command_environment, describe_code
from aiosched.errors import CommandFailed

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class BashSensor(BaseSensorOperator):
    """Waits until `bash_command` ends with exit code 0.

    Any other code means "not yet"; with `retry_exit_code` only that code does, and others fail the sensor.
    """

    template_fields: ClassVar[Sequence[str]] = ("bash_command", "env")
    template_ext: ClassVar[Sequence[str]] = (".sh", ".bash")

    def __init__(
        self,
        *,
        bash_command: str | Any,
        env: Mapping[str, str] | None = None,
        output_encoding: str = "utf-8",
        retry_exit_code: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.bash_command = bash_command
        self.env = env
        self.output_encoding = output_encoding
        self.retry_exit_code = retry_exit_code
        self._command: ProcessCommand | None = None

    @for_plain_callers
    async def poke(self, context: Context) -> bool:
        """Run the command once."""
        environment = command_environment(context, self.env, inherit=self.env is None)
        self._command = ProcessCommand(
            arguments=bash_arguments(self.bash_command), env=environment, encoding=self.output_encoding, log=self.log
        )
        code, last = await self._command.run()
        if code != 0 and self.retry_exit_code is not None and code != self.retry_exit_code:
            raise CommandFailed(
                f"The command of sensor {self.task_id!r} {describe_code(code)}. Its last line: {last!r}"
            )
        return code == 0

    def on_kill(self) -> None:
        """Stop the command and everything it started."""
        super().on_kill()
        if self._command is not None:
            self._command.stop()
