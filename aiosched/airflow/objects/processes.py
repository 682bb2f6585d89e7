"""`airflow.utils.process_utils`: other processes, and their environment."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence

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


def execute_in_subprocess(cmd: Sequence[str], cwd: str | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a command, its output in the log. Raises CalledProcessError when it fails."""
    _log.info("running: %s", shlex.join(cmd))
    with subprocess.Popen(
        list(cmd), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd, env=env
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            _log.info("%s", line.rstrip())
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(cmd))
