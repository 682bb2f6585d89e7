"""The logs of attempts, wherever they are: on this machine, in remote storage, or in both.

The log of a try is what each machine has written, in the order in which they began. What this machine has written is
read from its local file, which is ahead of the store; the rest comes from the store. If the store cannot be read, the
local file is shown alone, if there is one.
"""

from __future__ import annotations

import io
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Final

from aiosched.errors import RemoteStorageError
from aiosched.remote.folder import RemoteFolder, open_folder
from aiosched.remote.log_ranges import LogRange, chain, range_of, segments
from aiosched.remote.pending import known_machine
from aiosched.remote.plain_files import open_plain, plain_names, plain_size

if TYPE_CHECKING:
    from aiosched.config import Settings

logger: logging.Logger = logging.getLogger(__name__)

_LIMIT: Final = 15.0  # seconds that one call of the store may take
_PIECE: Final = 2**20  # bytes that are read from the store at once
_KEPT: Final = 64  # such pieces
_UPLOADED_WITHIN: Final = 8.0  # seconds after the end of an attempt, if the store answers
_FRESH: Final = 1.0  # seconds for which a listing is used again


@dataclass(frozen=True, slots=True)
class _Piece:
    """Consecutive bytes of a log: of a local file, of a file in the store, or a text that says what is missing."""

    size: int
    begin: int = 0  # in the file
    local: str | None = None  # its path below the logs folder
    remote: str | None = None
    text: bytes = b""


class LogView:
    """The log of one try, as it is now. Its bytes are those of its pieces, one after the other."""

    def __init__(self, logs: AttemptLogs, pieces: Sequence[_Piece], again: Callable[[], LogView]) -> None:
        self._logs, self._pieces, self._again = logs, pieces, again

    @property
    def size(self) -> int:
        """The number of bytes; 0 for a try without output."""
        return sum(piece.size for piece in self._pieces)

    def open(self, mode: str = "rb") -> BinaryIO:
        """The log as a binary file, like `Path.open`."""
        return io.BufferedReader(_LogFile(self), 2**17)

    def read(self, start: int, most: int) -> bytes:
        """At most so many bytes from `start`; fewer at the end of a piece, none at the end of the log."""
        try:
            return self._read(start, most)
        except FileNotFoundError:  # put together with others, or removed here after its upload: the bytes are the same
            self._pieces = self._again()._pieces
            return self._read(start, most)

    def lines(self, offset: int) -> tuple[str, int]:
        """Whole lines from byte `offset`, about 1 MiB at most, and the next offset; ("", offset) if there are none.

        A line that is longer than that is split.
        """
        data = b""
        while len(data) < _PIECE and (more := self.read(offset + len(data), _PIECE - len(data))):
            data += more
        end = data.rfind(b"\n") + 1 or (len(data) if len(data) == _PIECE else 0)
        return data[:end].decode("utf-8", "replace"), offset + end

    def followed_by(self, text: bytes) -> LogView:
        """The same log with `text` at its end."""
        return LogView(
            self._logs, [*self._pieces, _Piece(len(text), text=text)], lambda: self._again().followed_by(text)
        )

    def _read(self, start: int, most: int) -> bytes:
        for piece in self._pieces:
            if start < piece.size:
                return self._logs._read(piece, start, min(most, piece.size - start))
            start -= piece.size
        return b""


class _LogFile(io.RawIOBase):
    def __init__(self, view: LogView) -> None:
        super().__init__()
        self._view, self._at, self._size = view, 0, view.size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._view.read(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class AttemptLogs:
    """Finds, reads and removes the logs of attempts. Folders are those of log_files.py, relative to `folder`.

    Everything blocks. `remote` None: there are only local files.
    """

    def __init__(
        self, folder: Path, remote: RemoteFolder | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder: Path = folder
        self.remote: RemoteFolder | None = remote
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._listings: dict[str, tuple[float, list[LogRange]]] = {}
        self._kept: dict[tuple[str, int], bytes] = {}  # least recently used first

    @classmethod
    def of(cls, settings: Settings) -> AttemptLogs:
        """Those that the settings say. Raises ConfigError."""
        logs = settings.logs
        return cls(
            settings.logs_folder,
            open_folder(logs.remote, logs.remote_options, setting="logs.remote", limit=_LIMIT),
        )

    @property
    def where(self) -> str:
        """The places that are looked in."""
        return str(self.folder) if self.remote is None else f"{self.folder} and {self.remote.url}"

    def tries(self, folder: str) -> list[int]:
        """The numbers of the tries that wrote a log, ascending."""
        found = set[int]()
        for name in plain_names(self.folder, folder):
            number = name.removeprefix("attempt=").removesuffix(".log")
            if name == f"attempt={number}.log" and number.isdecimal():
                found.add(int(number))
        return sorted(found | {one.attempt for one in self._listed(folder, excused=True)})

    def view(self, folder: str, attempt: int) -> LogView:
        """The log of a try. Raises RemoteStorageError if it can neither be read from the store nor is it here."""
        local = f"{folder}/attempt={attempt}.log"
        here = plain_size(self.folder, local)
        size = -1 if here is None else here
        found = segments(one for one in self._listed(folder, excused=size >= 0) if one.attempt == attempt)

        def again() -> LogView:
            with self._lock:
                self._listings.pop(folder, None)
            return self.view(folder, attempt)

        return LogView(self, self._pieces(folder, found, local, size), again)

    def are_settled(self, folder: str, attempt: int, ended_at: datetime | None) -> bool:
        """Whether the log of a try that ended at that time is complete here: its last lines are uploaded after it."""
        if self.remote is None or ended_at is None or (self.folder / folder / f"attempt={attempt}.log").exists():
            return True
        return (datetime.now(UTC) - ended_at).total_seconds() > _UPLOADED_WITHIN

    def count(self, folder: str) -> int:
        """The number of log files in a folder of a run, here and in the store."""
        here = sum(1 for _ in (self.folder / folder).rglob("attempt=*.log"))
        return here + (0 if self.remote is None else len(self.remote.find(folder)))

    def remove(self, folder: str) -> int:
        """Remove a folder of a run, here and in the store; returns the number of files.

        Local files that cannot be removed stay. Raises RemoteStorageError.
        """
        gone = 0 if self.remote is None else self.remote.remove_tree(folder)
        path = self.folder / folder
        here = sum(1 for _ in path.rglob("attempt=*.log"))
        shutil.rmtree(path, ignore_errors=True)
        return gone + here - sum(1 for _ in path.rglob("attempt=*.log"))

    def remove_old(self, before: float, kept: Callable[[str], bool]) -> int:
        """Remove from the store the folders of runs without writes since `before` (seconds since 1970).

        Those for which `kept` is true stay. Returns the number of runs. Lists all logs in the store.
        """
        number = 0
        for dag in [] if self.remote is None else self.remote.folders(""):
            newest = dict[str, float]()
            for file in self.remote.find(dag) if self.remote is not None and dag.startswith("dag_id=") else []:
                run = "/".join(file.path.split("/")[:2])
                newest[run] = max(newest.get(run, 0.0), file.modified)
            for run, written in newest.items():
                if written < before and self.remote is not None and not kept(run):
                    self.remote.remove_tree(run)
                    number += 1
        return number

    def _pieces(self, folder: str, found: dict[str, list[LogRange]], local: str, size: int) -> list[_Piece]:
        here = known_machine(self.folder)
        ours = [ranges[0].start for ranges in found.values() if ranges[0].machine == here] if size >= 0 else []
        if ours and max(ours) > size:  # the file was removed and begun anew
            ours = []
        pieces: list[_Piece] = []
        if ours and ours[0] > 0:
            pieces.append(_Piece(ours[0], local=local))
        for ranges in found.values():
            if ours and ranges[0].machine == here:
                start = ranges[0].start
                later = [begin for begin in ours if begin > start]
                pieces.append(_Piece((later[0] if later else size) - start, start, local=local))
            else:
                pieces += self._pieces_of(folder, ranges)
        if size > 0 and not ours:
            pieces.append(_Piece(size, local=local))
        return [piece for piece in pieces if piece.size > 0]

    def _pieces_of(self, folder: str, ranges: list[LogRange]) -> list[_Piece]:
        """What a segment consists of; a gap is named."""
        pieces: list[_Piece] = []
        at, last = ranges[0].start, max(one.end for one in ranges)
        while True:
            for one in (parts := chain(ranges, at))[0]:
                pieces.append(_Piece(one.end - at, at - one.start, remote=f"{folder}/{one.name}"))
                at = one.end
            if (at := parts[1]) >= last:
                return pieces
            following = min(one.start for one in ranges if one.start > at)
            text = (
                f"... {following - at:,} bytes of the log are missing in {self.remote and self.remote.url}\n".encode()
            )
            pieces.append(_Piece(len(text), text=text))
            at = following

    def _listed(self, folder: str, *, excused: bool) -> list[LogRange]:
        """The complete ranges in a folder of the store; [] if it cannot be read and that is `excused`."""
        if self.remote is None:
            return []
        now = self._monotonic()
        with self._lock:
            self._listings = {name: one for name, one in self._listings.items() if one[0] > now}
            if folder in self._listings:
                return self._listings[folder][1]
        try:
            files = self.remote.files(folder)
        except RemoteStorageError as error:
            if not excused:
                raise
            logger.warning("only the logs on this machine are shown: %s", error)
            files = []
        found = [one for file in files if (one := range_of(PurePosixPath(file.path).name, file.size)) is not None]
        with self._lock:
            self._listings[folder] = self._monotonic() + _FRESH, found
        return found

    def _read(self, piece: _Piece, start: int, most: int) -> bytes:
        begin = piece.begin + start
        if piece.local is not None:
            file = open_plain(self.folder, piece.local)
            if file is None:
                raise FileNotFoundError(piece.local)
            with file:
                file.seek(begin)
                return file.read(most)
        if piece.remote is None or self.remote is None:
            return piece.text[begin : begin + most]
        number, offset = divmod(begin, _PIECE)
        return self._kept_piece(piece.remote, number)[offset : offset + most]

    def _kept_piece(self, path: str, number: int) -> bytes:
        """A piece of a file in the store; the files never change."""
        assert self.remote is not None
        key = (path, number)
        with self._lock:
            if (known := self._kept.pop(key, None)) is not None:
                self._kept[key] = known
                return known
        data = self.remote.read(path, number * _PIECE, (number + 1) * _PIECE)
        with self._lock:
            self._kept[key] = data
            if len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
        return data
