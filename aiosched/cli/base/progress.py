"""What takes longer than two seconds says how far it is, on stderr.

On a terminal one line is rewritten; elsewhere a line comes now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiosched.cli.base.output import talk

FIRST: Final = 2.0  # seconds before the first line
_EVERY: Final = 10.0  # seconds between two lines where nothing can be rewritten
_EVERY_ON_TERMINAL: Final = 0.5


class Progress:
    """Shows a text if it is time to. Call `show` often, and `end` when the work is done."""

    def __init__(self, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._terminal = sys.stderr.isatty()
        self._next = seconds() + FIRST
        self._shown = False

    def show(self, text: Callable[[], str]) -> None:
        """Show the text that `text` makes; it is called only if it is shown."""
        if (now := self._seconds()) < self._next:
            return
        self._next = now + (_EVERY_ON_TERMINAL if self._terminal else _EVERY)
        self._shown = True
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{text()}")
            sys.stderr.flush()
        else:
            talk(text())

    def end(self) -> None:
        """Remove the line that is rewritten."""
        if self._terminal and self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextlib.asynccontextmanager
async def said_if_slow(doing: str, so_far: Callable[[], str] | None = None) -> AsyncIterator[None]:
    """Say that the block is still `doing` something, for how long, and what it has done `so_far`."""
    progress, began = Progress(), time.monotonic()

    async def tell() -> None:
        while True:
            await asyncio.sleep(_EVERY_ON_TERMINAL)
            progress.show(said)

    def said() -> str:
        seconds = f"{time.monotonic() - began:.0f} s"
        return f"still {doing} ({seconds}, {so_far()})" if so_far is not None else f"still {doing} ({seconds})"

    telling = asyncio.ensure_future(tell())
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        progress.end()
