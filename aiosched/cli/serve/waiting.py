"""What starts when the database can be used, and waits for that until it is asked to stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from aiosched.db.server.failures import is_of_database
from aiosched.errors import UnsupportedDatabase
from aiosched.scheduler.membership.outage import DatabaseOutage

T = TypeVar("T")


async def _nothing() -> None:
    """Nobody is told."""


async def when_usable(
    start: Callable[[], Coroutine[Any, Any, T]],
    asked: asyncio.Future[Any],
    *,
    may_wait: Callable[[], bool] = lambda: True,
    on_wait: Callable[[], Awaitable[None]] = _nothing,
) -> T | None:
    """What `start` returns, as soon as the database can be used; None if `asked` is done before.

    The log says what is in the way, and `on_wait` is called after each failure. Raises an error that is not of the
    database, and any if it may not wait.
    """
    outage = DatabaseOutage()
    while True:
        starting = asyncio.ensure_future(start())
        await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return None
        try:
            found = await starting
        except Exception as error:
            if isinstance(error, UnsupportedDatabase) or not is_of_database(error) or not may_wait():
                raise
            pause = outage.failed(error, now=time.monotonic())
        else:
            outage.over()
            return found
        await on_wait()
        await asyncio.wait({asked}, timeout=pause)
        if asked.done():
            return None
