"""The versions of one bundle on this machine: a folder for each, shared by all processes of the machine.

A folder appears under its final name only when it is complete: it is made under another name and then renamed, by
whichever process needs it first. Its files are read-only. Folders that a killed process has left unfinished are removed
later.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

_MAKING: Final = ".making-"
_NEWEST: Final = "newest.json"
_ABANDONED: Final = 3600.0  # seconds after which an unfinished folder belongs to no living process


class BundleCache:
    """The folders in `folder`; blocking."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, version: str) -> Path:
        """Where a version is, or would be."""
        return self.folder / version

    def has(self, version: str) -> bool:
        """Whether a version is here."""
        return self.path(version).is_dir()

    def make(self, version: str, fill: Callable[[Path], None]) -> Path:
        """The folder of a version. If it is missing, `fill` writes its files into an empty folder.

        Two processes that need it at once both make it, and the first one wins. Raises what `fill` raises, and OSError.
        """
        path = self.path(version)
        if not path.is_dir():
            with self.scratch() as scratch:
                made = scratch / "code"
                made.mkdir()
                fill(made)
                _make_durable(made)
                try:
                    made.rename(path)
                except OSError:
                    if not path.is_dir():  # else another process was faster
                        raise
        return path

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A new folder beside the versions, removed at the end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=_MAKING, dir=self.folder))
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def touch(self, version: str) -> None:
        """Note that a version is in use now."""
        with contextlib.suppress(OSError):
            os.utime(self.path(version))

    def sweep(self, needed: Collection[str], *, unused_for: float) -> list[str]:
        """Remove what nobody needs and has not been used for that many seconds; returns the removed versions."""
        removed, now = list[str](), time.time()
        for path in self._folders():
            try:
                age = now - path.stat().st_mtime
            except OSError:
                continue
            if path.name.startswith(_MAKING):
                if age > _ABANDONED:
                    shutil.rmtree(path, ignore_errors=True)
            elif path.name not in needed and age >= unused_for:
                gone = path.with_name(f"{_MAKING}{path.name}-{os.getpid()}")  # at once, not file by file
                with contextlib.suppress(OSError):
                    path.rename(gone)
                    removed.append(path.name)
                shutil.rmtree(gone, ignore_errors=True)
        return removed

    def versions(self) -> list[str]:
        """The versions that are here."""
        return [path.name for path in self._folders() if not path.name.startswith(_MAKING)]

    def _folders(self) -> list[Path]:
        try:
            return [path for path in self.folder.iterdir() if path.is_dir()]
        except OSError:
            return []

    def read_state(self) -> dict[str, str]:
        """What `write_state` has stored last; empty if there is nothing to read."""
        try:
            found = json.loads((self.folder / _NEWEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}

    def write_state(self, state: dict[str, str]) -> None:
        """Store which version is the newest, for the next start without a network."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=_NEWEST, dir=self.folder)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(state, file)
        Path(name).replace(self.folder / _NEWEST)


def _make_durable(folder: Path) -> None:
    """Make the files read-only, and write them to the disk: after a power cut a version is complete or missing."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if path.is_symlink():
                continue
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fchmod(descriptor, os.fstat(descriptor).st_mode & 0o555)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
