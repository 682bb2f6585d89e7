"""`aiosched serve` in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cli.conftest import Cli
from tests.databases import TEMPLATE, Server


@contextlib.contextmanager
def serve(folder: Path, dsn: str, *words: str, web: bool = False) -> Iterator[subprocess.Popen[str]]:
    """`aiosched serve` on `dsn`, its output in pipes; killed at the end if it still lives."""
    words = words if web or "--role" in words else (*words, "--no-web")
    (folder / "dags").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "aiosched", "serve", "--slots", "2", "-o", "json", *words]
    env = {**os.environ, "AIOSCHED_DSN": dsn, "AIOSCHED_HOME": str(folder / "home")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, env=env, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def living(server: Server, folder: Path, *words: str, read: bool = True) -> Iterator[Cli]:
    """The command line beside one `aiosched serve` for many tests, on a database of its own; it must end well.

    With `read` all DAG files have been read: never, if a bundle cannot be fetched.
    """
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        dsn = runner.run(server.create(TEMPLATE))
        with serve(folder, dsn, "--grace", "0", *words) as process:
            wait_for(process, "ready", read=read)
            yield Cli(dsn, folder / "home")
            said = stop(process)
            assert process.returncode == 0, said
        runner.run(server.drop(dsn))


def stop(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> str:
    """Ask it to stop, wait for its end, return what it said on stderr."""
    process.send_signal(number)
    return process.communicate(timeout=60)[1]


def wait_for(process: subprocess.Popen[str], event: str, *, read: bool = True) -> dict[str, Any]:
    """Read stdout up to the line of `event`. For `ready` and `dags` all DAG files must have been read, with `read`.

    The banner waits for them for five seconds; on a busy machine they are told once more, after it.
    """
    assert process.stdout is not None
    is_read, found = True, None
    for line in process.stdout:
        told = json.loads(line)
        if told["event"] == "dags":
            is_read = "still parsing" not in told["text"]
        if told["event"] == event:
            found = told
        if found is not None and (is_read or not read or event not in ("ready", "dags")):
            return dict(found)
    if found is not None:  # it has ended before they were read
        return dict(found)
    _, said = process.communicate()
    raise AssertionError(f"serve ended with {process.returncode} before {event}: {said}")
