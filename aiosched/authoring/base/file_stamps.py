"""Whether a file has changed: metadata that differ when it has, and how long after a change they can be trusted."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

SETTLED: Final = 2_000_000_000  # ns; after a more recent change a second one may leave the same stamp
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


def read_whole(path: str | Path) -> tuple[bytes, Stamp]:
    """The content of a file, and its stamp. A file that changes while it is read is read again. Raises OSError."""
    for _ in range(_READS):
        with open(path, "rb") as stream:  # noqa: PTH123
            before = Stamp.of(os.fstat(stream.fileno()))
            content = stream.read()
            after = Stamp.of(os.fstat(stream.fileno()))
        if before == after and len(content) == after.size:
            break
    return content, after
