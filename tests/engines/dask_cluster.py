"""Dask clusters of real processes, for tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from aiosched.config import Settings
from tests.ports import free_port


class Cluster:
    """A Dask scheduler and workers, each a process that knows the settings from its environment.

    The scheduler listens on `host`; workers are started by the command `prefix`, for example in a network namespace.
    """

    def __init__(
        self, settings: Settings, folder: Path, *, host: str = "127.0.0.1", prefix: Sequence[str] = ()
    ) -> None:
        self.settings, self.folder, self.host, self.prefix = settings, folder, host, tuple(prefix)
        self.port = free_port(host)
        self.address = f"tcp://{host}:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *words: str, **environment: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*(self.prefix if words[0] == "worker" else ()), sys.executable, "-P", "-m",
                 "distributed.cli.dask_" + words[0], *words[1:]],
                stdout=log, stderr=log, start_new_session=True, env={**os.environ, **environment},
            )  # fmt: skip

    def scheduler(self) -> None:
        self.start(
            "scheduler",
            "scheduler",
            "--host",
            self.host,
            "--port",
            str(self.port),
            "--no-dashboard",
            "--dashboard-address",
            "127.0.0.1:0",
        )

    def worker(self, name: str, *words: str, **environment: str) -> None:
        environment |= {
            "AIOSCHED_DAGS": str(self.settings.core.dags_folder),
            "AIOSCHED_HOME": str(self.folder / name),
            "AIOSCHED__CORE__KILLED_TASK_CLEANUP_TIME": "0.5",
        }
        options = (
            "--nthreads",
            "2",
            "--no-dashboard",
            "--dashboard-address",
            "127.0.0.1:0",
            "--local-directory",
            str(self.folder),
            "--name",
            name,
        )
        self.start(name, "worker", self.address, *options, *words, **environment)

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)
