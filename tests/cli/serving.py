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
def living(server: Server, folder: Path, *words: str) -> Iterator[Cli]:
    """The command line beside one `aiosched serve` for many tests, on a database of its own; it must end well."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        dsn = runner.run(server.create(TEMPLATE))
        with serve(folder, dsn, "--grace", "0", *words) as process:
            wait_for(process, "ready")
            yield Cli(dsn, folder / "home")
            said = stop(process)
            assert process.returncode == 0, said
        runner.run(server.drop(dsn))


def stop(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> str:
    """Ask it to stop, wait for its end, return what it said on stderr."""
    process.send_signal(number)
    return process.communicate(timeout=60)[1]


def wait_for(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    """Read stdout up to the line of `event`."""
    assert process.stdout is not None
    for line in process.stdout:
        if (found := json.loads(line))["event"] == event:
            return dict(found)
    _, said = process.communicate()
    raise AssertionError(f"serve ended with {process.returncode} before {event}: {said}")
