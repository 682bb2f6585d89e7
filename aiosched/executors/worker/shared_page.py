"""A page of memory that two processes share: one writes it, the other one reads it without asking."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref


class SharedPage:
    """Made without an argument it is a new one, full of zeros; `descriptor` is what another process opens it by."""

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
            os.truncate(descriptor, mmap.PAGESIZE)
        self.descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        self.memory = mmap.mmap(descriptor, mmap.PAGESIZE)

    def close(self) -> None:
        """Give memory and descriptor back; may be called twice."""
        self.memory.close()
        self._close()
