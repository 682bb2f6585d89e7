"""What a line of the log looks like."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from aiosched.config import LogSettings
from aiosched.logs import chosen_format, configure_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("aiosched")
    before = root.handlers[:], root.level, ours.level
    yield
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
