"""Sends the log files of attempts to a web server, part by part, while they are written and at their end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

logger: logging.Logger = logging.getLogger(__name__)

_PART: Final = 1_048_576  # bytes


class LogShipping:
    """One attempt's log: `send` gets each part with its place in the log, and raises if it is not accepted.

    `begins`: where the file begins in the log, in bytes.
    """

    def __init__(self, path: Path, send: Callable[[int, bytes], Awaitable[None]], begins: int = 0) -> None:
        self._path, self._send, self._begins = path, send, begins
        self._sent = 0
        self._sending = asyncio.Lock()

    async def ship(self) -> None:
        """Send what is new. An error is that of `send`."""
        async with self._sending:
            while part := await asyncio.to_thread(self._read):
                await self._send(self._begins + self._sent, part)
                self._sent += len(part)

    async def last_part(self) -> tuple[int, bytes]:
        """What is left to be sent, and its place in the file. More than one part is sent before, up to the last."""
        if not self._path.exists():
            return 0, b""
        async with self._sending:
            while True:
                part = await asyncio.to_thread(self._read)
                if len(part) < _PART:
                    return self._begins + self._sent, part
                await self._send(self._begins + self._sent, part)
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
