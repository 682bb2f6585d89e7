"""Sends the log files of attempts to a web server, part by part, while they are written and at their end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

_PART: Final = 1_048_576  # bytes


class LogShipping:
    """One attempt's log: `send` gets each part with its place in the file, and raises if it is not accepted."""

    def __init__(self, path: Path, send: Callable[[int, bytes], Awaitable[None]]) -> None:
        self._path, self._send = path, send
        self._sent = 0
        self._sending = asyncio.Lock()

    async def ship(self) -> None:
        """Send what is new. An error is that of `send`."""
        async with self._sending:
            while part := await asyncio.to_thread(self._read):
                await self._send(self._sent, part)
                self._sent += len(part)

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(self._sent)
                return file.read(_PART)
        except FileNotFoundError:
            return b""

    def remove(self) -> None:
        """Remove the file: all of it was sent, or nobody wants it."""
        with contextlib.suppress(OSError):
            self._path.unlink()
