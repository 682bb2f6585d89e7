"""Whose tasks are on the event loop that all tests share: what a test leaves there would go on beside the next one.

A task belongs to the test in whose context it was created: by the test itself, by its function-scoped fixtures, or by a
task of these. What module- and session-scoped fixtures begin has no owner, also while a test runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakSet

_TURNS: Final = 10  # of the loop, in which what has nothing more to wait for ends
_LONGEST_END: Final = 5.0  # seconds; of a task that was cancelled and, say, closes a connection

_made: ContextVar[WeakSet[asyncio.Task[Any]] | None] = ContextVar("made", default=None)


def make(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    """The task factory of the loop."""
    task = asyncio.Task(coro, loop=loop, **options)
    if (made := _made.get()) is not None:
        made.add(task)
    return task


@contextlib.contextmanager
def none_left(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """A test, outside of its loop: raises AssertionError for tasks that it has left, which are cancelled.

    One that was cancelled already is waited for.
    """
    made = WeakSet[asyncio.Task[Any]]()
    token = _made.set(made)
    try:
        yield
    finally:
        _made.reset(token)
    for _ in range(_TURNS):
        if not (left := [task for task in made if not task.done()]):
            return
        ending = [task for task in left if task.cancelling()]
        loop.run_until_complete(asyncio.wait(ending, timeout=_LONGEST_END) if ending else asyncio.sleep(0))
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.wait(left, timeout=_LONGEST_END))
    raise AssertionError(f"the test leaves tasks on the loop: {', '.join(sorted(map(_name, left)))}")


def _name(task: asyncio.Task[Any]) -> str:
    coro = task.get_coro()
    return f"{task.get_name()} ({getattr(coro, '__qualname__', coro)})"
