"""Dask clusters of real processes, for tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from aiosched.config import Settings
from tests.network_changes import changing

CAN_ISOLATE = os.geteuid() == 0 and shutil.which("ip") is not None
CANNOT_ISOLATE = "network namespaces need root and the command ip (Debian package iproute2)"


class Cluster:
    """A Dask scheduler and workers, each a process that knows the settings from its environment.

    The scheduler listens on `host`; workers are started by the command `prefix`, for example in a network namespace.
    """

    def __init__(
        self, settings: Settings, folder: Path, *, host: str = "127.0.0.1", prefix: Sequence[str] = ()
    ) -> None:
        self.settings, self.folder, self.host, self.prefix = settings, folder, host, tuple(prefix)
        with socket.socket() as sock:
            sock.bind((host, 0))
            self.port = sock.getsockname()[1]
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


@contextlib.contextmanager
def network_namespace() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """A network of its own behind one cable: our address on it, the one inside, and the command that enters it.

    What runs there reaches nothing but what listens on that address.
    """
    name, number = f"aiosched{os.getpid()}", os.getpid() % 250 + 1
    ours, theirs = f"10.231.{number}.1", f"10.231.{number}.2"

    def run(*words: str) -> None:
        subprocess.run(words, check=True, capture_output=True)

    run("ip", "netns", "add", name)
    try:
        with changing():
            run("ip", "link", "add", f"a{number}", "type", "veth", "peer", "name", f"b{number}", "netns", name)
            run("ip", "link", "set", f"a{number}", "addrgenmode", "none")  # else it gets an address of IPv6 later
            run("ip", "address", "add", f"{ours}/30", "dev", f"a{number}")
            run("ip", "link", "set", f"a{number}", "up")
        run("ip", "-n", name, "address", "add", f"{theirs}/30", "dev", f"b{number}")
        run("ip", "-n", name, "link", "set", f"b{number}", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        yield ours, theirs, ("ip", "netns", "exec", name)
    finally:
        with changing():
            subprocess.run(["ip", "link", "delete", f"a{number}"], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
