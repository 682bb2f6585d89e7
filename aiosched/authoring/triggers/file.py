"""Triggers that wait for files."""

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
        self.filepath: str = filepath
        self.poke_interval: float = poke_interval
        self.recursive: bool = recursive

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check for a match in a thread, every `poke_interval` seconds."""
        while True:
            if found := await asyncio.to_thread(matching_files, self.filepath, recursive=self.recursive):
                yield TriggerEvent(found)
                return
            await asyncio.sleep(self.poke_interval)


class FileDeleteTrigger(BaseTrigger):
    """Fires when the file `filepath` exists, and deletes it; the event is True. For an `AssetWatcher`.

    `poke_interval` in seconds. Of several triggers for one file, one fires.
    """

    def __init__(self, filepath: str, poke_interval: float = 5.0) -> None:
        self.filepath, self.poke_interval = filepath, poke_interval

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Try to delete the file in a thread, every `poke_interval` seconds. Raises OSError if that is not allowed."""
        while True:
            if await asyncio.to_thread(_deleted, Path(self.filepath)):
                self.log.info("the file %s was found and deleted", self.filepath)
                yield TriggerEvent(True)
                return
            await asyncio.sleep(self.poke_interval)


class DirectoryFileDeleteTrigger(BaseTrigger):
    """As FileDeleteTrigger, for the file `filename` in the folder `directory`, which may not exist yet.

    The event is {"filepath": the path of the file}.
    """

    def __init__(self, *, directory: str, filename: str, poke_interval: float = 5.0) -> None:
        self.directory: str = directory
        self.filename: str = filename
        self.poke_interval = poke_interval

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Try to delete the file in a thread, every `poke_interval` seconds. Raises OSError if that is not allowed."""
        path = Path(self.directory, self.filename)
        async for _ in FileDeleteTrigger(str(path), self.poke_interval).run():
            yield TriggerEvent({"filepath": str(path)})


def _deleted(path: Path) -> bool:
    """Whether there was such a file, which is deleted now; a folder does not count."""
    if path.is_dir():
        return False
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def matching_files(pattern: str, *, recursive: bool = False) -> list[str]:
    """The files that match the glob, and the folders that match and have a file; sorted. Reads the disk."""
    matches = iglob(pattern, recursive=recursive)  # noqa: PTH207  the pattern may be absolute
    return sorted(path for path in matches if _counts(Path(path), recursive))


def _counts(path: Path, recursive: bool) -> bool:
    if not path.is_dir():
        return path.exists()
    return any(entry.is_file() for entry in (path.rglob("*") if recursive else path.iterdir()))
