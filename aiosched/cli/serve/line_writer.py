"""Writes lines to a pipe, terminal or file from a thread: a reader that stands still holds nobody up."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

logger: logging.Logger = logging.getLogger(__name__)

_MOST_WAITING: Final = 32 * 2**20  # bytes: about 100,000 events of runs
_AT_ONCE: Final = select.PIPE_BUF  # bytes that a pipe takes whole, so lines of other writers never split ours
_PATIENCE: Final = 5.0  # seconds without progress after which nobody reads


class LineWriter:
    """Writes lines in order to a file descriptor, all at once that fit into `select.PIPE_BUF` bytes.

    While `most` bytes wait, droppable lines are dropped and counted, until half of them are written; then comes
    the line of `dropped(count)`. After a closed reader everything goes to /dev/null.
    """

    def __init__(self, fd: int, dropped: Callable[[int], str], *, most: int = _MOST_WAITING) -> None:
        self._fd, self._notice, self._most = fd, dropped, most
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._size = 0  # bytes that are not written yet
        self._chunks = 0  # that are written
        self._dropped = 0
        self._has_failed = False
        self._is_torn = False  # the last line was written in part
        threading.Thread(target=self._work, name="line writer", daemon=True).start()

    def write(self, line: str, *, droppable: bool = False) -> None:
        """Write a line soon; never waits."""
        with self._changed:
            if droppable and (self._dropped or self._size >= self._most):
                self._dropped += 1
            else:
                self._append(line)

    def flush(self, patience: float = _PATIENCE) -> None:
        """Wait until all is written; not longer than `patience` seconds if nobody reads."""
        with self._changed:
            while self._size:
                seen = self._chunks
                if not self._changed.wait_for(lambda: self._chunks != seen, patience):  # noqa: B023
                    return

    def _append(self, line: str) -> None:
        self._lines.append(line.encode(errors="backslashreplace") + b"\n")
        self._size += len(self._lines[-1])
        self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                chunk = self._lines.popleft()
                while self._lines and len(chunk) + len(self._lines[0]) <= _AT_ONCE:
                    chunk += self._lines.popleft()
            self._put(chunk)
            with self._changed:
                self._size -= len(chunk)
                self._chunks += 1
                if self._dropped and self._size <= self._most // 2:
                    self._append(self._notice(self._dropped))
                    self._dropped = 0
                self._changed.notify_all()

    def _put(self, chunk: bytes) -> None:
        left = b"\n" + chunk if self._is_torn else chunk
        try:
            while left:
                try:
                    left = left[os.write(self._fd, left) :]
                except BlockingIOError:  # another process has made it non-blocking
                    select.select([], [self._fd], [])
        except BrokenPipeError:
            self._write_nowhere()
        except OSError as error:  # a full disk, a terminal that is gone
            self._is_torn = 0 < len(left) < len(chunk)
            if not self._has_failed:
                self._has_failed = True
                logger.warning("lines of output are lost, it cannot be written: %s", error)
        else:
            self._is_torn = False

    def _write_nowhere(self) -> None:
        """A closed reader (`serve | head`) does not end the scheduler; what others print goes nowhere, too."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._fd, inheritable=os.get_inheritable(self._fd))
        os.close(nowhere)
