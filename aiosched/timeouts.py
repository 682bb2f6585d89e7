"""Two limits that every room needs: of a clean-up, and of the silence of a connection.

Clean-ups often run in a task that has been cancelled. `asyncio.timeout` raises no TimeoutError there before Python
3.11.4 (Debian 12 has 3.11.2): its own CancelledError escapes, and the code after the wait is skipped.

A network may swallow the packets of a connection and tell neither side; the kernel alone would try for 16 minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
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


def silence_options(seconds: float) -> list[tuple[int, int, int]]:
    """Socket options by which the kernel ends a TCP connection whose other side says nothing for so many seconds."""
    options = {
        "TCP_KEEPIDLE": max(round(seconds / 2), 1),  # s of silence after which the other side is asked,
        "TCP_KEEPINTVL": max(round(seconds / 4), 1),  # again after so many,
        "TCP_KEEPCNT": 2,  # so often
        "TCP_USER_TIMEOUT": round(seconds * 1000),  # ms that what was sent may wait for its acknowledgement
    }
    found = [(socket.IPPROTO_TCP, getattr(socket, name, -1), value) for name, value in options.items()]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *(each for each in found if each[1] >= 0)]  # some are Linux's
