"""Routes the output of a running attempt into its log file.

One router serves the whole process; a ContextVar holds the attempt that writes, so that the output of many `async def`
attempts in one process does not mix and starting an attempt installs nothing. The file is created with its first line:
an attempt without output creates no file.

The captured output depends on the kind of process:

* A worker process belongs to the attempt it runs: `capture_process()` routes stdout,
  stderr, warnings and every logger.
* The inline executor is a guest in the host's process: `TaskLoggerCapture` captures only the logger `aiosched.task`
  (that is `ti.log`) and its children. `print` and the host's own loggers are left to the host; the root logger is not
  touched.
"""

from __future__ import annotations

import codecs
import io
import logging
import os
import sys
import threading
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TextIO

from aiosched.core.values.masking import secrets
from aiosched.core.values.messages import Attempt
from aiosched.core.values.unwritten import UnwrittenLog
from aiosched.executors.attempt.log_opening import LogOperation, RemoteLogFiles
from aiosched.remote import pending
from aiosched.remote.log_files import log_path
from aiosched.remote.plain_files import create_plain

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

TASK_LOGGER: Final = "aiosched.task"
_MOST_OPENS: Final = 100
_LONGEST_PARTIAL: Final = 65_536  # characters of an unterminated line that are buffered

current_log: ContextVar[AttemptLog | None] = ContextVar("aiosched_attempt_log", default=None)


class AttemptLog:
    """The log file of one attempt, at most `limit` bytes plus one line that marks the truncation.

    Secrets become `***` on the way (core/values/masking.py); in the output of child processes, when the log is closed.
    Safe to use from several threads. A full disk loses lines, never the attempt: see `unwritten`.
    """

    __slots__ = (
        "_closed", "_decoders", "_fd", "_files", "_folder", "_partial", "_room", "_shared", "_uploaded", "attempt",
        "unwritten",
    )  # fmt: skip

    def __init__(
        self,
        folder: Path | None,
        attempt: Attempt,
        limit: int,
        *,
        uploaded: bool = False,
        files: RemoteLogFiles | None = None,
    ) -> None:
        self.attempt: Attempt = attempt
        self._folder, self._room = folder, limit
        self._files = files  # None: this process may write to the folder itself
        self._uploaded = uploaded  # while it is written, by another process (remote/pending.py)
        self._fd: int | None = None
        self._closed = folder is None
        self._shared = False  # whether other processes also write to the file
        self._partial: dict[str, str] | None = None
        self._decoders: dict[str, codecs.IncrementalDecoder] | None = None
        self.unwritten: UnwrittenLog | None = None  # what follows a failure to write is not written either

    @property
    def begun(self) -> bool:
        """Whether the file exists, because something was written."""
        return self._fd is not None

    def line(self, level: str, source: str, text: str) -> None:
        """Append `text` (one or more lines) with a timestamp, a level and its source."""
        if self._closed:
            return
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        text = secrets.redact(text)
        self._write(f"{stamp}Z {level:<5} {source}  {text}\n".encode("utf-8", "backslashreplace"))

    def feed(self, source: str, text: str) -> None:
        """Append printed output; an unterminated line is buffered until its end."""
        if self._partial is None:
            self._partial = {}
        *lines, rest = (self._partial.get(source, "") + text).split("\n")
        if len(rest) > _LONGEST_PARTIAL:
            rest = secrets.redact(rest)
            whole = max(len(rest) - secrets.longest, 0)  # it may contain the start of a secret
            if whole:
                lines.append(rest[:whole])
            rest = rest[whole:]
        self._partial[source] = rest
        for line in lines:
            self.line("INFO", source, line)
            if self._closed:
                return

    def feed_bytes(self, source: str, data: bytes) -> None:
        """As `feed`, for UTF-8; a character may be split over two calls, and invalid bytes are replaced."""
        if self._decoders is None:
            self._decoders = {}
        if (decoder := self._decoders.get(source)) is None:
            decoder = self._decoders[source] = codecs.getincrementaldecoder("utf-8")("replace")
        self.feed(source, decoder.decode(data))

    def raw(self, data: bytes) -> None:
        """Append raw bytes (without secrets), and a newline if it is missing."""
        if data and not self._closed:
            data = secrets.redact_bytes(data)
            self._write(data if data.endswith(b"\n") else data + b"\n")

    def fileno(self) -> int:
        """The open file, for a child process that gets `sys.stdout` explicitly; /dev/null if it cannot be written."""
        try:
            fd = self._open()
            if fd is None:
                raise io.UnsupportedOperation("this attempt has no log file")
            if self._uploaded and not self._shared and self._folder is not None:
                if self._files is not None:
                    self._files.tell(LogOperation.HOLD, self.attempt)
                else:
                    pending.hold(self._folder, log_path(self._folder, self.attempt), os.fstat(fd).st_size)
            self._shared = True
        except io.UnsupportedOperation:
            raise
        except OSError as error:
            self._fail(error)
            if self._fd is None:
                self._fd = os.open(os.devnull, os.O_WRONLY)
            return self._fd
        return fd

    def close(self) -> None:
        """Write buffered output and close the file; later writes are dropped."""
        for source, decoder in (self._decoders or {}).items():
            self.feed(source, decoder.decode(b"", final=True))
        self._decoders = None
        if self._partial:
            for source, rest in self._partial.items():
                if rest:
                    self.line("INFO", source, rest)
            self._partial = None
        self._closed = True
        if self._fd is not None:
            fd, self._fd = self._fd, None
            if self._shared and self._files is not None:
                self._mask_shared(fd, self._files)
            try:
                os.close(fd)  # a server of files may say only now that it has no room
                if self._shared and self._folder is not None and self._files is None:
                    path = log_path(self._folder, self.attempt)
                    changed = bool(secrets) and _redact_file(path)
                    if self._uploaded:
                        pending.release(self._folder, path, changed=changed)
            except OSError as error:
                self._fail(error)

    def _mask_shared(self, fd: int, files: RemoteLogFiles) -> None:
        """Mask what other processes wrote, in the open file: its folder belongs to another user."""
        try:
            changed = bool(secrets) and _redact_in_place(fd)
            if self._uploaded:
                files.tell(LogOperation.AGAIN if changed else LogOperation.RELEASE, self.attempt)
        except OSError as error:
            name = f"{self.attempt.run.dag_id}.{self.attempt.task_id}"
            write_to_console(f"the log of {name} may hold secrets, because it cannot be written again: {error}")

    def _write(self, data: bytes) -> None:
        if len(data) > self._room:
            notice = "... the log is full (core.max_log_bytes): the rest of this attempt's output is dropped\n"
            data = data[: max(self._room, 0)].rstrip(b"\n") + b"\n" + notice.encode()
            self._room = 0
        else:
            self._room -= len(data)
        if self.unwritten is None:
            try:
                if (fd := self._open()) is not None:
                    while (written := os.write(fd, data)) < len(data):
                        data = data[written:]
                data = b""
            except OSError as error:
                self._fail(error)
        if self.unwritten is not None:
            self.unwritten.add(data)
        if self._room <= 0:
            self._closed = True

    def _fail(self, error: OSError) -> None:
        self.unwritten = self.unwritten or UnwrittenLog(error)

    def _open(self) -> int | None:
        if self._fd is None and self._folder is not None:
            with _opening:
                if self._fd is None and self._files is not None:
                    self._fd = self._files.open(self.attempt)
                elif self._fd is None:
                    self._fd = open_log(self._folder, log_path(self._folder, self.attempt), uploaded=self._uploaded)
        return self._fd


_opening = threading.Lock()


def open_log(folder: Path, path: Path, *, uploaded: bool, readable: bool = False) -> int:
    """Open the log at `path` below `folder`, to append to it; it and its folders are made if need be."""
    flags = os.O_RDWR if readable else os.O_WRONLY
    return _open_announced(folder, path, flags) if uploaded else _open_file(path, flags)


def _open_file(path: Path, flags: int) -> int:
    return create_plain(path, flags | os.O_APPEND)


def _open_announced(folder: Path, path: Path, flags: int) -> int:
    """Open a log that is uploaded, with the lock that says that it is written.

    If it cannot be announced it is written all the same: then it is only on this machine.
    """
    for _ in range(_MOST_OPENS):
        try:
            fd = _open_file(path, flags)
        except FileNotFoundError:  # its empty folder was removed
            continue
        try:
            pending.lock(fd, shared=True)
            now = os.fstat(fd)
            if path.exists() and os.path.samestat(now, path.stat()):
                pending.announce(folder, path, now.st_size)
                return fd
        except FileNotFoundError:  # it was removed after it was uploaded: the log continues in a new file
            pass
        except OSError as error:
            write_to_console(f"the log {path} is not uploaded: {error}")
            return fd
        os.close(fd)
    return _open_file(path, flags)


def _redact_file(path: Path) -> bool:
    """Mask the secrets in a file, line by line; the file is replaced if there are any. Returns whether it was."""
    clean = path.with_suffix(".clean")
    changed = False
    try:
        with path.open("rb") as file, clean.open("wb") as copy:
            for line in file:
                hidden = secrets.redact_bytes(line)
                changed = changed or hidden != line
                copy.write(hidden)
        if changed:
            clean.replace(path)
        else:
            clean.unlink()
    except OSError as error:
        clean.unlink(missing_ok=True)
        write_to_console(f"the log {path} may hold secrets, because it cannot be written again: {error}")
        return False
    return changed


def _redact_in_place(fd: int) -> bool:
    """The same in an open file; its content is written anew if there are any."""
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(0)
        lines = file.readlines()
    hidden = [secrets.redact_bytes(line) for line in lines]
    if hidden == lines:
        return False
    os.ftruncate(fd, 0)
    for line in hidden:
        os.write(fd, line)
    return True


def _hide_secrets(record: logging.LogRecord) -> bool:
    """A filter that accepts every record and masks secrets, for handlers further up, too."""
    if secrets:
        text = record.getMessage()
        hidden = secrets.redact(text)
        if hidden is not text:
            record.msg, record.args = hidden, None
    return True


class LogRouter(logging.Handler):
    """Sends records to the log of the current attempt; without one, to `fallback` if it is set."""

    def __init__(self, fallback: TextIO | None = None) -> None:
        super().__init__()
        self._fallback = fallback
        self.addFilter(_hide_secrets)

    def emit(self, record: logging.LogRecord) -> None:
        log = current_log.get()
        if log is None and self._fallback is None:
            return
        try:
            text = self.format(record)
            if log is not None:
                log.line(record.levelname, record.name, text)
            elif self._fallback is not None:
                self._fallback.write(f"{record.levelname:<5} {record.name}  {text}\n")
        except Exception:
            self.handleError(record)


class RoutedStream(io.TextIOBase):
    """Replaces `sys.stdout` or `sys.stderr`: writes to the log of the current attempt.

    It has what an `io.TextIOWrapper` has. Attempts share it, so none can close it or change its encoding.
    """

    encoding = "utf-8"
    errors = "backslashreplace"
    mode, line_buffering, write_through = "w", True, False

    def __init__(self, name: str, fallback: TextIO) -> None:
        super().__init__()
        self.name: str = f"<{name}>"
        self.buffer: RoutedBytes = RoutedBytes(self)
        self._source, self._fallback = name, fallback

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        log = current_log.get()
        if log is None:
            return self._fallback.write(text)
        log.feed(self._source, text)
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """What `buffer` writes: UTF-8, in order with what `write` writes."""
        log = current_log.get()
        if log is not None:
            log.feed_bytes(self._source, data)
        elif (buffer := getattr(self._fallback, "buffer", None)) is not None:
            self._fallback.flush()
            buffer.write(data)
            buffer.flush()
        else:
            self._fallback.write(data.decode("utf-8", "replace"))

    def flush(self) -> None:
        if current_log.get() is None and not self._fallback.closed:
            self._fallback.flush()

    def reconfigure(self, **options: object) -> None:
        """Accepted, and changes nothing: a log is UTF-8."""

    def detach(self) -> RoutedBytes:  # type: ignore[override]
        return self.buffer

    def close(self) -> None:
        self.flush()

    def fileno(self) -> int:
        log = current_log.get()
        return self._fallback.fileno() if log is None else log.fileno()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False


class RoutedBytes(io.BufferedIOBase):
    """The `buffer` of a RoutedStream."""

    mode = "wb"

    def __init__(self, text: RoutedStream) -> None:
        super().__init__()
        self.name = text.name
        self._text = text

    def write(self, data: ReadableBuffer) -> int:
        written = memoryview(data).tobytes()
        self._text.write_bytes(written)
        return len(written)

    def flush(self) -> None:
        self._text.flush()

    def close(self) -> None:
        self.flush()

    def fileno(self) -> int:
        return self._text.fileno()

    def writable(self) -> bool:
        return True


def capture_process(level: str) -> None:
    """Route all output of this process; for worker processes only."""
    if isinstance(sys.__stdout__, io.TextIOWrapper):  # threads of a task print there, also before they crash
        sys.__stdout__.reconfigure(line_buffering=True)
    sys.stdout = RoutedStream("stdout", sys.__stdout__ or io.StringIO())
    sys.stderr = RoutedStream("stderr", sys.__stderr__ or io.StringIO())
    root = logging.getLogger()
    root.handlers[:] = [LogRouter(sys.__stderr__)]
    root.setLevel(level)


class TaskLoggerCapture:
    """Routes the logger `aiosched.task` while at least one inline executor runs in this process."""

    _users: ClassVar[int] = 0
    _router: ClassVar[LogRouter | None] = None

    @classmethod
    def begin(cls) -> None:
        if cls._users == 0:
            logger = logging.getLogger(TASK_LOGGER)
            cls._router = LogRouter()
            logger.addHandler(cls._router)
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.INFO)
        cls._users += 1

    @classmethod
    def end(cls) -> None:
        cls._users -= 1
        if cls._users == 0 and cls._router is not None:
            logging.getLogger(TASK_LOGGER).removeHandler(cls._router)
            cls._router = None


def write_to_console(text: str) -> None:
    """Say something that has no log to be in, if this process has a console."""
    if sys.__stderr__ is not None and not sys.__stderr__.closed:
        sys.__stderr__.write(text + "\n")
