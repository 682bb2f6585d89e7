"""Logging of `serve`: text lines on a terminal, JSON lines otherwise.

A record can carry context as `extra`: `dag_id`, `run_id`, `task_id`, `map_index` and `try`. Only the command line calls
`configure_logging`; a scheduler inside another application logs to the loggers below `aiosched` and leaves the
configuration to its host.

Source: docs/operations.md, "The command line".
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, TextIO

if TYPE_CHECKING:
    from aiosched.config import LogSettings


# The attributes of a record and their short names on a terminal.
CONTEXT: Final = {"dag_id": "dag", "run_id": "run", "task_id": "task", "map_index": "map", "try": "try"}

_OURS: Final = "aiosched"


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
    """One JSON object per line: timestamp (RFC 3339, UTC), level, event, logger, context, exception."""

    def format(self, record: logging.LogRecord) -> str:
        instant = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        document: dict[str, object] = {
            "timestamp": instant.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
            **_context(record),
        }
        if traces := _traces(self, record):
            document["exception"] = "\n".join(traces)
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
    for old in [h for h in root.handlers if h.get_name() == _OURS]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(_OURS).setLevel(settings.level)
    logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)  # its warnings repeat, with a traceback, what we log
    logging.captureWarnings(capture=True)
    return handler


def writes_json() -> bool:
    """Whether `configure_logging` has chosen JSON lines."""
    ours = [handler for handler in logging.getLogger().handlers if handler.get_name() == _OURS]
    return any(isinstance(handler.formatter, JsonFormatter) for handler in ours)


def chosen_format(setting: Literal["auto", "text", "json"], *, terminal: bool) -> Literal["text", "json"]:
    """The format of `setting`, where `auto` depends on `terminal`."""
    if setting != "auto":
        return setting
    return "text" if terminal else "json"


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
