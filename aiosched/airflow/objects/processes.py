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


def prepare_virtualenv(
    venv_directory: str,
    python_bin: str,
    system_site_packages: bool,
    requirements: Sequence[str] | None = None,
    requirements_file_path: str | None = None,
    pip_install_options: Sequence[str] | None = None,
    **_: object,
) -> str:
    """Make a virtual environment with these packages, and return the path of its Python.

    Raises ValueError when both kinds of requirements are given, and CalledProcessError.
    """
    if requirements is not None and requirements_file_path is not None:
        raise ValueError("requirements and requirements_file_path exclude each other: give one of them.")
    options = ["--system-site-packages"] if system_site_packages else []
    execute_in_subprocess([python_bin, "-m", "venv", venv_directory, *options])
    python = f"{venv_directory}/bin/python"
    wanted = ["-r", requirements_file_path] if requirements_file_path else list(requirements or ())
    if wanted:
        execute_in_subprocess([python, "-m", "pip", "install", *(pip_install_options or ()), *wanted])
    return python
