"""Logging of `serve`: text lines on a terminal, JSON lines otherwise.

A record can carry context as `extra`: `dag_id`, `run_id`, `task_id`, `map_index` and `try`; and `fields`, a dict of
further values for the JSON line. Only the command line calls `configure_logging`; a scheduler inside another
application logs to the loggers below `aiosched` and leaves the configuration to its host.

Source: docs/operations.md, "The log of `serve`".
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TextIO

if TYPE_CHECKING:
    from aiosched.config import LogSettings

logger: logging.Logger = logging.getLogger(__name__)


# The attributes of a record and their short names on a terminal.
CONTEXT: Final = {"dag_id": "dag", "run_id": "run", "task_id": "task", "map_index": "map", "try": "try"}

_OURS: Final = "aiosched"
_LONGEST: Final = 65_536  # characters of a line that somebody prints without ending it


class TextFormatter(logging.Formatter):
    """`12:04:31.207 INFO  scheduler  queued 3 tasks  dag=sales run=…`, in the machine's local time."""

    def format(self, record: logging.LogRecord) -> str:
        local = datetime.fromtimestamp(record.created, UTC).astimezone()
        about = " ".join(f"{CONTEXT[name]}={value}" for name, value in _context(record).items())
        level = "WARN" if record.levelno == logging.WARNING else record.levelname
        parts = [
            f"{local:%H:%M:%S}.{local.microsecond // 1000:03d} {level:<5} {_short_name(record)}",
            record.getMessage(),
            about,
        ]
        return "\n".join(["  ".join(part for part in parts if part), *_traces(self, record)])


class JsonFormatter(logging.Formatter):
    """One JSON object per line, see `json_line`. Its time is that of writing, so that lines are in order."""

    def format(self, record: logging.LogRecord) -> str:
        data = {**_context(record), **(vars(record).get("fields") or {})}
        if traces := _traces(self, record):
            data["exception"] = "\n".join(traces)
        return json_line(record.levelname, record.name, record.getMessage(), data)


def json_line(level: str, name: str, event: str, data: Mapping[str, object]) -> str:
    """A line of the log in JSON: timestamp (now, RFC 3339, UTC), level, event, logger, and `data` about the event."""
    instant = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    document = {"timestamp": instant, "level": level.lower(), "event": event, "logger": name, **data}
    return json.dumps(document, default=str, ensure_ascii=False)


def configure_logging(settings: LogSettings, *, stream: TextIO | None = None) -> logging.Handler:
    """Send all logging of this process to `stream` (default: stderr), and return the handler.

    Loggers of aiosched log from `settings.level`, those of libraries from WARNING. Python warnings become log lines. A
    second call replaces the setup of the first.
    """
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    handler.set_name(_OURS)
    style = chosen_format(settings.format, terminal=stream.isatty())
    handler.setFormatter(TextFormatter() if style == "text" else JsonFormatter())
    root = logging.getLogger()
    for old in _handlers():
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(_OURS).setLevel(settings.level)
    logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)  # its warnings repeat, with a traceback, what we log
    logging.captureWarnings(capture=True)
    return handler


def writes_json() -> bool:
    """Whether `configure_logging` has chosen JSON lines."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in _handlers())


def write_event(level: int, name: str, event: str, data: Mapping[str, object]) -> None:
    """Write a line of the log whatever the level from which it is written; `name` is the logger's."""
    record = logging.getLogger(name).makeRecord(name, level, "", 0, event, (), None, extra={"fields": data})
    for handler in _handlers():
        handler.handle(record)


def claim_streams(*, stdout: bool = True) -> None:
    """Where the log is in JSON, make lines of it of what else this process prints, such as uncaught exceptions.

    `stdout`: also of what is printed there.
    """
    if not writes_json():
        return
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda args: _log_uncaught(args.exc_type, args.exc_value, args.exc_traceback, args.thread)
    sys.unraisablehook = lambda given: _log_uncaught(given.exc_type, given.exc_value, given.exc_traceback, given.object)
    print_as_json(stdout=stdout)


def print_as_json(*, stdout: bool = True) -> None:
    """Print JSON lines on stderr from now on: of what is written there and, with `stdout`, of what is written to it."""
    log = sys.stderr
    sys.stderr = PrintedLines("stderr", log, sys.stderr)
    if stdout:
        sys.stdout = PrintedLines("stdout", log, sys.stdout)


class PrintedLines(io.TextIOBase):
    """Replaces `stream`, which is sys.stdout or sys.stderr: each printed line becomes a JSON line of the logger `name`.

    These lines go to `log`.
    """

    encoding, errors = "utf-8", "backslashreplace"

    def __init__(self, name: str, log: TextIO, stream: TextIO) -> None:
        super().__init__()
        self.name: str = f"<{name}>"
        self._log, self._logger, self._stream, self._begun = log, name, stream, ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._begun = (self._begun + text).split("\n")
            if len(self._begun) > _LONGEST:
                lines, self._begun = [*lines, self._begun], ""
            for line in filter(None, map(str.rstrip, lines)):
                self._log.write(json_line("warning", self._logger, line, {}) + "\n")
            if lines:
                self._log.flush()
        return len(text)

    @property
    def buffer(self) -> BinaryIO:
        return self._stream.buffer

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True


@contextlib.contextmanager
def claimed_output(name: str) -> Iterator[int | None]:
    """A descriptor for both streams of a process to start: what it prints becomes JSON lines of the logger `name`.

    None where the log is not in JSON: that process may print as it likes.
    """
    if not writes_json():
        yield None
        return
    reading, writing = os.pipe()
    threading.Thread(target=_log_lines, args=(reading, name), name=f"output of {name}", daemon=True).start()
    try:
        yield writing
    finally:
        os.close(writing)


def _log_lines(fd: int, name: str) -> None:
    """Log each line that comes out of `fd`, until all who can write to it are gone."""
    printed = logging.getLogger(name)
    with open(fd, encoding="utf-8", errors="backslashreplace") as pipe:
        while line := pipe.readline(_LONGEST):
            if text := line.rstrip():
                printed.warning("%s", text)


def streams_are_one() -> bool:
    """Whether stdout is what stderr is, and no terminal."""
    try:
        ours, log = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # captured, closed
        return False
    return (ours.st_dev, ours.st_ino) == (log.st_dev, log.st_ino) and not sys.stdout.isatty()


def chosen_format(setting: Literal["auto", "text", "json"], *, terminal: bool) -> Literal["text", "json"]:
    """The format of `setting`, where `auto` depends on `terminal`."""
    if setting != "auto":
        return setting
    return "text" if terminal else "json"


def _handlers() -> list[logging.Handler]:
    return [handler for handler in logging.getLogger().handlers if handler.get_name() == _OURS]


def _log_uncaught(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None, where: Any = None
) -> None:
    """An exception that nobody caught, in the main thread or, with `where`, in a thread or the end of an object."""
    if issubclass(kind, SystemExit):  # of a thread: ends it silently
        return
    place = f" in {where!r}" if where is not None else ""
    about = f"uncaught {kind.__name__}{place}: {error}"
    logger.critical(about, exc_info=(kind, error or kind(), trace))


def _short_name(record: logging.LogRecord) -> str:
    """`scheduler` for `aiosched.scheduler.journal.journal`; the whole name for a logger that is not ours."""
    first, _, rest = record.name.partition(".")
    return rest.partition(".")[0] if first == _OURS and rest else record.name


def _context(record: logging.LogRecord) -> dict[str, object]:
    return {name: vars(record)[name] for name in CONTEXT if vars(record).get(name) is not None}


def _traces(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    found: list[str] = []
    if record.exc_info and record.exc_info[0] is not None:
        found.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        found.append(formatter.formatStack(record.stack_info))
    return found
