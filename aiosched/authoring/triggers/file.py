"""A trigger that waits for a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from glob import iglob
from pathlib import Path

from aiosched.authoring.triggers.base import BaseTrigger, TriggerEvent


class FileTrigger(BaseTrigger):
    """Fires when something matches the glob `filepath`; the event is the list of matches.

    A folder counts if it has a file (with `recursive`, at any depth). `poke_interval` in seconds.
    """

    def __init__(self, filepath: str, recursive: bool = False, poke_interval: float = 5.0) -> None:
        self.filepath, self.recursive, self.poke_interval = filepath, recursive, poke_interval

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check for a match in a thread, every `poke_interval` seconds."""
        while True:
            if found := await asyncio.to_thread(matching_files, self.filepath, recursive=self.recursive):
                yield TriggerEvent(found)
                return
            await asyncio.sleep(self.poke_interval)


def matching_files(pattern: str, *, recursive: bool = False) -> list[str]:
    """The files that match the glob, and the folders that match and have a file; sorted. Reads the disk."""
    matches = iglob(pattern, recursive=recursive)  # noqa: PTH207  the pattern may be absolute
    return sorted(path for path in matches if _counts(Path(path), recursive))


def _counts(path: Path, recursive: bool) -> bool:
    if not path.is_dir():
        return path.exists()
    return any(entry.is_file() for entry in (path.rglob("*") if recursive else path.iterdir()))
