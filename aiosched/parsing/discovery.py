"""Finds DAG files by walking the DAGs folder.

Lives here: finding `.py` files and zip archives, safe mode, content hashes, and the cache that makes listing an
unchanged folder cheap. Reads the file system; does not decide when to parse, and what is ignored is in ignore_files.py.

Source: the semantics reference, section 30.3 and section 34, decision 15.
"""

from __future__ import annotations

import errno
import io
import os
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from aiosched.authoring.base.file_stamps import Stamp, open_regular, read_whole
from aiosched.authoring.dag.sources import content_of, digest_of, may_define_dags
from aiosched.parsing.ignore_files import IgnoreRules, ignore_rules, is_ignored

if TYPE_CHECKING:
    from aiosched.config import Settings

MOST_ENTRIES: Final = 500_000  # files and folders


@dataclass(frozen=True, slots=True)
class DagFile:
    """A file that may define DAGs. `name` is its key everywhere: relative to the DAGs folder, with `/`."""

    name: str
    path: Path  # of the file, or of the archive for a member
    digest: str  # SHA-256 of the content; of the whole archive for a member
    mtime_ns: int
    member: str | None = None  # the module inside an archive
    root: Path | None = None  # the folder that it belongs to; None: that of the pool
    bundle: str | None = None
    version: str | None = None  # of the bundle


@dataclass(frozen=True, slots=True)
class FileProblem:
    """An unreadable entry of the folder: shown as the import error of `name`.

    `hides`: the prefix of files that are not listed because of it.
    """

    name: str
    message: str
    hides: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A snapshot of the folder."""

    files: Mapping[str, DagFile] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)  # importable files -> digest; see `Discovery.list`
    problems: Mapping[str, FileProblem] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()  # prefixes of files that could not be listed at all

    def hides(self, name: str) -> bool:
        """Whether a file of this name can exist although it is not listed: its folder or archive cannot be read."""
        if any(name.startswith(prefix) for prefix in self.unknown):
            return True
        parts = name.split("/")
        return any("/".join(parts[:n]) in self.problems for n in range(1, len(parts)))


class FileSelection(NamedTuple):
    """Which files of a folder count: those of safe mode, and those that ignore files leave (see ignore_rules)."""

    safe_mode: bool = True
    ignore_syntax: str = "by file"

    @classmethod
    def of(cls, settings: Settings) -> FileSelection:
        """That of the settings."""
        return cls(settings.core.dag_discovery_safe_mode, settings.core.dag_ignore_file_syntax)


class _Entry(NamedTuple):
    stamp: Stamp
    digest: str
    may_define_dags: bool
    members: tuple[str, ...] | None  # None: not an archive

    def holds(self, stamp: Stamp, now_ns: int) -> bool:
        """Whether a file with this stamp certainly still has the same content."""
        return self.stamp == stamp and stamp.is_settled(now_ns)


class Discovery:
    """Lists one DAGs folder repeatedly, reading only files that changed in between. Not thread-safe."""

    def __init__(self, root: Path, selection: FileSelection) -> None:
        self.root: Path = root.absolute()
        self._selection = selection
        self._cache: dict[str, _Entry] = {}

    def list(self, *, now_ns: int, imported: Collection[str] = ()) -> Listing:
        """List the folder; `now_ns` is the wall clock time, in nanoseconds since the epoch.

        Hidden files, hidden folders and `__pycache__` are left out. `modules` are all other `.py` files, all archives
        with DAG files, and the existing files among `imported`, which DAG files have imported, even if ignored. Raises
        OSError if the folder itself cannot be read, which says nothing about its files.
        """
        files: dict[str, DagFile] = {}
        modules: dict[str, str] = {}
        problems: dict[str, FileProblem] = {}
        cache: dict[str, _Entry] = {}
        for found in walk(self.root, self._selection.ignore_syntax):
            if isinstance(found, FileProblem):
                problems[found.name] = found
                continue
            name, path, stamp, _ = found
            try:
                entry = self._entry(path, stamp, now_ns)
            except FileNotFoundError:
                continue  # deleted since the folder was read
            except OSError as error:
                problems[name] = FileProblem(name, f"{name} cannot be read: {error.strerror}")
                continue
            except zipfile.BadZipFile as error:
                problems[name] = FileProblem(name, damage(name, error))
                continue
            cache[str(path)] = entry
            if entry.may_define_dags and (wrong := wrong_name(path)) is not None:
                problems[name] = FileProblem(name, wrong)
                continue
            if entry.members is not None:
                if entry.digest:
                    modules[name] = entry.digest
                for member in entry.members:
                    key = f"{name}/{member}"
                    files[key] = DagFile(key, path, entry.digest, stamp.mtime_ns, member)
            elif path.suffix == ".py":
                modules[name] = entry.digest
                if entry.may_define_dags:
                    files[name] = DagFile(name, path, entry.digest, stamp.mtime_ns)
        for name in imported:
            if name not in modules and (ignored := self._ignored(self.root / name, now_ns)) is not None:
                cache[str(self.root / name)] = ignored
                modules[name] = ignored.digest
        self._cache = cache
        hidden = frozenset(problem.hides for problem in problems.values() if problem.hides is not None)
        return Listing(files, modules, problems, hidden)

    def _ignored(self, path: Path, now_ns: int) -> _Entry | None:
        """A file that was imported or read although it is not listed; or a folder, with the names in it."""
        try:
            stamp, known = Stamp.of(path.stat()), self._cache.get(str(path))
            if known is None or not known.holds(stamp, now_ns):
                content, stamp = content_of(path)
                known = _Entry(stamp, digest_of(content), False, None)
        except OSError:
            return None
        return known

    def _entry(self, path: Path, stamp: Stamp, now_ns: int) -> _Entry:
        known = self._cache.get(str(path))
        if known is not None and known.holds(stamp, now_ns):
            return known
        if path.suffix != ".py":
            members, digest = read_archive(path) or (None, "")
            return _Entry(stamp, digest if members else "", bool(members), members)
        content, stamp = read_whole(path)
        return _Entry(stamp, digest_of(content), not self._selection.safe_mode or may_define_dags(content), None)


def read_archive(path: Path) -> tuple[tuple[str, ...], str] | None:
    """The modules at the root of a zip archive, sorted, and its digest; None for any other file, whatever its name.

    Raises BadZipFile for a damaged archive: what is named `.zip` and is none counts as one that was copied in part.
    Raises OSError if such a file cannot be read or is too large.
    """
    is_named_so = path.suffix.lower() == ".zip"
    try:
        with open_regular(path) as stream:
            if not zipfile.is_zipfile(stream):
                if is_named_so:
                    raise zipfile.BadZipFile("it is no archive, or a part of one")
                return None
        content, _ = read_whole(path)
    except OSError:
        if is_named_so:
            raise
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = tuple(sorted(n for n in archive.namelist() if "/" not in n and n.endswith(".py")))
    except (ValueError, NotImplementedError) as error:  # of damaged names and numbers
        raise zipfile.BadZipFile(str(error)) from error
    return members, digest_of(content)


def damage(name: str, error: zipfile.BadZipFile) -> str:
    """What to do about the damaged archive `name`."""
    return (
        f"{name} cannot be read as a zip archive ({error}): it is damaged, or still being copied. Its DAGs stay as "
        "they were. Copy it again, best under a hidden name, and rename it then. If it has no DAGs, name it in an "
        ".aioschedignore file."
    )


def printable(name: str) -> str:
    """`name` as storable text: non-UTF-8 bytes and NUL are escaped."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def wrong_name(path: Path) -> str | None:
    """What to do about the name of a DAG file that cannot be stored; None if there is nothing to do."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return f"The name {printable(str(path))} is not UTF-8. Rename the file or folder."
    return None


class _Found(NamedTuple):
    """A file of the folder."""

    name: str
    path: Path
    stamp: Stamp
    is_linked: bool  # a symbolic link leads to it, or to one of its folders


def walk(root: Path, ignore_syntax: str) -> Iterator[_Found | FileProblem]:
    """Every file below `root` that no ignore file excludes, in name order, and the unreadable entries.

    Symlinks are followed, but for those to files that are found here without them: these are read where they lie, so
    that nobody gets the file of another team into a folder of their own. A symlink to a parent folder is a problem.
    Raises OSError, also for more than MOST_ENTRIES files and folders: links can make few of them many, or lead to all
    of this machine.
    """
    status = root.stat()
    os.scandir(root).close()  # an unreadable root is the caller's error, not a problem inside the folder
    found = list(_walk(root, "", ((status.st_dev, status.st_ino),), (), count(1), ignore_syntax, is_linked=False))
    here = {_identity(each.stamp) for each in found if isinstance(each, _Found) and not each.is_linked}
    for each in found:
        if isinstance(each, FileProblem) or not each.is_linked or _identity(each.stamp) not in here:
            yield each


def _identity(stamp: Stamp) -> tuple[int, int]:
    return stamp.device, stamp.inode


def _walk(
    folder: Path,
    prefix: str,
    above: tuple[tuple[int, int], ...],
    rules: tuple[IgnoreRules, ...],
    numbers: Iterator[int],
    ignore_syntax: str,
    *,
    is_linked: bool,
) -> Iterator[_Found | FileProblem]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda e: e.name)
    except FileNotFoundError:
        return
    except OSError as error:
        yield FileProblem(prefix.rstrip("/"), f"{printable(str(folder))} cannot be read: {error.strerror}")
        return
    own, wrong = ignore_rules(folder, prefix, {e.name for e in entries}, ignore_syntax)
    rules = (*rules, *own)
    if wrong is not None:
        yield FileProblem(wrong.name, wrong.message, prefix if wrong.hides else None)
        if wrong.hides:
            return
    for entry in entries:
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        if next(numbers) > MOST_ENTRIES:
            where = f"{printable(str(folder))} and the folders before it"
            raise OSError(
                errno.E2BIG, f"{where} have more than {MOST_ENTRIES:,} files and folders: do links multiply them?"
            )
        name = prefix + printable(entry.name)
        try:
            status = entry.stat()
            is_folder = entry.is_dir()
        except FileNotFoundError:
            continue  # a symlink to nothing, or deleted since
        except OSError as error:
            yield FileProblem(name, f"{name} cannot be read: {error.strerror}")
            continue
        if is_ignored(name + "/" if is_folder else name, rules):
            continue
        if is_folder:
            identity = (status.st_dev, status.st_ino)
            if identity in above:
                yield FileProblem(
                    name,
                    f"{name} is a symbolic link to a folder that contains it: the DAGs folder has no end. "
                    "Remove the link, or name it in an .aioschedignore file.",
                )
            else:
                path, inside = Path(entry.path), (*above, identity)
                through = is_linked or entry.is_symlink()
                yield from _walk(path, name + "/", inside, rules, numbers, ignore_syntax, is_linked=through)
        elif entry.is_file():
            yield _Found(name, Path(entry.path), Stamp.of(status), is_linked or entry.is_symlink())
