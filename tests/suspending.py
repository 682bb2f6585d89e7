"""A PostgreSQL server of a test's own, that is suspended, stopped and started again under its clients."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil

from aiosched.db.server.embedded import EmbeddedPostgres


class OwnServer:
    """A server on a folder. Its processes are found anew at each call: sessions come and go."""

    def __init__(self, data_dir: Path) -> None:
        self.postgres = EmbeddedPostgres(data_dir, durable=False)

    def start(self) -> str:
        """Start it, or start it again; returns the DSN."""
        return self.postgres.start_blocking()

    def suspend(self) -> None:
        """Stop all of its processes in their tracks: it takes connections and never answers."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a word to its clients."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        pid_file = self.postgres.data_dir / "postmaster.pid"
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
            postmaster = psutil.Process(int(pid_file.read_text().split()[0]))
            for process in (postmaster, *postmaster.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)


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
