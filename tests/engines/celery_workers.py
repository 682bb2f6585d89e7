"""Celery workers of real processes, for tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from aiosched.config import Settings


class CeleryWorkers:
    """Workers by name, each a process with two slots that knows the settings from its environment."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self, name: str) -> dict[str, str]:
        celery = self.settings.celery
        assert celery.broker is not None
        assert celery.keys is not None
        return {
            **os.environ,
            "AIOSCHED_DAGS": str(self.settings.core.dags_folder),
            "AIOSCHED_HOME": str(self.folder / name),
            "AIOSCHED__CELERY__BROKER": celery.broker,
            "AIOSCHED__CELERY__DEFAULT_QUEUE": celery.default_queue,
            "AIOSCHED__CELERY__KEYS": celery.keys,
            "AIOSCHED__CORE__KILLED_TASK_CLEANUP_TIME": "0.5",
            "AIOSCHED__EXECUTOR__SLOTS": "2",
            "AIOSCHED__SCHEDULER__GRACE": "1",
        }

    def start(self, name: str, *options: str, **environment: str) -> None:
        """As `aiosched celery worker` starts one."""
        command = [sys.executable, "-P", "-m", "aiosched", "celery", "worker", "--hostname", f"{name}@here", *options]
        self.run(name, command, **environment)

    def start_prefork(self, name: str) -> None:
        """As Celery starts one, with its own pool."""
        command = [sys.executable, "-P", "-m", "celery", "-A", "aiosched.executors.celery", "worker"]
        queue = self.settings.celery.default_queue
        self.run(name, [*command, "--concurrency", "2", "--queues", queue, "--hostname", f"{name}@here"])

    def run(self, name: str, command: Sequence[str], **environment: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, cwd=self.folder,
                env=self.environment(name) | environment,
            )  # fmt: skip

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name: str) -> None:
        """As a machine that loses its power: all processes of the worker."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)
