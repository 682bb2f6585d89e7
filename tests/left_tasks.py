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
def ended(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """A test, outside of its loop: cancels tasks that it has left. Raises AssertionError for those that go on."""
    made = WeakSet[asyncio.Task[Any]]()
    token = _made.set(made)
    try:
        yield
    finally:
        _made.reset(token)
    for _ in range(_TURNS):
        if not (left := [task for task in made if not task.done()]):
            return
        loop.run_until_complete(asyncio.sleep(0))
    for task in left:
        task.cancel()
    _, going_on = loop.run_until_complete(asyncio.wait(left, timeout=_LONGEST_END))
    assert not going_on, f"tasks of the test do not end: {', '.join(sorted(map(_name, going_on)))}"


def _name(task: asyncio.Task[Any]) -> str:
    coro = task.get_coro()
    return f"{task.get_name()} ({getattr(coro, '__qualname__', coro)})"
