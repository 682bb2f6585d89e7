"""`airflow.utils.process_utils`: other processes, and their environment."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_log = logging.getLogger("aiosched.task.subprocess")


@contextlib.contextmanager
def patch_environ(new_env_variables: Mapping[str, str]) -> Iterator[None]:
    """In the block these environment variables are set, for the whole process."""
    before = {name: os.environ.get(name) for name in new_env_variables}
    os.environ.update(new_env_variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class SubprocessResult(NamedTuple):
    """How a command ended, and the last line that it wrote."""

    exit_code: int
    output: str


class SubprocessHook:
    """Runs commands."""

    def __init__(self, **kwargs: object) -> None:
        self.sub_process: subprocess.Popen[str] | None = None

    def run_command(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        output_encoding: str = "utf-8",
        cwd: str | None = None,
    ) -> SubprocessResult:
        """Run a command, its output in the log. `env` is its whole environment; without it, that of this process."""
        _log.info("running: %s", shlex.join(command))
        line = ""
        with subprocess.Popen(
            list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd, env=env,
            encoding=output_encoding, errors="backslashreplace",
        ) as self.sub_process:  # fmt: skip
            assert self.sub_process.stdout is not None
            for each in self.sub_process.stdout:
                line = each.rstrip()
                _log.info("%s", line)
        return SubprocessResult(self.sub_process.returncode, line)

    def send_sigterm(self) -> None:
        """End the command."""
        if self.sub_process is not None:
            self.sub_process.terminate()


def execute_in_subprocess(cmd: Sequence[str], cwd: str | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a command, its output in the log. Raises CalledProcessError when it fails."""
    result = SubprocessHook().run_command(cmd, env, cwd=cwd)
    if result.exit_code:
        raise subprocess.CalledProcessError(result.exit_code, list(cmd))
