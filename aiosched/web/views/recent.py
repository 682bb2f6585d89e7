"""An answer that is made once for all who ask within a second, so that nobody can make the server work by asking."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

KEPT_SECONDS: Final = 1.0


class Recent(Generic[T]):
    """The result of `make`, kept for `KEPT_SECONDS`. `monotonic` is the clock, in seconds."""

    def __init__(self, make: Callable[[], Awaitable[T]], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._make, self._monotonic = make, monotonic
        self._making = asyncio.Lock()
        self._found: tuple[float, T] | None = None

    async def get(self) -> T:
        """The result; an error is raised to everybody who waits, one after the other, and not kept."""
        async with self._making:
            if self._found is None or self._monotonic() - self._found[0] >= KEPT_SECONDS:
                self._found = None
                made = await self._make()
                self._found = self._monotonic(), made  # those who have waited meanwhile get it, too
            return self._found[1]
