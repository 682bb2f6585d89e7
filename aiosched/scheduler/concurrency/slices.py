"""Long computations in slices, so that the event loop serves others in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from aiosched.errors import Refused

T = TypeVar("T")

SLICE_SECONDS: Final = 0.005
_ITEMS_PER_CHECK: Final = 16
BUDGET_SECONDS: Final = 10.0  # of computing for one request


class Slices:
    """Lets the event loop serve others after every 5 ms of a long computation, which calls `pause` now and then.

    spent    seconds of computing before the last pause, without the pauses
    """

    def __init__(self, seconds: Callable[[], float] | None = None) -> None:
        self._seconds = seconds or time.perf_counter
        self._since = self._seconds()
        self.spent: float = 0.0

    async def pause(self) -> None:
        """Pause, if it is time."""
        used = self._seconds() - self._since
        if used >= SLICE_SECONDS:
            self.spent += used
            await asyncio.sleep(0)
            self._since = self._seconds()


async def in_slices(
    items: Iterable[T], what: str, *, budget: float = BUDGET_SECONDS, seconds: Callable[[], float] | None = None
) -> list[T]:
    """The items of a lazy iterable; the event loop runs after every 5 ms of computing them.

    Raises Refused, which names `what` was computed, if it took more than `budget` seconds without the pauses.
    """
    found: list[T] = []
    slices = Slices(seconds)
    for item in items:
        found.append(item)
        if len(found) % _ITEMS_PER_CHECK:
            continue
        await slices.pause()
        if slices.spent > budget:
            raise Refused(f"Computing {what} took longer than {budget:g} s; ask for less at a time.")
    return found
