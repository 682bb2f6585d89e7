"""Files below a folder into which others may write, tasks for example: only regular files, and no symbolic links.

A link could lead to a file that its author may not read, a FIFO would block the reader. No component of a path is
followed, so nothing can be exchanged between a check and its use. What is created is for the owner and the group.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

FILE_MODE: Final = 0o640
FOLDER_MODE: Final = 0o750
_CLOSED: Final = os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | _CLOSED
_ABSENT: Final = (FileNotFoundError, NotADirectoryError)


def open_plain(root: Path, path: str) -> BinaryIO | None:
    """The regular file `path` below `root`, for reading; None if there is none, or a link is in the way."""
    *folders, name = PurePosixPath(path).parts
    folder = _folder(root, folders)
    if folder is None:
        return None
    try:
        found = _open(name, os.O_RDONLY | os.O_NONBLOCK | _CLOSED, folder)
    finally:
        os.close(folder)
    if found is None:
        return None
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        return None
    return os.fdopen(found, "rb")


def plain_size(root: Path, path: str) -> int | None:
    """The size of that file in bytes; None as above."""
    file = open_plain(root, path)
    if file is None:
        return None
    with file:
        return os.fstat(file.fileno()).st_size


def plain_names(root: Path, path: str) -> list[str]:
    """The names in the folder `path` below `root`; none if it does not exist, or a link is in the way."""
    folder = _folder(root, PurePosixPath(path).parts)
    if folder is None:
        return []
    try:
        return os.listdir(folder)  # noqa: PTH208 - by descriptor
    finally:
        os.close(folder)


def create_plain(path: Path, flags: int) -> int:
    """Open the file `path` for writing, and make it and its folders if need be; returns its descriptor.

    `flags` are added to those of `os.open`, O_WRONLY or O_RDWR among them. Raises OSError if it is a link or no regular
    file: opening a FIFO would wait for its reader.
    """
    missing = []
    folder = path.parent
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=FOLDER_MODE, exist_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_NONBLOCK | _CLOSED | flags, FILE_MODE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    os.set_blocking(descriptor, True)
    return descriptor


def _folder(root: Path, parts: Sequence[str]) -> int | None:
    if {"/", ".."} & {*parts}:
        return None
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # itself may be a link: it is the user's
    except _ABSENT:
        return None
    for part in parts:
        try:
            inner = _open(part, _FOLDER, folder)
        finally:
            os.close(folder)
        if inner is None:
            return None
        folder = inner
    return folder


def _open(name: str, flags: int, folder: int) -> int | None:
    """Open what is in a folder; None if it is not there, or is a link (ELOOP) or a socket (ENXIO)."""
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if isinstance(error, _ABSENT) or error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
