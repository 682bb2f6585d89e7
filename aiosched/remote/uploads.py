"""Writes the log files of this machine to remote storage while they grow, in a few threads of its own.

A log file is the buffer between a task and the store: the task writes only to the file, so a store that is down or slow
never fails or delays it. Here the file is read and written to the store in ranges, a new one every few seconds while
the log grows. Many ranges are put together into one, and all of them once no process writes the log any more. What
cannot be written is tried again after growing pauses, and after a restart.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from aiosched.errors import RemoteStorageError
from aiosched.remote.folder import RemoteFolder
from aiosched.remote.log_ranges import LogRange, chain, range_of
from aiosched.remote.pending import PendingLog, list_pending, lock, lock_uploader
from aiosched.remote.plain_files import open_plain

logger: logging.Logger = logging.getLogger(__name__)

INTERVAL: Final = 2.0  # seconds between two passes
_THREADS: Final = 16
LARGEST: Final = 8 * 2**20  # bytes of one range while the log grows
_MOST_RANGES: Final = 50  # of one log, before small ones are put together
_LEAST_MERGED: Final = 25
_LOOK_AGAIN: Final = 0.1  # seconds between two passes while stopping
_FIRST_PAUSE: Final = 2.0  # seconds after a failure; doubled with each in a row, up to _LAST_PAUSE
_LAST_PAUSE: Final = 60.0
_ABANDONED: Final = 600.0  # seconds after which a log whose secrets nobody has masked stays on this machine


@dataclass(slots=True, eq=False)
class _Upload:
    """What is known about one pending log."""

    log: PendingLog
    ranges: list[LogRange] | None = None  # in remote storage; None: not listed yet
    done: int = 0  # where these end, without a gap
    pause: float = 0.0
    due: float = 0.0  # monotonic
    busy: bool = False

    @property
    def attempt(self) -> int:
        return int(PurePosixPath(self.log.path).name.removeprefix("attempt=").removesuffix(".log"))

    @property
    def folder(self) -> str:
        return PurePosixPath(self.log.path).parent.as_posix()

    def range(self, start: int, end: int) -> LogRange:
        machine = self.log.segment.partition("-")[2]
        return LogRange(self.attempt, self.log.segment, machine, start, end)


@dataclass(eq=False)
class LogUploader:
    """Uploads the logs below `logs` to `folder`; only one process does so for a logs folder at a time.

    With `keep_local` unset a local file is removed once its log is complete in the store.
    """

    logs: Path
    folder: RemoteFolder
    keep_local: bool = True
    interval: float = INTERVAL
    monotonic: Callable[[], float] = time.monotonic
    _known: dict[str, _Upload] = field(default_factory=dict)
    _lock: int | None = None
    _failing: bool = False
    _began: bool = False  # a first pass was made
    _jobs: queue.SimpleQueue[_Upload | None] = field(default_factory=queue.SimpleQueue)
    _settled: threading.Condition = field(default_factory=threading.Condition)
    _wake: threading.Event = field(default_factory=threading.Event)
    _stopping: bool = False
    _thread: threading.Thread | None = None

    # -- threads

    def start(self) -> None:
        """Start the threads; what a former process left is uploaded, too.

        Raises OSError if the folder cannot be written to, or has no locks.
        """
        self._lock = lock_uploader(self.logs)
        for number in range(_THREADS):
            threading.Thread(target=self._work, name=f"aiosched logs {number}", daemon=True).start()
        self._thread = threading.Thread(target=self._look, name="aiosched logs", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Upload what is left, for at most so many seconds; the rest is uploaded after the next start."""
        if self._thread is None:
            return
        deadline = self.monotonic() + seconds
        for upload in list(self._known.values()):
            upload.due = 0.0
        self._stopping = True
        self._wake.set()
        self._thread.join(seconds)
        while self._lock is not None and list_pending(self.logs) and (left := deadline - self.monotonic()) > 0:
            self._pass()
            with self._settled:
                self._settled.wait(min(left, _LOOK_AGAIN))
        for _ in range(_THREADS):
            self._jobs.put(None)
        if number := len(list_pending(self.logs)) if self._lock is not None else 0:
            logger.warning(
                "%d task logs are not in %s yet: they are in %s, and are uploaded when a scheduler starts here again",
                number, self.folder.url, self.logs,
            )  # fmt: skip
        if self._lock is not None and not self._busy():  # a thread that hangs keeps the lock until the process ends
            os.close(self._lock)
            self._lock = None

    def _look(self) -> None:
        while not self._stopping:
            self._pass()
            self._wake.wait(self.interval)

    def _pass(self) -> None:
        try:
            for upload in self.due():
                upload.busy = True
                self._jobs.put(upload)
        except Exception:
            logger.exception("the task logs to upload cannot be listed in %s", self.logs)

    def _work(self) -> None:
        while (upload := self._jobs.get()) is not None:
            try:
                self.advance(upload)
            finally:
                with self._settled:
                    upload.busy = False
                    self._settled.notify_all()

    def _busy(self) -> bool:
        return any(upload.busy for upload in self._known.values())

    # -- one pass, for threads and tests

    def due(self) -> list[_Upload]:
        """The logs to look at now; [] if another process uploads these logs."""
        if self._lock is None:
            self._lock = lock_uploader(self.logs)
            if self._lock is None:
                return []
        pending = {log.marker.name: log for log in list_pending(self.logs)}
        for name, upload in list(self._known.items()):
            if not upload.busy and (name not in pending or pending[name] != upload.log):
                del self._known[name]
        for name, log in pending.items():
            if name not in self._known:
                # one that is announced later has nothing in the store
                self._known[name] = _Upload(log, [], log.start) if self._began else _Upload(log)
        self._began = True
        now = self.monotonic()
        return [upload for upload in self._known.values() if not upload.busy and upload.due <= now]

    def advance(self, upload: _Upload) -> None:
        """Upload what is new in a log. A failure is noted, and the log is tried again later."""
        try:
            self._advance(upload)
        except Exception as error:
            upload.ranges = None  # what is there is looked up again
            upload.pause = min(max(2 * upload.pause, _FIRST_PAUSE), _LAST_PAUSE)
            upload.due = self.monotonic() + upload.pause
            if not isinstance(error, RemoteStorageError | OSError):
                logger.exception("the log %s cannot be uploaded; it stays in %s", upload.log.path, self.logs)
            elif not self._failing:
                self._failing = True
                logger.warning("task logs cannot be uploaded and wait in %s: %s", self.logs, error)
        else:
            upload.pause = 0.0
            if self._failing and upload.ranges is not None:
                self._failing = False
                logger.info("task logs are uploaded to %s again", self.folder.url)

    def _advance(self, upload: _Upload) -> None:
        log = upload.log
        file = open_plain(self.logs, log.path)
        if file is None:  # the run was removed
            self._drop(log)
            return
        with file:
            is_written = not lock(file.fileno(), shared=False)
            if not is_written:
                _unlock(file)
            size, complete = self._readable(log, file, is_written)
            if upload.ranges is None:
                self._look_up(upload, size)
            if log.again.exists():
                self._begin_anew(upload)
            while upload.done < size:
                self._write_next(upload, file, size)
                if len(upload.ranges or ()) >= _MOST_RANGES:
                    self._merge(upload, file, _tail(upload.ranges or []))
            if complete:
                if len(upload.ranges or ()) > 1:
                    self._merge(upload, file, upload.ranges or [])
                self._finish(upload, file)

    def _readable(self, log: PendingLog, file: BinaryIO, is_written: bool) -> tuple[int, bool]:
        """How many bytes may be uploaded, and whether that is all."""
        size = file.seek(0, os.SEEK_END)
        try:
            held = int(log.held.read_text("utf-8"))
        except FileNotFoundError:
            return size, not is_written
        quiet = time.time() - os.fstat(file.fileno()).st_mtime
        if is_written or quiet < _ABANDONED:
            return min(size, held), False
        logger.warning(
            "the end of the log %s stays in %s only: its process ended before it could mask secrets",
            log.path,
            self.logs,
        )
        return min(size, held), True

    def _look_up(self, upload: _Upload, size: int) -> None:
        """Find out what an earlier process has uploaded."""
        files = self.folder.files(upload.folder)
        found = [one for file in files if (one := range_of(PurePosixPath(file.path).name, file.size)) is not None]
        mine = [one for one in found if one.segment == upload.log.segment]
        upload.ranges, upload.done = chain((one for one in mine if one.end <= size), upload.log.start)
        self._remove(upload, [one for one in mine if one not in upload.ranges])

    def _begin_anew(self, upload: _Upload) -> None:
        """The log was changed: forget what is uploaded of it."""
        self._remove(upload, list(upload.ranges or ()))
        upload.ranges, upload.done = [], upload.log.start
        upload.log.again.unlink(missing_ok=True)

    def _write_next(self, upload: _Upload, file: BinaryIO, size: int) -> None:
        file.seek(upload.done)
        data = file.read(min(size - upload.done, LARGEST))
        if len(data) == LARGEST:  # whole lines, if there are any
            data = data[: data.rfind(b"\n") + 1] or data
        one = upload.range(upload.done, upload.done + len(data))
        self.folder.write(f"{upload.folder}/{one.name}", data)
        upload.ranges = [*(upload.ranges or ()), one]
        upload.done = one.end

    def _merge(self, upload: _Upload, file: BinaryIO, parts: list[LogRange]) -> None:
        """Put these last ranges together into one, and remove them."""
        start, end = parts[0].start, upload.done
        path = f"{upload.folder}/{upload.range(start, end).name}"
        self.folder.copy_from(path, file, start, end)
        upload.ranges = [*(one for one in upload.ranges or () if one not in parts), upload.range(start, end)]
        self._remove(upload, parts)

    def _remove(self, upload: _Upload, ranges: list[LogRange]) -> None:
        self.folder.remove(f"{upload.folder}/{one.name}" for one in ranges)

    def _finish(self, upload: _Upload, file: BinaryIO) -> None:
        """Everything is uploaded: no longer pending, unless somebody writes again."""
        log = upload.log
        if not lock(file.fileno(), shared=False):
            return
        try:
            held = log.held.exists()
            if file.seek(0, os.SEEK_END) != upload.done and not held:
                return
            if log.again.exists():
                return
            if not self.keep_local and not held:
                (self.logs / log.path).unlink(missing_ok=True)
            self._drop(log)
        finally:
            _unlock(file)
        if not self.keep_local and not held:
            _remove_empty(self.logs, (self.logs / log.path).parent)

    def _drop(self, log: PendingLog) -> None:
        log.marker.unlink(missing_ok=True)
        log.held.unlink(missing_ok=True)
        log.again.unlink(missing_ok=True)


def _tail(ranges: list[LogRange]) -> list[LogRange]:
    """The small ranges at the end. Large ones are left alone, so that a long log is not written again and again."""
    size, begin = 0, len(ranges)
    while begin and (
        len(ranges) - begin < _LEAST_MERGED or ranges[begin - 1].end - ranges[begin - 1].start <= 2 * size
    ):
        begin -= 1
        size += ranges[begin].end - ranges[begin].start
    return ranges[begin:]


def _unlock(file: BinaryIO) -> None:
    fcntl.flock(file.fileno(), fcntl.LOCK_UN)


def _remove_empty(logs: Path, folder: Path) -> None:
    """Remove folders that have become empty; a log that is created there meanwhile creates its folder again."""
    with contextlib.suppress(OSError):
        while folder != logs:
            folder.rmdir()
            folder = folder.parent
