"""What an import reads besides the sources of modules: data files such as YAML, and the folders that it lists.

Python tells an audit hook what is opened and listed (PEP 578). A process has one hook, which ignores everything outside
of `noting_reads`. Left out are: what Python's own import and aiosched read, installed packages, what the import writes
itself, and what is neither a file nor a folder.

Modules that are loaded without the finder of sources.py (`spec_from_file_location`, import hooks) are files that an
import reads, too. Python would take their bytecode by time and size; here it is compiled anew.
"""

from __future__ import annotations

import errno
import importlib
import os
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

from aiosched.authoring.base.file_stamps import Stamp
from aiosched.authoring.dag.sources import OWN, finder, is_of_users

_EVENTS: Final = frozenset({"open", "os.listdir", "os.scandir"})
_WRITES: Final = os.O_WRONLY | os.O_RDWR
_MOST: Final = 1000  # files of one import
_IMPORTLIB: Final = str(Path(importlib.__file__).parent) + os.sep
_FROZEN: Final = "<frozen "  # code of Python that is a part of it, as that of `os` and `codecs`
_LOADING: Final = "<frozen importlib._bootstrap_external>"
_EXEMPT: Final = ("<frozen importlib.", "<frozen zipimport>", _IMPORTLIB, OWN)  # code whose reads do not count
_now = threading.local()


class Reads:
    """The files and folders that one import has read, each with its stamp at that time; None: there was nothing."""

    def __init__(self) -> None:
        self.stamps: dict[str, Stamp | None] = {}
        self._written: set[str] = set()

    def note(self, event: str, given: Any, flags: int) -> None:
        """The caller's caller opens or lists `given`. Raises OSError for bytecode: it may be that of another source."""
        if not isinstance(given, str | bytes | os.PathLike):
            return
        path, reader = os.path.abspath(os.fsdecode(given)), _reader(sys._getframe(2))  # noqa: PTH100 no symlinks are followed
        if reader == _LOADING and event == "open" and not flags & _WRITES and finder.tracks(path):
            if _is_bytecode(path):
                raise OSError(errno.ESTALE, "bytecode that goes by time and size", path)
        elif reader.startswith(_EXEMPT):
            return
        if event == "open" and flags & _WRITES:
            self._written.add(path)
            self.stamps.pop(path, None)
        elif path not in self.stamps and path not in self._written and len(self.stamps) < _MOST and is_of_users(path):
            try:
                status = os.stat(path)  # noqa: PTH116
            except (FileNotFoundError, NotADirectoryError):
                self.stamps[path] = None
                return
            except OSError:
                return
            if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                self.stamps[path] = Stamp.of(status)


def _reader(frame: FrameType | None) -> str:
    """The file of the code that reads; functions such as `os.walk` read for their caller."""
    while frame is not None:
        if not (name := frame.f_code.co_filename).startswith(_FROZEN) or name.startswith(_EXEMPT):
            return name
        frame = frame.f_back
    return _FROZEN


def _is_bytecode(path: str) -> bool:
    try:
        return bool(source_from_cache(path))
    except ValueError:
        return False


@contextmanager
def noting_reads() -> Iterator[Reads]:
    """What this thread reads during the block."""
    _install()
    before = getattr(_now, "reads", None)
    _now.reads = reads = Reads()
    try:
        yield reads
    finally:
        _now.reads = before


@cache
def _install() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if event in _EVENTS and (reads := getattr(_now, "reads", None)) is not None:
        reads.note(event, "." if args[0] is None else args[0], args[2] if event == "open" else 0)
