"""Waiting for a loop's coroutines in synchronous code: allowed in any thread except the loop's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from aiosched.errors import ExecutorError, TimedOut


class WouldBlock(ExecutorError):
    """Synchronous code on an event loop made a call that would block the loop."""


def blocking_on(loop: asyncio.AbstractEventLoop) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Returns a function that runs coroutines of `async def` attempts for synchronous code.

    In a thread (`asyncio.to_thread`) it waits for the loop; on a loop it raises WouldBlock.
    """

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        if _running_loop() is not None:
            raise _refused(work)
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    return run


def answered_on(loop: asyncio.AbstractEventLoop, *, seconds: float) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Returns a function by which imports in threads wait for the loop's coroutines, also on a loop of their own.

    After `seconds` it raises TimedOut: the loop may itself wait for a module that is being imported.
    """

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        if _running_loop() is loop:
            raise _refused(work)
        asked = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return asked.result(seconds)
        except TimeoutError:
            if asked.done():
                raise
            asked.cancel()
            raise TimedOut(f"The scheduler did not answer within {seconds:g} s.") from None

    return run


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _refused(work: Coroutine[Any, Any, Any]) -> WouldBlock:
    work.close()
    return WouldBlock(
        "This would block the event loop that the async task runs on: use the awaitable form "
        "(`await ti.axcom_pull(...)` instead of `ti.xcom_pull(...)`), or call it in `asyncio.to_thread`."
    )
