"""A folder as a version: all its files as they are now, named by the hash of their content.

Hidden files are left out, except ignore files, and so is byte code. Links are followed: what they lead to is copied.
The files of a snapshot are those whose content was hashed: nothing is read twice.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aiosched.errors import BundleError

MOST_BYTES: Final = 67_108_864
MOST_FILES: Final = 20_000
_IGNORE_FILES: Final = frozenset({".airflowignore", ".aioschedignore"})
_SAME_TIME: Final = (1980, 1, 1, 0, 0, 0)
_EXECUTABLE: Final = 0o100
_SETTLED: Final = 2_000_000_000  # ns; after a more recent change a second one may leave the same stamp


class FolderReader:
    """Reads one folder again and again; the content of files that have certainly not changed is kept as a hash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stamps: tuple[tuple[str, int, int, int, int], ...] = ()
        self._known: str | None = None
        self._settled = False  # every later change gives another stamp

    def read(self) -> tuple[str, dict[str, tuple[bytes, bool]] | None]:
        """The version, and the files: content, and whether it is executable; None if nothing has changed.

        Raises BundleError if it is too large, OSError if it cannot be read.
        """
        root = self.folder.stat()
        os.scandir(self.folder).close()
        found = list(_walk(str(self.folder), "", ((root.st_dev, root.st_ino),)))
        stamps = tuple((name, s.st_mtime_ns, s.st_ctime_ns, s.st_size, s.st_ino) for name, _, s in found)
        if self._known is not None and self._settled and stamps == self._stamps:
            return self._known, None
        if len(found) > MOST_FILES:
            raise BundleError(f"the folder has {len(found):,} files, and a snapshot at most {MOST_FILES:,}")
        if (size := sum(s.st_size for _, _, s in found)) > MOST_BYTES:
            raise BundleError(f"the folder has {size:,} bytes, and a snapshot at most {MOST_BYTES:,}")
        newest = max((max(s.st_mtime_ns, s.st_ctime_ns) for _, _, s in found), default=0)
        self._settled = time.time_ns() - newest > _SETTLED
        files = dict[str, tuple[bytes, bool]]()
        for name, path, status in found:
            try:
                content = Path(path).read_bytes()
            except FileNotFoundError:
                continue
            files[name] = content, bool(status.st_mode & _EXECUTABLE)
        self._stamps, self._known = stamps, version_of(files)
        return self._known, files

    def forget(self) -> None:
        """Read everything the next time."""
        self._stamps, self._known = (), None


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
            entry = zipfile.ZipInfo(name, _SAME_TIME)
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return packed.getvalue()


def _walk(folder: str, prefix: str, above: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, str, os.stat_result]]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        hidden = entry.name.startswith(".") and entry.name not in _IGNORE_FILES
        if hidden or entry.name == "__pycache__" or entry.name.endswith(".pyc") or not entry.name.isprintable():
            continue
        try:
            status = entry.stat()
            if entry.is_dir():
                identity = (status.st_dev, status.st_ino)
                if identity not in above:  # else a link to a folder that contains it
                    yield from _walk(entry.path, f"{prefix}{entry.name}/", (*above, identity))
            elif entry.is_file():
                yield prefix + entry.name, entry.path, status
        except FileNotFoundError:
            continue
