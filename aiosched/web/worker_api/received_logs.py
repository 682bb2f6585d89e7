"""The logs that workers on engines send: written to the log folder of this server, as if the attempt had run here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

from aiosched.core.values.messages import Attempt
from aiosched.core.values.unwritten import UnwrittenLog
from aiosched.remote import pending
from aiosched.remote.log_files import log_path
from aiosched.remote.plain_files import create_plain


class ReceivedLogs:
    """Writes parts of logs below `folder`, at most `limit` bytes of each and one line more.

    `uploaded`: the scheduler of this machine writes them to remote storage, too.
    """

    def __init__(self, folder: Path, *, limit: int, uploaded: bool = False) -> None:
        self._folder, self._most, self._uploaded = folder, limit + 65_536, uploaded

    async def sizes(self, attempts: Iterable[Attempt]) -> list[int]:
        """For each the bytes that earlier calls of its try have written; parts of this one come behind them."""
        paths = [log_path(self._folder, attempt) for attempt in attempts]
        return await asyncio.to_thread(lambda: list(map(_size, paths)))

    async def write(self, attempt: Attempt, offset: int, data: bytes) -> UnwrittenLog | None:
        """Write a part at its place; the same part may come again. What is beyond the limit is dropped.

        Returns what could not be written, if there is some: this part, and the parts before that are not there.
        """
        data, path = data[: max(self._most - offset, 0)], log_path(self._folder, attempt)
        if not data:
            return None
        try:
            await asyncio.to_thread(self._write, path, offset, data)
        except OSError as error:
            unwritten = UnwrittenLog(error)
            unwritten.add(data)
            unwritten.lost = max(offset + len(data) - await asyncio.to_thread(_size, path), 0)
            return unwritten
        return None

    def _write(self, path: Path, offset: int, data: bytes) -> None:
        if self._uploaded:
            pending.announce(self._folder, path, offset)
        descriptor = create_plain(path, os.O_WRONLY)
        try:
            while data:
                written = os.pwrite(descriptor, data, offset)
                data, offset = data[written:], offset + written
        finally:
            os.close(descriptor)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
