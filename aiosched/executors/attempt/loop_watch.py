"""Finds the code that blocks an event loop: a thread waits for its heartbeat and inspects the loop if it is late.

It costs two wake-ups per second while it is on, and nothing while it is off. Source: the semantics reference, section
25.3.
"""

from __future__ import annotations

import asyncio
import gc
import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import Context
from pathlib import Path
from types import FrameType
from typing import Any, Final

BLOCKED: Final = 0.5  # seconds without a heartbeat

OnBlock = Callable[["asyncio.Task[Any] | None", FrameType], None]


class LoopWatch:
    """Watches the loop of the thread that creates it.

    `on_block` is called in another thread, while the loop is blocked, with the blocking task (None: a callback, no
    task) and its innermost frame. `on_end` is called in that thread when the loop runs again.
    """

    def __init__(
        self, on_block: OnBlock, *, on_end: Callable[[], None] = lambda: None, patience: float = BLOCKED
    ) -> None:
        self._loop, self._thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._on_block, self._on_end, self._patience = on_block, on_end, patience
        self._on, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def turn(self, on: bool) -> None:
        """Turn watching on or off."""
        if not on:
            self._on.clear()
        elif not self._on.is_set() and not self._closed.is_set():
            self._on.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="aiosched loop watch", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread, within a moment."""
        self._closed.set()
        self._on.set()

    def _watch(self) -> None:
        while self._on.wait() and not self._closed.wait(self._patience):
            alive = threading.Event()
            try:
                self._loop.call_soon_threadsafe(alive.set)
            except RuntimeError:  # the loop is closed
                return
            if alive.wait(self._patience):
                continue
            task, frame = asyncio.current_task(self._loop), sys._current_frames().get(self._thread_id)
            if frame is not None:
                self._on_block(task, frame)
            del task, frame  # keep no reference to anything of the task
            while not alive.wait(self._patience) and not self._closed.is_set():
                pass
            self._on_end()


def line_of(frame: FrameType, module: str) -> str:
    """Describe the place of a frame: the innermost line in modules with this prefix, or in any module."""
    found = next((each for each in _outwards(frame) if each.f_globals.get("__name__", "").startswith(module)), frame)
    file, number = found.f_code.co_filename, found.f_lineno
    source = linecache.getline(file, number).strip()
    return f"{Path(file).name}:{number} in {found.f_code.co_name}{f': {source}' if source else ''}"


def context_of(task: asyncio.Task[Any]) -> Context | None:
    """The context of an asyncio task."""
    if hasattr(task, "get_context"):  # since Python 3.12
        return task.get_context()  # type: ignore[no-any-return]
    return next((each for each in gc.get_referents(task) if isinstance(each, Context)), None)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
