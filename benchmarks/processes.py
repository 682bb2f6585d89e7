"""Folders and processes of a benchmark. It needs the standard library only: peers import it, too."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Folders:
    """Everything that one benchmark leaves on disk, in one temporary folder."""

    root: Path

    @property
    def dags(self) -> Path:
        return self.root / "dags"

    @property
    def records(self) -> Path:
        return self.root / "records"

    @property
    def home(self) -> Path:
        return self.root / "home"

    def create(self) -> None:
        for folder in (self.dags, self.records, self.home):
            folder.mkdir()


@contextmanager
def temporary_folders() -> Iterator[Folders]:
    """Empty folders, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="aiosched-benchmark-") as root:
        Path(root).chmod(0o711)  # for the user that runs the embedded server when we are root
        folders = Folders(Path(root))
        folders.create()
        yield folders


@contextmanager
def process_group(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process and all that it starts, which end with the block. `environment` is added to ours."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("AIOSCHED_")}
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=ours | dict(environment), start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20.0)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
