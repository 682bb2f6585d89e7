"""How long tests wait for what must happen: the limit finds what hangs, and judges nothing; no machine is that busy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE: Final = 240.0  # seconds


async def until(condition: Callable[[], object], what: str = "what must happen") -> None:
    """Return when `condition` holds, which nobody reports: it is asked again and again."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE:.0f} s for {what}") from None


def eventually(what: Callable[[], T]) -> T:
    """The first answer of `what` that is not empty, where no event loop runs."""
    ends = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < ends, "that has not happened"
        time.sleep(0.05)
    return found
