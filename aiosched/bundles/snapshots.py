"""A folder as a version: all its files as they are now, named by the hash of their content.

Hidden files are left out, except ignore files, and so is byte code. Links are followed: what they lead to is copied,
unless that is outside of the folder. The files of a snapshot are those whose content was hashed: nothing is read twice.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import stat
import time
import zipfile
from pathlib import Path
from typing import Final

from aiosched.bundles.tree import NotThere, Tree
from aiosched.errors import BundleError

log: logging.Logger = logging.getLogger(__name__)

MOST_BYTES: Final = 67_108_864
MOST_FILES: Final = 20_000
_IGNORE_FILES: Final = frozenset({".airflowignore", ".aioschedignore"})
_SAME_TIME: Final = (1980, 1, 1, 0, 0, 0)
_SETTLED: Final = 2_000_000_000  # ns; after a more recent change a second one may leave the same stamp


class FolderReader:
    """Reads one folder again and again; the content of files that have certainly not changed is kept as a hash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stamps: tuple[tuple[str, int, int, int, int], ...] = ()
        self._known: str | None = None
        self._settled = False  # every later change gives another stamp
        self._refused = set[str]()  # links

    def read(self) -> tuple[str, dict[str, tuple[bytes, bool]] | None]:
        """The version, and the files: content, and whether it is executable; None if nothing has changed.

        Raises BundleError if it is too large, OSError if it cannot be read.
        """
        with Tree(self.folder) as tree:
            return self._read(tree)

    def _read(self, tree: Tree) -> tuple[str, dict[str, tuple[bytes, bool]] | None]:
        refused = set[str]()
        found = list(tree.files(skip=_is_left_out, most=MOST_FILES, refused=refused.add))
        for link in sorted(refused - self._refused):
            log.warning("the link %s in %s leads out of this folder: it is left out", link, self.folder)
        self._refused = refused
        stamps = tuple((name, s.st_mtime_ns, s.st_ctime_ns, s.st_size, s.st_ino) for name, s in found)
        if self._known is not None and self._settled and stamps == self._stamps:
            return self._known, None
        newest = max((max(s.st_mtime_ns, s.st_ctime_ns) for _, s in found), default=0)
        self._settled = time.time_ns() - newest > _SETTLED
        files = dict[str, tuple[bytes, bool]]()
        if (size := sum(status.st_size for _, status in found)) > MOST_BYTES:
            large = max(found, key=lambda file: file.status.st_size)
            raise _too_large(size, f": {large.name} has {large.status.st_size:,} bytes")
        left = MOST_BYTES
        for name, status in found:
            try:
                with tree.open(name) as file:
                    content = file.read(left + 1)
            except NotThere:  # it has been exchanged meanwhile
                continue
            if (left := left - len(content)) < 0:
                raise _too_large(MOST_BYTES - left)  # it has grown meanwhile
            files[name] = content, is_executable(status)
        self._stamps, self._known = stamps, version_of(files)
        return self._known, files

    def forget(self) -> None:
        """Read everything the next time."""
        self._stamps, self._known = (), None


def _too_large(size: int, why: str = "") -> BundleError:
    return BundleError(f"the folder has {size:,} bytes, and {MOST_BYTES:,} are the limit of a snapshot{why}")


def version_of(files: dict[str, tuple[bytes, bool]]) -> str:
    """The hash of names and contents."""
    whole = hashlib.sha256()
    for name, (content, executable) in sorted(files.items()):
        digest = hashlib.sha256(content).hexdigest()
        whole.update(f"{name}\0{digest}{'x' if executable else ''}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()[:40]


def write_files(files: dict[str, tuple[bytes, bool]], target: Path) -> None:
    """Write the files into an empty folder."""
    for name, (content, executable) in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if executable:
            path.chmod(0o755)


def pack(files: dict[str, tuple[bytes, bool]]) -> bytes:
    """The files as a zip archive, for the database."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (content, executable) in sorted(files.items()):
            archive.writestr(entry_of(name, executable=executable), content)
    return packed.getvalue()


def is_executable(status: os.stat_result) -> bool:
    """Whether its owner may execute a file."""
    return bool(status.st_mode & stat.S_IXUSR)


def entry_of(name: str, *, executable: bool) -> zipfile.ZipInfo:
    """What a zip archive says of a file."""
    entry = zipfile.ZipInfo(name, _SAME_TIME)
    entry.external_attr = (0o100755 if executable else 0o100644) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _is_left_out(name: str) -> bool:
    is_hidden = name.startswith(".") and name not in _IGNORE_FILES
    return is_hidden or name == "__pycache__" or name.endswith(".pyc") or not name.isprintable()
