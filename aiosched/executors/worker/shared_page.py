"""A page of memory that two processes share: one writes it, the other reads it without messages."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref


class SharedPage:
    """A shared page: without an argument, a new one filled with zeros; other processes open it by `descriptor`."""

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
            os.truncate(descriptor, mmap.PAGESIZE)
        self.descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        self.memory = mmap.mmap(descriptor, mmap.PAGESIZE)

    def close(self) -> None:
        """Release memory and descriptor; can be called twice."""
        self.memory.close()
        self._close()
