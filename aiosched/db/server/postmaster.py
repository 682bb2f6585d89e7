"""Inspects a PostgreSQL server from outside: its pid file, its socket, its process, its log.

A pid file outlives a killed server, and its pid is soon reused: a container assigns the same few pids at each start,
often to the new server itself. So the pid in a pid file proves nothing. A server exists if it answers on its socket, or
if the process is a PostgreSQL whose working directory is the data directory.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

SUPERUSER: Final = "postgres"

_LOG_PREFIX: Final = re.compile(r"^.*?\b(FATAL|PANIC|ERROR|HINT|DETAIL|LOG|WARNING):\s+")
_SENT_TO_CLIENTS: Final = re.compile(
    "the database system is (starting up|shutting down|not yet accepting|in recovery)|Consistent recovery state"
    "|due to administrator command"
)
_LAST_LINES: Final = 6

FolderId = tuple[int, int]  # device and inode: the identity of a folder, even after a rename


class ServerAnswer(Enum):
    """The state that a server's socket reveals."""

    READY = "ready"
    NOT_NOW = "starting, stopping or full"
    NONE = "no server listens"


def _startup_packet() -> bytes:
    body = f"user\0{SUPERUSER}\0database\0template1\0\0".encode()
    return struct.pack("!II", len(body) + 8, 3 << 16) + body


_HELLO: Final = _startup_packet() + struct.pack("!cI", b"X", 4)  # and good-bye


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The content of `postmaster.pid`."""

    pid: int
    port: str  # part of the socket file's name; no TCP port is opened
    socket_folder: Path
    status: str  # starting, ready, stopping, standby

    @property
    def socket(self) -> Path:
        return self.socket_folder / f".s.PGSQL.{self.port}"


def read_postmaster(data_dir: Path) -> Postmaster | None:
    """The lines of `postmaster.pid`: pid, data directory, start, port, socket folder, host, shared memory, status."""
    try:
        lines = (data_dir / "postmaster.pid").read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not lines or not lines[0].strip().isdigit():
        return None
    lines += [""] * (8 - len(lines))
    return Postmaster(pid=int(lines[0]), port=lines[3], socket_folder=Path(lines[4]), status=lines[7].strip())


def ask(path: Path) -> ServerAnswer:
    """Connect to a server's socket as a client does; in a private folder only the server can answer."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5.0)
        try:
            client.connect(str(path))
            client.sendall(_HELLO)
            first = client.recv(1)
        except PermissionError:
            raise
        except TimeoutError:
            return ServerAnswer.NOT_NOW
        except OSError:
            return ServerAnswer.NONE
    return {b"R": ServerAnswer.READY, b"E": ServerAnswer.NOT_NOW}.get(first, ServerAnswer.NONE)


def folder_id(folder: Path) -> FolderId | None:
    """The identity of a folder; None if it does not exist."""
    try:
        found = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def runs_on(pid: int, folder: FolderId | None, path: Path) -> bool:
    """Whether process `pid` is a live PostgreSQL on the data directory `folder`, which was at `path` when it started.

    A server's working directory is its data directory, so the kernel can tell which one that is. If it does not (other
    systems, or root without permission to inspect processes of other users), the server's command line names the path.
    """
    process = Path(f"/proc/{pid}")
    try:
        if (process / "comm").read_text().strip() != "postgres":
            return False
        return folder is not None and folder_id(process / "cwd") == folder  # a zombie has none
    except PermissionError:
        return f"\0-D\0{path}\0" in (process / "cmdline").read_text()
    except OSError:
        if Path("/proc/self").exists():
            return False  # there is no such process, or no longer
    command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    return f"postgres -D {path} " in subprocess.run(command, capture_output=True, text=True, check=False).stdout


def is_alive(pid: int) -> bool:
    """Whether there is a process `pid`; a zombie is dead."""
    with contextlib.suppress(ChildProcessError):  # it is our child only if we are init of a container
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:  # container init processes often reap zombies late or never
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return True


def wait_until_gone(data_dir: Path, pid: int, seconds: float) -> bool:
    """Wait until the server has ended: its process, or at least its pid file (removed as the very last step)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = read_postmaster(data_dir)
        if found is None or found.pid != pid or not is_alive(pid):
            return True
        time.sleep(0.005)
    return False


def wait_until_dead(pid: int, seconds: float) -> bool:
    """Wait until a process has ended."""
    deadline = time.monotonic() + seconds
    while is_alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def end_process(pid: int, requests: Mapping[signal.Signals, float]) -> None:
    """Send the signals one after the other, each with the seconds to wait for the end, until the process has ended."""
    for request, patience in requests.items():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, request)
        if wait_until_dead(pid, patience):
            return


def tail(log: Path, *, since: int = 0, size: int = 4000) -> str:
    """The end of a server's log: at most `size` bytes, none before byte `since`; empty if there is no log."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(since, end - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def last_lines(text: str) -> str:
    """The end of a log on one line, without messages about clients that connected meanwhile."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _SENT_TO_CLIENTS.search(line)]
    return " | ".join(lines[-_LAST_LINES:]) or "nothing."


def last_complaint(text: str) -> str:
    """The last FATAL, PANIC or ERROR of a log with its hint, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    complaints = [i for i, line in enumerate(lines) if any(word in line for word in ("FATAL:", "PANIC:", "error:"))]
    if not complaints:
        return lines[-1] if lines else "it left no message."
    complaint = lines[complaints[-1] : complaints[-1] + 3]
    return " ".join(_LOG_PREFIX.sub("", line) for line in complaint)
