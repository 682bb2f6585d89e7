"""Finds DAG files by walking the DAGs folder.

Lives here: finding `.py` files and zip archives, ignore files, safe mode, content hashes, and the cache that makes
listing an unchanged folder cheap. Reads the file system; does not decide when to parse.

Source: the semantics reference, section 30.3 and section 34, decision 15.
"""

from __future__ import annotations

import errno
import io
import os
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import pathspec

from aiosched.authoring.base.file_stamps import Stamp, open_regular, read_whole
from aiosched.authoring.dag.sources import content_of, digest_of
from aiosched.core.values.patterns import has_re2

MOST_ENTRIES: Final = 500_000  # files and folders
MOST_IN_IGNORE_FILE: Final = 2**20  # bytes
IGNORE_FILES: Final = (".airflowignore", ".aioschedignore")  # in this order: the last one wins
SYSTEM_WORDS: Final = (b"aiosched", b"airflow")
DAG_WORDS: Final = (b"dag", b"asset")


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
    """An unreadable entry of the folder: shown as the import error of `name`."""

    name: str
    message: str


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

    def __init__(self, root: Path, *, safe_mode: bool = True) -> None:
        self.root: Path = root.absolute()
        self._safe_mode = safe_mode
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
        for found in walk(self.root):
            if isinstance(found, FileProblem):
                problems[found.name] = found
                continue
            name, path, stamp = found
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
        return Listing(files, modules, problems)

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
        return _Entry(stamp, digest_of(content), not self._safe_mode or looks_like_dags(content), None)


def looks_like_dags(content: bytes) -> bool:
    """Safe mode: whether a file with this content should be imported."""
    lowered = content.lower()
    return any(word in lowered for word in SYSTEM_WORDS) and any(word in lowered for word in DAG_WORDS)


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


def walk(root: Path) -> Iterator[tuple[str, Path, Stamp] | FileProblem]:
    """Every file below `root` that no ignore file excludes, in name order, and the unreadable entries.

    Symlinks are followed; a symlink to a parent folder is a problem. Raises OSError, also for more than MOST_ENTRIES
    files and folders: links can make few of them many, or lead to all of this machine.
    """
    status = root.stat()
    os.scandir(root).close()  # an unreadable root is the caller's error, not a problem inside the folder
    yield from _walk(root, "", ((status.st_dev, status.st_ino),), (), count(1))


def _walk(
    folder: Path,
    prefix: str,
    above: tuple[tuple[int, int], ...],
    rules: tuple[IgnoreRules, ...],
    numbers: Iterator[int],
) -> Iterator[tuple[str, Path, Stamp] | FileProblem]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda e: e.name)
    except FileNotFoundError:
        return
    except OSError as error:
        yield FileProblem(prefix.rstrip("/"), f"{printable(str(folder))} cannot be read: {error.strerror}")
        return
    own = _ignore_rules(folder, prefix, {e.name for e in entries})
    if isinstance(own, FileProblem):
        yield own
    elif own is not None:
        rules = (*rules, own)
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
                yield from _walk(Path(entry.path), name + "/", (*above, identity), rules, numbers)
        elif entry.is_file():
            yield name, Path(entry.path), Stamp.of(status)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns of one folder's ignore files. `prefix` is that folder, relative to the root, ending in `/`."""

    prefix: str
    spec: pathspec.GitIgnoreSpec

    def verdict(self, name: str) -> bool | None:
        """True: ignored; False: kept by a `!` pattern; None: no pattern matches `name`."""
        return self.spec.check_file(name.removeprefix(self.prefix)).include


def is_ignored(name: str, rules: Iterable[IgnoreRules]) -> bool:
    """Whether `name` (relative to the root; folders end in `/`) is ignored.

    The innermost folder with a matching pattern decides; within it the last matching line.
    """
    for rule in reversed(tuple(rules)):
        verdict = rule.verdict(name)
        if verdict is not None:
            return verdict
    return False


def _ignore_rules(folder: Path, prefix: str, names: set[str]) -> IgnoreRules | FileProblem | None:
    lines: list[str] = []
    for name in IGNORE_FILES:
        if name not in names:
            continue
        try:
            found = read_whole(folder / name, most=MOST_IN_IGNORE_FILE)[0].decode().splitlines()
            wrong = next((number for number, line in enumerate(found, 1) if not _compiles(line)), None)
        except UnicodeDecodeError:
            problem = "it is not UTF-8"
        except OSError as error:
            problem = str(error.strerror)
        else:
            lines += found
            if wrong is None:
                continue
            problem = f"line {wrong} is no pattern"  # and not what it says: a link may lead to what nobody may see
        where = prefix + name
        return FileProblem(where, f"{where} cannot be used, so it ignores nothing: {problem}")
    return IgnoreRules(prefix, _compile(lines)) if lines else None


def _compiles(line: str) -> bool:
    try:
        _compile([line])
    except ValueError:
        return False
    return True


def _is_simple(line: str) -> bool:
    """Whether it has at most two `*` in each part of a path, and `**` at most once."""
    return line.count("**") <= 1 and all(part.count("*") <= 2 for part in line.split("/"))


def _compile(lines: Sequence[str]) -> pathspec.GitIgnoreSpec:
    """The patterns of ignore files, matched in linear time. Raises ValueError.

    Without RE2, whose time no pattern can stretch, only those that backtracking matches fast: see `_is_simple`.
    """
    if not has_re2() and not all(map(_is_simple, lines)):
        raise ValueError("it has more wildcards than can be matched without RE2")
    return pathspec.GitIgnoreSpec.from_lines(lines, backend="re2" if has_re2() else "simple")
