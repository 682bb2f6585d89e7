"""The files below a folder in which authors write, read with the rights of the service: nothing outside of it.

A link could lead to what its author may not read, and be exchanged between a look and its use. So each component of a
path is opened by itself and never followed by the kernel; a link is read here, and leads to another place in the tree
or is refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from aiosched.errors import BundleError

_MOST_LINKS: Final = 40  # on the way to one file, as in Linux
_IS_LINK: Final = (errno.ELOOP, errno.EMLINK)  # by the system
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ENXIO, *_IS_LINK)
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO would block


_Identity = tuple[int, int]  # of a folder: a device and a number on it


class NotThere(Exception):
    """A path leads to nothing in the tree that can be read."""


class LeadsOut(NotThere):
    """A link leads out of the tree."""


class TreeFile(NamedTuple):
    """A regular file of the tree, as it was when it was looked at. `name` is relative, with `/`."""

    name: str
    status: os.stat_result


class Tree:
    """The tree below `root`, which itself may be a link: it is the service's. Blocking; ends with `with`."""

    def __init__(self, root: Path) -> None:
        """Raises OSError."""
        self._root = os.open(root, _FOLDER)
        self._path = os.path.realpath(root)

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    def open(self, name: str) -> BinaryIO:
        """A regular file, for reading. Raises OSError, NotThere, and LeadsOut if a link on the way leads out."""
        opened = self._open(name)
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise NotThere(f"{name} is no regular file")
        return os.fdopen(opened, "rb")

    def files(self, *, skip: Callable[[str], bool], most: int, refused: Callable[[str], object]) -> Iterator[TreeFile]:
        """All regular files, in the order of their names; those behind links, too, unless these lead out or round.

        `skip` says which names of files and folders are left out; `refused` hears of each link that leads out. What
        vanishes meanwhile is left out. Raises OSError, and BundleError for more than `most` files and folders: links
        can make few of them many.
        """
        seen = 0

        def entries(folder: int, prefix: str, above: tuple[_Identity, ...]) -> Iterator[TreeFile]:
            nonlocal seen
            try:
                above = (*above, _identity(os.fstat(folder)))
                with os.scandir(folder) as found:
                    names = sorted((entry.name, entry.is_symlink()) for entry in found if not skip(entry.name))
                for name, is_link in names:
                    seen += 1
                    if seen > most:
                        raise BundleError(f"the folder has more than {most:,} files and folders")
                    with contextlib.suppress(NotThere):
                        yield from entry_of(folder, prefix + name, name, above, is_link=is_link)
            finally:
                os.close(folder)

        def entry_of(
            folder: int, path: str, name: str, above: tuple[_Identity, ...], *, is_link: bool
        ) -> Iterator[TreeFile]:
            try:
                opened = self._open(path) if is_link else None
            except LeadsOut:
                refused(path)
                raise
            with _absent_as_not_there(path):
                if opened is not None:
                    status = os.fstat(opened)
                else:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        opened = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            if opened is not None and stat.S_ISDIR(status.st_mode) and _identity(status) not in above:
                yield from entries(opened, f"{path}/", above)
                return
            if opened is not None:
                os.close(opened)
            if stat.S_ISREG(status.st_mode):
                yield TreeFile(path, status)

        yield from entries(os.dup(self._root), "", ())

    def _open(self, name: str) -> int:
        """A descriptor of what a path leads to, for reading. Raises OSError, NotThere and LeadsOut."""
        todo, links = deque(name.split("/")), 0
        way = [os.dup(self._root)]
        try:
            while todo:
                part = todo.popleft()
                if part in ("", "."):
                    continue
                if part == "..":
                    if len(way) == 1:
                        raise LeadsOut(f"{name} leads out of the folder")
                    os.close(way.pop())
                    continue
                with _absent_as_not_there(name):
                    try:
                        way.append(os.open(part, _FILE, dir_fd=way[-1]))
                        continue
                    except OSError as error:
                        if error.errno not in _IS_LINK:
                            raise
                    target = os.readlink(part, dir_fd=way[-1])
                links += 1
                if links > _MOST_LINKS:
                    raise NotThere(f"{name} leads through more than {_MOST_LINKS} links")
                if target.startswith("/"):
                    if not f"{target}/".startswith(f"{self._path}/"):
                        raise LeadsOut(f"{name} leads out of the folder")
                    target = target.removeprefix(self._path)
                    while len(way) > 1:
                        os.close(way.pop())
                todo.extendleft(reversed(target.split("/")))
            return way.pop()
        finally:
            for descriptor in way:
                os.close(descriptor)


@contextlib.contextmanager
def _absent_as_not_there(name: str) -> Iterator[None]:
    """It has vanished, or become something else, since it was looked at; or is a socket."""
    try:
        yield
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        raise NotThere(f"{name}: {error.strerror}") from None


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino
