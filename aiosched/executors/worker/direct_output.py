"""What a task's child processes and C code write to descriptors 1 and 2 of a worker, and the secrets to hide in it.

The forkserver makes it before it forks the worker, and both have it. Between two attempts the worker moves what was
written to the log (worker.py). If its process dies, the forkserver reads the rest, which often explains the end, and
hides the secrets that the worker knew: nobody else knows them. The file has no name and the secrets are only in memory,
so nothing is left behind, and only the worker's own user could read them.

The file is as large as what an attempt writes: nothing limits one file of a process and its children, and a pipe would
need a process that reads it all the time. The log that it is moved to has its limit (core.max_log_bytes).
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import struct
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aiosched.core.values.masking import SHORTEST, Redactor

LAST: Final = 65_536  # bytes of the output that are kept
_SIZE: Final = struct.Struct("=I")  # of the secrets
_UNKNOWN: Final = 0xFFFF_FFFF  # instead of the size: they are being written, or do not fit
_DISTRUST_AT: Final = _SIZE.size  # not zero: there are others
_TEXT_AT: Final = _DISTRUST_AT + 1
_SPACE: Final = 262_144  # bytes; memory is used once there are secrets
_LONGEST_CHARACTER: Final = 4  # bytes


class DirectOutput:
    """An unnamed file to append to, and the memory with the secrets that are known so far."""

    def __init__(self) -> None:
        self.secrets: mmap.mmap = mmap.mmap(-1, _SPACE)
        self._words: set[str] = set()  # those that were remembered, in the worker
        self._writing = threading.RLock()  # a task can read secrets in its own threads
        self.descriptor, path = tempfile.mkstemp(prefix="aiosched-output-")
        Path(path).unlink()
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, os.O_APPEND)  # so that truncating it restarts at 0

    def close(self) -> None:
        """Release file and memory in this process."""
        os.close(self.descriptor)
        self.secrets.close()

    def remember(self, words: Sequence[str]) -> None:
        """Hide these words, too. Called in the worker."""
        with self._writing:
            self._words.update(words)
            data = json.dumps(list(self._words)).encode()
            _SIZE.pack_into(self.secrets, 0, _UNKNOWN)
            if len(data) <= _SPACE - _TEXT_AT:
                self.secrets[_TEXT_AT : _TEXT_AT + len(data)] = data
                _SIZE.pack_into(self.secrets, 0, len(data))

    def distrust(self, words: Sequence[str]) -> None:
        """There are others, which a process knows that a task has forked from the worker: show nothing."""
        self.secrets[_DISTRUST_AT] = 1

    def rest(self) -> bytes:
        """The last part of the output, with its secrets hidden; a notice if something before it is left out."""
        size = os.fstat(self.descriptor).st_size
        if not size:
            return b""
        if (words := self._known()) is None:
            return f"... {size:,} bytes are not shown: they may hold secrets\n".encode()
        redactor = Redactor()
        redactor.hide(words)
        start = max(0, size - LAST)
        hidden = redactor.redact_bytes(os.pread(self.descriptor, LAST, start))
        if not start:
            return hidden
        rest = hidden[redactor.longest * _LONGEST_CHARACTER :]  # before, there may be the end of a secret
        rest = rest.partition(b"\n")[2] or rest
        return f"... {start + len(hidden) - len(rest):,} bytes are left out\n".encode() + rest

    def _known(self) -> list[str] | None:
        """The words to hide; None if they are not known for sure."""
        size = _SIZE.unpack_from(self.secrets)[0]
        if self.secrets[_DISTRUST_AT] or size == _UNKNOWN:
            return None
        try:
            words = json.loads(self.secrets[_TEXT_AT : _TEXT_AT + size]) if size else []
        except (ValueError, RecursionError):  # the task wrote into memory that is not its own
            return None
        are_words = isinstance(words, list) and all(isinstance(each, str) and len(each) >= SHORTEST for each in words)
        return words if are_words else None
