"""Versions of bundles as zip archives: what one may contain that comes from outside, and making one.

Nothing in an archive is trusted. One is made for machines that have only a way to a web server.
"""

from __future__ import annotations

import shutil
import stat
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, Final

from aiosched.bundles.snapshots import entry_of, is_executable
from aiosched.bundles.tree import Tree
from aiosched.errors import BundleError

MOST_BYTES: Final = 536_870_912  # unpacked
MOST_FILES: Final = 50_000
_CHUNK: Final = 1_048_576
_IN_MEMORY: Final = 16_777_216  # bytes of an archive that is made


def unpack(archive: Path | IO[bytes], target: Path, *, subfolder: str = "") -> None:
    """Write the files of a zip archive, or those of its `subfolder`, into the empty folder `target`.

    Raises BundleError for anything but plain files and folders inside it, and for too many bytes or files.
    """
    prefix = f"{subfolder}/" if subfolder else ""
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            _check(entries)
            wanted = [entry for entry in entries if entry.filename.startswith(prefix) and not entry.is_dir()]
            if prefix and not wanted:
                raise BundleError(f"the archive has no folder {subfolder}")
            for entry in wanted:
                _write(opened, entry, target / entry.filename.removeprefix(prefix))
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, RuntimeError) as error:
        raise BundleError(f"it is not a usable zip archive: {error}") from None
    except UnicodeDecodeError:
        raise BundleError("it is not a usable zip archive: a name cannot be decoded") from None
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise BundleError(f"the archive has two entries for one path: {Path(error.filename or '').name}") from None


def _check(entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > MOST_FILES:
        raise BundleError(f"the archive has {len(entries):,} files, and the limit is {MOST_FILES:,}")
    if (size := sum(entry.file_size for entry in entries)) > MOST_BYTES:
        raise BundleError(f"the archive has {size:,} bytes when unpacked, and the limit is {MOST_BYTES:,}")
    for entry in entries:
        parts = PurePosixPath(entry.filename).parts
        outside = entry.filename.startswith("/") or ".." in parts or "\\" in entry.filename or ":" in parts[:1]
        if outside or not parts or not entry.filename.isprintable():
            raise BundleError(f"the archive has a path that leads outside of it: {entry.filename!r:.200}")
        mode = entry.external_attr >> 16
        if mode and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_IFMT(mode) == 0):
            raise BundleError(f"the archive has a link or a special file: {entry.filename!r:.200}")


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    left = entry.file_size
    with archive.open(entry) as source, path.open("xb") as file:
        while chunk := source.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise BundleError(f"the archive says a wrong size of {entry.filename!r:.200}")
            file.write(chunk)
    if (entry.external_attr >> 16) & stat.S_IXUSR:
        path.chmod(0o755)


def pack_folder(folder: Path) -> bytes:
    """All files below a folder; byte code and links that lead out are left out. Blocking; raises OSError, BundleError.

    Who asks for it is a task, and who wrote it an author: neither reads a file of this machine through a link.
    """
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as packed, Tree(folder) as tree:
        with zipfile.ZipFile(packed, "w") as archive:
            for file in tree.files(skip=_is_byte_code, most=MOST_FILES, refused=lambda link: None):
                entry = entry_of(file.name, executable=is_executable(file.status))
                with tree.open(file.name) as source, archive.open(entry, "w") as target:
                    shutil.copyfileobj(source, target, _CHUNK)
        packed.seek(0)
        return packed.read()


def _is_byte_code(name: str) -> bool:
    return name == "__pycache__"
