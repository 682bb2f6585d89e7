"""Which log files of this machine still have to be written to remote storage: small files beside the logs.

    <logs>/.remote/machine               the name of this folder of logs, in the names of its remote files
    <logs>/.remote/uploader              locked by the process that uploads
    <logs>/.remote/pending/<hash>.json   a log that is written, or not uploaded completely
    <logs>/.remote/pending/<hash>.held   it is not uploaded beyond this size until its secrets are masked
    <logs>/.remote/pending/<hash>.again  its secrets were masked afterwards: it is uploaded anew

Whoever writes a log announces it, and holds a shared lock on the log file while it is open. So the end of a writer is
noticed, however it ends. A log that is appended to after it was uploaded is announced again, as another segment.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Final

_FOLDER: Final = ".remote"
_LONGEST_HOST: Final = 40


@dataclass(frozen=True, slots=True)
class PendingLog:
    """A log that is not uploaded completely: its path below the logs folder, its segment, and where this begins."""

    marker: Path
    path: str
    segment: str
    start: int

    @property
    def held(self) -> Path:
        """Exists while the log is not uploaded beyond the size in it."""
        return self.marker.with_suffix(".held")

    @property
    def again(self) -> Path:
        """Exists if the log has changed since it was uploaded."""
        return self.marker.with_suffix(".again")


def announce(logs: Path, path: Path, size: int) -> None:
    """Announce that the log at `path`, of this `size` so far, is written. The caller holds a shared lock on it."""
    marker = _marker(logs, path)
    if not marker.exists():
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        content = {"path": path.relative_to(logs).as_posix(), "segment": f"{stamp}-{machine(logs)}", "start": size}
        _create(marker, json.dumps(content))


def hold(logs: Path, path: Path, size: int) -> None:
    """Upload no more than `size` bytes of the log for now: what follows may contain secrets."""
    _create(_marker(logs, path).with_suffix(".held"), str(size))


def release(logs: Path, path: Path, *, changed: bool) -> None:
    """The secrets in the log are masked; `changed`: there were some, so that what is uploaded may be wrong."""
    marker = _marker(logs, path)
    if changed:
        _create(marker.with_suffix(".again"), "")
    marker.with_suffix(".held").unlink(missing_ok=True)


def list_pending(logs: Path) -> list[PendingLog]:
    """The announced logs."""
    found: list[PendingLog] = []
    for marker in (logs / _FOLDER / "pending").glob("*.json"):
        with contextlib.suppress(FileNotFoundError):
            found.append(PendingLog(marker, **json.loads(marker.read_text("utf-8"))))
    return found


def lock(descriptor: int, *, shared: bool) -> bool:
    """Lock a log: shared, waiting for it; or exclusively, at once or not at all. Returns whether it is locked.

    Raises OSError on a file system without locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_uploader(logs: Path) -> int | None:
    """The descriptor that makes this process the one that uploads these logs; None if another one does."""
    folder = logs / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "uploader", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if lock(descriptor, shared=False):
        return descriptor
    os.close(descriptor)
    return None


def machine(logs: Path) -> str:
    """The name of this logs folder: the host's name and random digits, the same for ever."""
    while (found := known_machine(logs)) is None:
        host = re.sub("[^A-Za-z0-9]+", "-", socket.gethostname())[:_LONGEST_HOST].strip("-") or "host"
        _create(logs / _FOLDER / "machine", f"{host}-{token_hex(4)}")
    return found


def known_machine(logs: Path) -> str | None:
    """The same, None if nothing was written here yet; creates nothing."""
    try:
        return (logs / _FOLDER / "machine").read_text("utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _marker(logs: Path, path: Path) -> Path:
    name = path.relative_to(logs).as_posix().encode("utf-8", "surrogateescape")
    return logs / _FOLDER / "pending" / f"{hashlib.sha256(name).hexdigest()[:32]}.json"


def _create(path: Path, content: str) -> None:
    """Create a file with its content, at once; does nothing if it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.parent / f".{token_hex(8)}"
    new.write_text(content, "utf-8")
    try:
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink()
