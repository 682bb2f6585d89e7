"""A page of memory that two processes share: one writes it, the other reads it without messages.

The other process may run code of DAG authors as another user. So its size is sealed (reading a page that was cut off
would end this process), and nobody can open it again.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import sys
import tempfile
import weakref
from typing import Final

_INSTANT: Final = struct.Struct("=d")  # aligned, hence written and read atomically
INSTANT_SIZE: Final = _INSTANT.size


class SharedPage:
    """A shared page: without an argument, a new one filled with zeros; other processes open it by `descriptor`."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor: int = _new_page() if descriptor is None else descriptor
        self._close = weakref.finalize(self, os.close, self.descriptor)
        reads_only = fcntl.fcntl(self.descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        access = mmap.ACCESS_READ if reads_only else mmap.ACCESS_WRITE
        self.memory: mmap.mmap = mmap.mmap(self.descriptor, mmap.PAGESIZE, access=access)

    @property
    def instant(self) -> float:
        """The number at the beginning of the page."""
        instant: float = _INSTANT.unpack_from(self.memory)[0]
        return instant

    @instant.setter
    def instant(self, instant: float) -> None:
        _INSTANT.pack_into(self.memory, 0, instant)

    def reader(self) -> int:
        """A new descriptor with which another process can only read; where the system has no such, one to write."""
        if sys.platform != "linux":
            return os.dup(self.descriptor)
        return os.open(f"/proc/self/fd/{self.descriptor}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Release memory and descriptor; can be called twice."""
        self.memory.close()
        self._close()


def _new_page() -> int:
    if sys.platform != "linux":
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
        os.truncate(descriptor, mmap.PAGESIZE)
        return descriptor
    descriptor = os.memfd_create("aiosched-page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.fchmod(descriptor, 0o600)
    os.truncate(descriptor, mmap.PAGESIZE)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor
