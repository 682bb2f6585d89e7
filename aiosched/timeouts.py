"""A timeout for clean-ups, which often run in a task that has been cancelled.

`asyncio.timeout` raises no TimeoutError there before Python 3.11.4 (Debian 12 has 3.11.2): its own CancelledError
escapes, and the code after the wait is skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def clean_up_timeout(seconds: float) -> AsyncIterator[None]:
    """Like `asyncio.timeout`: raises TimeoutError after `seconds`, even in a task that was cancelled before.

    A new cancellation is propagated.
    """
    task = asyncio.current_task()
    assert task is not None
    cancelled_before = task.cancelling()
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except asyncio.CancelledError as error:
        if not limit.expired() or task.cancelling() > cancelled_before:
            raise
        raise TimeoutError from error
