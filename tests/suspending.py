"""Processes that are suspended, and a PostgreSQL server of a test's own that is, or stopped and started again."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from aiosched.db.server.embedded import EmbeddedPostgres
from tests.patience import PATIENCE


def suspend(processes: Iterable[psutil.Process]) -> None:
    """Send SIGSTOP; returns once all of them have stopped.

    The kernel gives the signal to one thread of a process. Until that one is scheduled the others go on, which takes a
    while on a loaded machine.
    """
    deadline = time.monotonic() + PATIENCE
    sent = [process for process in processes if _tell(process, signal.SIGSTOP)]
    for process in sent:
        while not _has_stopped(process):
            assert time.monotonic() < deadline, f"{process} has not stopped"
            time.sleep(0.01)


def _tell(process: psutil.Process, number: signal.Signals) -> bool:
    """Send a signal; false if the process has ended."""
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True


def _has_stopped(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


class OwnServer:
    """A server on a folder. Its processes are found anew at each call: sessions come and go."""

    def __init__(self, data_dir: Path) -> None:
        # What was committed is there after a kill, though not after a crash of the machine.
        self.postgres = EmbeddedPostgres(data_dir, durable=False, options={"synchronous_commit": "on"})

    def start(self) -> str:
        """Start it, or start it again; returns the DSN."""
        return self.postgres.start_blocking()

    def suspend(self) -> None:
        """Stop all of its processes in their tracks: it takes connections and never answers."""
        suspend(self._processes())

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a word to its clients."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes():
            _tell(process, number)

    def _processes(self) -> list[psutil.Process]:
        """The postmaster and its sessions; none if it does not run."""
        try:
            postmaster = psutil.Process(int((self.postgres.data_dir / "postmaster.pid").read_text().split()[0]))
            return [postmaster, *postmaster.children(recursive=True)]
        except (psutil.NoSuchProcess, FileNotFoundError):
            return []


@contextlib.contextmanager
def own_server(data_dir: Path) -> Iterator[OwnServer]:
    """A running server of the test; it is stopped afterwards, however the test has left it."""
    server = OwnServer(data_dir)
    server.start()
    try:
        yield server
    finally:
        server.resume()
        server.postgres.stop_blocking()
