"""Who blocks an event loop: a thread asks it for a sign of life, and looks where it is when none comes.

It costs two wake-ups a second while it is on, and nothing while it is off.
Source: the semantics reference, section 25.3.
"""

from __future__ import annotations

import asyncio
import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

BLOCKED: Final = 0.5  # seconds without a sign of life

OnBlock = Callable[["asyncio.Task[Any]", FrameType], None]


class LoopWatch:
    """Watches the loop of the thread that makes it.

    `on_block` is called in another thread, while the loop stands still, with the task that holds it up and its
    innermost frame.
    """

    def __init__(self, on_block: OnBlock, *, patience: float = BLOCKED) -> None:
        self._loop, self._thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._on_block, self._patience = on_block, patience
        self._on, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def turn(self, on: bool) -> None:
        """Watch from now on, or do not."""
        if not on:
            self._on.clear()
        elif not self._on.is_set() and not self._closed.is_set():
            self._on.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="aiosched loop watch", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread, within moments."""
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
            if task is not None and frame is not None:
                self._on_block(task, frame)
            del task, frame  # nothing of the task lives on because of us
            while not alive.wait(self._patience) and not self._closed.is_set():
                pass


def line_of(frame: FrameType, module: str) -> str:
    """Where a frame stands, for people: the innermost line of `module`, or the innermost of all."""
    found = next((each for each in _outwards(frame) if each.f_globals.get("__name__") == module), frame)
    file, number = found.f_code.co_filename, found.f_lineno
    source = linecache.getline(file, number).strip()
    return f"{Path(file).name}:{number} in {found.f_code.co_name}{f': {source}' if source else ''}"


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
