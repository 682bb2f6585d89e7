"""One folder of a store that fsspec knows, such as `s3://bucket/prefix` or `file:///shared/logs`.

fsspec is imported when a folder is opened, and only then. All methods block and may be called from any thread. A folder
with a time limit calls the store in helper threads and gives up waiting after it: such a thread cannot be ended, so
when too many of them hang, further calls fail at once.
"""

from __future__ import annotations

import contextlib
import json
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

from aiosched.config.secrecy import hide_password
from aiosched.errors import ConfigError, RemoteStorageError

T = TypeVar("T")

_MOST_HANGING: Final = 16  # calls of one folder that do not come back
_WITH_BUCKETS: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss"})
_COPY: Final = 2**20  # bytes that are copied at once
_MODIFIED: Final = ("mtime", "LastModified", "last_modified", "updated", "created")  # names of one fact, by store


class RemoteFile(NamedTuple):
    """A file in a listing: its path below the folder, its size, and when it was written (seconds since 1970)."""

    path: str
    size: int
    modified: float


class RemoteFolder:
    """A folder in remote storage. Paths are relative to it. To read a missing file raises FileNotFoundError; every
    other failure is a RemoteStorageError that names the address. `setting` is the setting that has the URL, and
    `limit` the seconds that one call may take.
    """

    def __init__(self, url: str, options: str | None = None, *, setting: str, limit: float | None = None) -> None:
        self.url: str = hide_password(url.rstrip("/"))
        self.setting = setting
        self._limit = limit
        self._hanging: set[threading.Thread] = set()
        self._fs, self._root = _open(url, options, setting)
        self._is_local = type(self._fs).__name__ == "LocalFileSystem"
        self._has_buckets = url.partition("://")[0] in _WITH_BUCKETS

    def url_of(self, path: str) -> str:
        """The address of a file, as shown to people."""
        return f"{self.url}/{path}"

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file. A reader sees the old file or the new one, if the store can do that."""
        self._call(path, lambda: self._write(path, lambda file: file.write(data), data))

    def copy_from(self, path: str, source: BinaryIO, start: int, end: int) -> None:
        """Create or replace a file with the bytes from `start` to `end` of an open one, piece by piece."""

        def copy(target: Any) -> None:
            source.seek(start)
            left = end - start
            while left and (piece := source.read(min(left, _COPY))):
                target.write(piece)
                left -= len(piece)

        self._call(path, lambda: self._write(path, copy, None))

    def read(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        """The content of a file, or its bytes from `start` to `end`."""
        found: bytes | None = self._call(
            path, lambda: self._fs.cat_file(self._at(path), start=start, end=end), missing=None
        )
        if found is None:
            raise FileNotFoundError(self.url_of(path))
        return found

    def files(self, path: str) -> list[RemoteFile]:
        """The files in a folder, without those in folders below it; [] if there is no such folder."""

        def work() -> list[RemoteFile]:
            self._fs.invalidate_cache()
            return [self._file(info) for info in self._fs.ls(self._at(path), detail=True) if info["type"] == "file"]

        return self._call(path, work, missing=list[RemoteFile]())

    def folders(self, path: str) -> list[str]:
        """The paths of the folders in a folder."""

        def work() -> list[str]:
            self._fs.invalidate_cache()
            found = self._fs.ls(self._at(path), detail=True)
            return [self._below(info["name"]) for info in found if info["type"] == "directory"]

        return self._call(path, work, missing=list[str]())

    def find(self, path: str) -> list[RemoteFile]:
        """All files below a folder; [] if there is no such folder."""

        def work() -> list[RemoteFile]:
            self._fs.invalidate_cache()
            return [self._file(info) for info in self._fs.find(self._at(path), detail=True).values()]

        return self._call(path, work, missing=list[RemoteFile]())

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files; those that do not exist are left out."""
        for path in paths:
            self._call(path, lambda path=path: self._fs.rm_file(self._at(path)), missing=None)  # type: ignore[misc]
            self._remove_empty(path)

    def remove_tree(self, path: str) -> int:
        """Remove a folder with everything below it; returns the number of files."""
        files = self.find(path)
        if files or self._is_local:
            self._call(path, lambda: self._fs.rm(self._at(path), recursive=True), missing=None)
            self._remove_empty(path)
        return len(files)

    def _remove_empty(self, path: str) -> None:
        """Remove the folders above a removed file that are empty now: only file systems have folders of their own."""
        if self._is_local:
            with contextlib.suppress(OSError):
                for folder in list(PurePosixPath(path).parents)[:-1]:
                    Path(self._at(folder.as_posix())).rmdir()

    def _write(self, path: str, fill: Callable[[Any], Any], data: bytes | None) -> None:
        at = self._at(path)
        if self._is_local:  # no partial file is ever seen under this name
            target = Path(at)
            self._make_folders(target.parent)
            new = target.parent / f".{token_hex(8)}.new"
            try:
                with new.open("wb") as file:
                    fill(file)
                new.replace(target)
            finally:
                new.unlink(missing_ok=True)
            return
        try:
            self._put(at, fill, data)
        except FileNotFoundError:  # a store with real folders; in others the bucket is missing
            if self._has_buckets:
                raise
            self._fs.makedirs(str(PurePosixPath(at).parent), exist_ok=True)
            self._put(at, fill, data)

    def _make_folders(self, folder: Path) -> None:
        """Make what is missing. Each gets the mode of the store's own folder: tasks may run as several users."""
        root = Path(self._at(""))
        mode = stat.S_IMODE(root.stat().st_mode) if root.is_dir() else None
        for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
            try:
                missing.mkdir(parents=True)
            except FileExistsError:
                continue
            if mode is not None:
                missing.chmod(mode)

    def _put(self, at: str, fill: Callable[[Any], Any], data: bytes | None) -> None:
        if data is not None:
            self._fs.pipe_file(at, data)
            return
        with self._fs.open(at, "wb") as file:
            fill(file)

    def _at(self, path: str) -> str:
        if not path:
            return self._root
        if path.startswith("/") or ".." in path.split("/"):
            raise RemoteStorageError(f"{path!r} is not a path below {self.url}: this is a bug in aiosched.")
        return f"{self._root}/{path}"

    def _below(self, name: str) -> str:
        root = self._root.strip("/")
        return name.strip("/").removeprefix(root).strip("/")

    def _file(self, info: Mapping[str, Any]) -> RemoteFile:
        return RemoteFile(self._below(info["name"]), int(info["size"] or 0), _modified(info))

    def _call(self, path: str, work: Callable[[], T], *, missing: Any = NotImplemented) -> T:
        """The result of `work`; `missing` if the file does not exist, when it is given."""
        try:
            return work() if self._limit is None else self._within_limit(work, self._limit)
        except RemoteStorageError as error:
            raise RemoteStorageError(f"{self.url_of(path)}: {error}") from None
        except Exception as error:
            if missing is not NotImplemented and isinstance(error, FileNotFoundError | NotADirectoryError):
                found: T = missing
                return found
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise RemoteStorageError(
                f"{self.url_of(path)} cannot be used: {text}. Check {self.setting}, the credentials in the environment "
                f"or in {self.setting}_options, and whether the store answers."
            ) from error

    def _within_limit(self, work: Callable[[], T], limit: float) -> T:
        self._hanging = {thread for thread in self._hanging if thread.is_alive()}
        if len(self._hanging) >= _MOST_HANGING:
            raise RemoteStorageError(f"the store does not answer: {_MOST_HANGING} earlier calls still wait for it.")
        result: list[T] = []
        failure: list[BaseException] = []

        def run() -> None:
            try:
                result.append(work())
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=run, name="aiosched remote storage", daemon=True)
        thread.start()
        thread.join(limit)
        if thread.is_alive():
            self._hanging.add(thread)
            raise RemoteStorageError(f"the store did not answer within {limit:g} s.")
        if failure:
            raise failure[0]
        return result[0]


def open_folder(
    url: str | None, options: str | None = None, *, setting: str, limit: float | None = None
) -> RemoteFolder | None:
    """The folder of a setting, None if it is unset. Raises ConfigError."""
    return None if url is None else RemoteFolder(url, options, setting=setting, limit=limit)


def _open(url: str, options: str | None, setting: str) -> tuple[Any, str]:
    try:
        import fsspec.core
    except ImportError:
        raise ConfigError(
            f"{setting} needs the package fsspec, which is not installed: pip install 'aiosched[remote]'"
        ) from None
    shown = hide_password(url)
    try:
        fs, root = fsspec.core.url_to_fs(url, **json.loads(options or "{}"))
    except ImportError as error:
        package = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
        name = package.get(url.partition("://")[0])
        hint = f"pip install {name}" if name else " ".join(str(error).split())
        raise ConfigError(f"{setting} = {shown} needs a package that is not installed: {hint}") from None
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"{setting} = {shown} cannot be opened: {text}. Check it and {setting}_options.") from None
    return fs, str(root).rstrip("/")


def _modified(info: Mapping[str, Any]) -> float:
    """When a file was written; now if the store does not say, so that it does not count as old."""
    for name in _MODIFIED:
        value = info.get(name)
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                continue
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float):
            return float(value)
    return datetime.now(UTC).timestamp()
