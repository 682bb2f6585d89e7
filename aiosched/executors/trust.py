"""Until when a scheduler may be taken to live: one number that it and its forkserver share.

A scheduler that hangs cannot end its attempts, and after its lease others run them again. So its
lease thread writes down how long it is trusted, in memory that the forkserver reads: when that
instant has passed the forkserver ends itself and all workers. Source: the design, section 7.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import weakref
from collections.abc import Iterable
from typing import Final

_INSTANT: Final = struct.Struct("=d")  # aligned, hence written and read in one piece


class TrustWindow:
    """An instant of the monotonic clock, 0 for no limit, shared by all processes that have its file open.

    Made without an argument it is a new one; `descriptor` is what another process opens it by.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
            os.truncate(descriptor, mmap.PAGESIZE)
        self.descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        self._memory = mmap.mmap(descriptor, mmap.PAGESIZE)

    @property
    def until(self) -> float:
        """The instant, in seconds of the monotonic clock."""
        instant: float = _INSTANT.unpack_from(self._memory)[0]
        return instant

    @until.setter
    def until(self, instant: float) -> None:
        _INSTANT.pack_into(self._memory, 0, instant)

    def close(self) -> None:
        """Give memory and descriptor back; may be called twice."""
        self._memory.close()
        self._close()


def windows_of(executors: Iterable[object]) -> list[TrustWindow]:
    """Those of the executors that have processes of their own: the attribute `trust`."""
    return [window for one in executors if isinstance(window := getattr(one, "trust", None), TrustWindow)]
