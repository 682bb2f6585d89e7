"""Waiting for a loop's coroutines in synchronous code: allowed in any thread except the loop's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from aiosched.errors import ExecutorError, TimedOut


class WouldBlock(ExecutorError):
    """Synchronous code on an event loop made a call that would block the loop."""


def blocking_on(
    loop: asyncio.AbstractEventLoop, *, seconds: float | None = None
) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Returns a function that runs coroutines of `async def` attempts for synchronous code.

    In a thread (`asyncio.to_thread`) it waits for the loop, up to `seconds`, after which it raises TimedOut; on a loop
    it raises WouldBlock.
    """

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asked = asyncio.run_coroutine_threadsafe(work, loop)
            try:
                return asked.result(seconds)
            except TimeoutError:
                if asked.done():
                    raise
                asked.cancel()
                raise TimedOut(f"The scheduler did not answer within {seconds:g} s.") from None
        work.close()
        raise WouldBlock(
            "This would block the event loop that the async task runs on: use the awaitable form "
            "(`await ti.axcom_pull(...)` instead of `ti.xcom_pull(...)`), or call it in `asyncio.to_thread`."
        )

    return run
