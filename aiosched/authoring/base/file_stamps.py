"""Whether a file has changed: metadata that differ when it has, and how long after a change they can be trusted."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

SETTLED: Final = 2_000_000_000  # ns; after a more recent change a second one may leave the same stamp
MOST_BYTES: Final = 2**26  # of a file that is read at once
_READS: Final = 5  # at most, of a file that is being written


class Stamp(NamedTuple):
    """Metadata of a file that differ when it has changed, or is another file."""

    mtime_ns: int
    ctime_ns: int
    size: int
    device: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        return cls(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_dev, status.st_ino)

    def is_settled(self, now_ns: int | None = None) -> bool:
        """Whether the last change is so long ago that the next one leaves another stamp; `now_ns`: by default now."""
        now_ns = time.time_ns() if now_ns is None else now_ns
        return now_ns - max(self.mtime_ns, self.ctime_ns) > SETTLED


@contextlib.contextmanager
def open_regular(path: str | Path) -> Iterator[BinaryIO]:
    """A regular file, for reading. Raises OSError, also for a pipe or a device: they may have no end."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would wait for its writer
    with os.fdopen(opened, "rb") as stream:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        yield stream


def read_whole(path: str | Path, *, most: int = MOST_BYTES) -> tuple[bytes, Stamp]:
    """The content of a file, and its stamp. A file that changes while it is read is read again.

    Raises OSError, also for a file that is not regular or has more than `most` bytes.
    """
    for _ in range(_READS):
        with open_regular(path) as stream:
            before = Stamp.of(os.fstat(stream.fileno()))
            content = b"" if before.size > most else stream.read(most + 1)
            if (size := max(before.size, len(content))) > most:
                raise OSError(errno.EFBIG, f"it has {size:,} bytes, and may have {most:,}", str(path))
            after = Stamp.of(os.fstat(stream.fileno()))
        if before == after and len(content) == after.size:
            break
    return content, after
