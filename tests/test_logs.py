"""What a line of the log looks like."""

from __future__ import annotations

import io
import json
import logging
import queue
import re
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiosched.config import LogSettings
from aiosched.logs import PrintedLines, chosen_format, claim_streams, claimed_output, configure_logging, write_event
from tests.patience import PATIENCE


class Written(io.StringIO):
    """Hands over what is written, to another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: queue.Queue[str] = queue.Queue()

    def write(self, text: str) -> int:
        self.lines.put(text)
        return len(text)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("aiosched")
    before = root.handlers[:], root.level, ours.level
    streams, hooks = (sys.stdout, sys.stderr), (sys.excepthook, threading.excepthook, sys.unraisablehook)
    yield
    sys.stdout, sys.stderr = streams
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    root.handlers[:], root.level, ours.level = before
    logging.captureWarnings(capture=False)


def log(
    stream: io.StringIO, *, settings: LogSettings | None = None, name: str = "aiosched.scheduler.journal.journal"
) -> Any:
    configure_logging(settings or LogSettings(), stream=stream)
    return logging.getLogger(name)


def test_a_terminal_line_has_time_level_room_message_and_what_it_is_about() -> None:
    stream = Terminal()

    log(stream).info("queued %d tasks", 3, extra={"dag_id": "sales", "run_id": "r1", "try": 2, "map_index": None})

    assert re.fullmatch(
        r"\d\d:\d\d:\d\d\.\d\d\d INFO  scheduler  queued 3 tasks  dag=sales run=r1 try=2\n", stream.getvalue()
    )


def test_elsewhere_a_line_is_one_json_object_in_utc() -> None:
    stream = io.StringIO()

    log(stream).warning("lost an attempt", extra={"dag_id": "sales", "task_id": "load", "map_index": 0})

    line = json.loads(stream.getvalue())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("timestamp"))
    assert line == {
        "level": "warning",
        "event": "lost an attempt",
        "logger": "aiosched.scheduler.journal.journal",
        "dag_id": "sales",
        "task_id": "load",
        "map_index": 0,
    }


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_an_exception_keeps_its_traceback(stream: io.StringIO) -> None:
    logger = log(stream)

    try:
        raise LookupError("gone")
    except LookupError:
        logger.exception("cannot read")

    assert "cannot read" in stream.getvalue()
    assert "LookupError: gone" in stream.getvalue()


def test_a_multi_line_message_is_still_one_json_line() -> None:
    stream = io.StringIO()

    log(stream).error("first\nsecond")

    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "level", "written"),
    [
        ("aiosched.scheduler", logging.INFO, True),
        ("aiosched.scheduler", logging.DEBUG, False),
        ("asyncio", logging.INFO, False),
        ("asyncio", logging.WARNING, True),
        ("asyncpg.pool", logging.WARNING, False),  # a traceback every few seconds while PostgreSQL is away
        ("asyncpg.pool", logging.ERROR, True),
    ],
)
def test_libraries_speak_from_warning_on_and_we_from_the_set_level_on(name: str, level: int, written: bool) -> None:
    stream = io.StringIO()

    log(stream, name=name).log(level, "news")

    assert bool(stream.getvalue()) is written


def test_python_warnings_become_log_lines() -> None:
    stream = io.StringIO()
    log(stream)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old spelling", stacklevel=1)

    assert "old spelling" in json.loads(stream.getvalue())["event"]


def test_setting_up_twice_writes_each_line_once() -> None:
    first, second = io.StringIO(), io.StringIO()

    log(first)
    log(second).info("once")

    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1


@pytest.mark.parametrize(
    ("setting", "terminal", "chosen"),
    [
        ("auto", True, "text"),
        ("auto", False, "json"),
        ("json", True, "json"),
        ("text", False, "text"),
    ],
)
def test_the_format_follows_the_setting_and_then_the_stream(setting: Any, terminal: bool, chosen: str) -> None:
    assert chosen_format(setting, terminal=terminal) == chosen


SCHEMA = {"timestamp", "level", "event", "logger"}


class Broken:
    """Raises where nobody can catch it."""

    def __del__(self) -> None:
        raise LookupError("gone")


def fail() -> None:
    raise LookupError("gone")


def in_a_thread() -> None:
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()


def uncaught() -> None:
    try:
        fail()
    except LookupError:
        sys.excepthook(*sys.exc_info())


def of_a_library() -> None:
    try:
        fail()
    except LookupError:
        traceback.print_exc()


def with_wrong_arguments() -> None:
    (ours,) = (handler for handler in logging.getLogger().handlers if handler.get_name() == "aiosched")
    ours.handle(logging.LogRecord("x", logging.INFO, "", 0, "%d LookupError: gone", ("no number",), None))


@pytest.mark.parametrize(
    "write",
    [uncaught, in_a_thread, Broken, of_a_library, with_wrong_arguments, lambda: print("LookupError: gone")],
    ids=["uncaught", "thread", "finalizer", "library", "logging error", "print"],
)
def test_whatever_this_process_writes_is_a_line_of_the_log(
    write: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    configure_logging(LogSettings())
    claim_streams()

    write()

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert all(line.keys() >= SCHEMA for line in lines)
    assert "LookupError: gone" in stream.getvalue()


def test_a_printed_line_is_written_when_it_ends_or_is_very_long() -> None:
    stream = io.StringIO()
    printed = PrintedLines("stdout", stream, io.StringIO())

    for text in ("be", "gun\nand ", "goes on\n", "x" * 70_000):
        printed.write(text)

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"][:20] for line in lines] == ["begun", "and goes on", "x" * 20]
    assert {line["logger"] for line in lines} == {"stdout"}


def test_what_a_process_of_ours_prints_becomes_lines_of_its_logger() -> None:
    stream = Written()
    log(stream)

    with claimed_output("aiosched.workers") as output:
        subprocess.run([sys.executable, "-c", "import os; os.write(2, b'a\\xff\\nb')"], stderr=output, check=True)

    lines = [json.loads(stream.lines.get(timeout=PATIENCE)) for _ in range(2)]
    assert [(line["logger"], line["event"]) for line in lines] == [
        ("aiosched.workers", "a\\xff"),
        ("aiosched.workers", "b"),
    ]


def test_a_process_may_print_as_it_likes_beside_a_log_for_people() -> None:
    log(Terminal())

    with claimed_output("aiosched.workers") as output:
        assert output is None


def test_lines_of_several_threads_are_in_order_of_their_times() -> None:
    stream = io.StringIO()
    logger = log(stream)
    late = logging.LogRecord("aiosched", logging.INFO, "", 0, "made first, written last", (), None)

    logger.info("in time")
    write_event(logging.INFO, "aiosched.serve", "ready", {"seconds": 1.0})
    logger.handle(late)

    times = [json.loads(line)["timestamp"] for line in stream.getvalue().splitlines()]
    assert (times, len(times)) == (sorted(times), 3)
