"""The small parts: framing, log files, log capture, failures, pace, start notices."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
import threading
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aiosched.executors
from aiosched.core.values.messages import AttemptKey, Outcome, Report, XComRef, XComValue
from aiosched.errors import SkipTask
from aiosched.executors.attempt.failures import details_of, reason_of
from aiosched.executors.attempt.interrupts import Interrupts
from aiosched.executors.attempt.logs import AttemptLog, LogRouter, RoutedStream, TaskLoggerCapture, current_log
from aiosched.executors.attempt.start_notices import StartNotices
from aiosched.executors.throughput import Throughput
from aiosched.executors.worker.processes import describe_exit
from aiosched.executors.worker.protocol import (
    AnyMessage,
    Cancel,
    Ended,
    Exited,
    Forked,
    FrameReader,
    Ready,
    RunAttempts,
    XComCall,
    XComResult,
    frame,
)
from aiosched.remote.log_files import log_folder, log_path
from tests.executors.attempt_builders import Reports, attempt

KEY = AttemptKey(7, 0, -1, 1)
MESSAGES: list[AnyMessage] = [
    Ready(),
    RunAttempts([attempt("t", number=3, conf={"a": [1, None]})]),
    Cancel(KEY),
    XComResult(1, [[(-1, "1"), (0, "2")], []]),
    XComCall(1, 7, [XComRef("t"), XComRef("u", "k", 3)]),
    Ended([Report(key=KEY, outcome=Outcome.SUCCESS, at=attempt("t").run.run_after, xcoms=(XComValue("k", "{}"),))]),
    Forked(1, 99),
    Exited(1, -9),
]


@given(st.lists(st.sampled_from(MESSAGES), max_size=12), st.lists(st.integers(1, 300), max_size=20))
def test_messages_come_out_as_they_went_in_however_the_bytes_are_cut(sent: list[AnyMessage], cuts: list[int]) -> None:
    data = b"".join(map(frame, sent))
    reader, got, start = FrameReader(), list[AnyMessage](), 0

    for cut in [*cuts, len(data)]:
        got += reader.feed(data[start : start + cut])
        start += cut

    assert got == sent


def test_the_public_names_are_sorted_and_can_be_had() -> None:
    by_kind = sorted(
        aiosched.executors.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name)
    )  # as the linter sorts them: constants, classes, functions

    assert aiosched.executors.__all__ == by_kind
    assert all(getattr(aiosched.executors, name) for name in aiosched.executors.__all__)


def test_reading_a_log_imports_no_runner() -> None:
    import subprocess

    program = "import sys, aiosched.remote.log_files; print('aiosched.executors.attempt.runner' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


# Log files


def test_the_path_of_a_log_names_the_attempt() -> None:
    mapped = attempt("t", number=5, map_index=3, try_number=2)

    assert str(log_path(Path("/l"), attempt("t"))) == "/l/dag_id=d/run_id=manual__0/task_id=t/attempt=1.log"
    assert str(log_path(Path("/l"), mapped)) == "/l/dag_id=d/run_id=manual__5/task_id=t/map_index=3/attempt=2.log"


def test_ids_cannot_leave_the_logs_folder_nor_exceed_a_file_name() -> None:
    folder = log_folder(Path("/l"), dag_id="d" * 250, run_id="../../x", task_id="t" * 250)

    assert folder.relative_to("/l").parts[1] == "run_id=..%2F..%2Fx"
    assert all(len(part) <= 255 for part in folder.parts)
    assert folder != log_folder(Path("/l"), dag_id="d" * 249 + "e", run_id="../../x", task_id="t" * 250)


# Capturing


def a_log(folder: Path, limit: int = 10_000) -> AttemptLog:
    return AttemptLog(folder, attempt("t"), limit)


def text_of(folder: Path) -> str:
    return log_path(folder, attempt("t")).read_text()


def test_a_log_file_is_created_with_its_first_line_and_takes_more_in_a_second_call(tmp_path: Path) -> None:
    first, again = a_log(tmp_path), a_log(tmp_path)
    assert not list(tmp_path.iterdir())

    first.line("INFO", "x", "one")
    first.close()
    again.line("INFO", "x", "two")
    again.close()

    assert [line.split(maxsplit=1)[1] for line in text_of(tmp_path).splitlines()] == ["INFO  x  one", "INFO  x  two"]


def test_what_is_said_after_the_end_is_dropped(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.close()

    log.line("INFO", "x", "late")

    assert not list(tmp_path.iterdir())


def test_a_full_log_ends_with_a_line_that_says_so(tmp_path: Path) -> None:
    log = a_log(tmp_path, limit=100)
    for _ in range(10):
        log.feed("stdout", "x" * 30 + "\n")
    log.close()

    *_, last = text_of(tmp_path).splitlines()
    assert last == "... the log is full (core.max_log_bytes): the rest of this attempt's output is dropped"
    assert len(text_of(tmp_path)) < 250


def test_a_line_without_an_end_is_not_held_back_for_ever(tmp_path: Path) -> None:
    log = a_log(tmp_path, limit=1_000_000)

    log.feed("stdout", "x" * 70_000)

    assert len(text_of(tmp_path)) > 70_000
    log.close()


def test_streams_and_loggers_go_to_the_attempt_that_speaks(tmp_path: Path) -> None:
    elsewhere = io.StringIO()
    stream, router = RoutedStream("stdout", elsewhere), LogRouter(elsewhere)
    record = logging.LogRecord("lib", logging.WARNING, __file__, 1, "odd %s", ("thing",), None)
    log = a_log(tmp_path)

    def speak() -> None:
        current_log.set(log)
        print("mine", file=stream)
        router.emit(record)

    copy_context().run(speak)
    print("nobody's", file=stream)
    router.emit(record)
    log.close()

    assert [line.split(maxsplit=1)[1] for line in text_of(tmp_path).splitlines()] == [
        "INFO  stdout  mine", "WARNING lib  odd thing",
    ]  # fmt: skip
    assert elsewhere.getvalue() == "nobody's\nWARNING lib  odd thing\n"


def test_a_child_process_can_be_given_stdout_by_name(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    token = current_log.set(log)
    try:
        os.write(RoutedStream("stdout", sys.stdout).fileno(), b"by a child\n")
    finally:
        current_log.reset(token)
        log.close()

    assert text_of(tmp_path) == "by a child\n"


def test_capturing_the_task_logger_leaves_no_trace_and_never_touches_the_root() -> None:
    root, logger = logging.getLogger(), logging.getLogger("aiosched.task")
    before = (root.level, list(root.handlers), list(logger.handlers))

    TaskLoggerCapture.begin()
    TaskLoggerCapture.begin()
    during = (root.level, list(root.handlers), len(logger.handlers))
    TaskLoggerCapture.end()
    TaskLoggerCapture.end()

    assert during == (before[0], before[1], len(before[2]) + 1)
    assert (root.level, list(root.handlers), list(logger.handlers)) == before


# Failures


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def group(text: str, *errors: Exception) -> Exception:
    return ExceptionGroup(text, list(errors))


class Endless(ExceptionGroup[Exception]):
    @property
    def exceptions(self) -> tuple[Exception, ...]:  # type: ignore[override] # as hostile code can
        return (self, self)


def nested(depth: int) -> Exception:
    error: Exception = ValueError("at the bottom")
    for number in range(depth):
        error = group(str(number + 1), error)
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (ValueError("two\n  lines"), "ValueError: two lines"),
        (SkipTask("why"), "why"),
        (SkipTask(), "SkipTask"),
        (Unprintable(), "Unprintable: <its text cannot be read: __str__ raised>"),
        (group("two", ValueError("a"), KeyError()), "ExceptionGroup: two (2 sub-exceptions): ValueError: a; KeyError"),
        (
            group("deep", group("in", ValueError("a")), *map(ValueError, "bcd")),
            "ExceptionGroup: deep (4 sub-exceptions): ValueError: a; ValueError: b; ValueError: c; …",
        ),
        (Endless("endless", [ValueError()]), "Endless: endless (1 sub-exception): …"),
        (nested(5_000), "ExceptionGroup: 5000 (1 sub-exception): …"),
        (group("bad", Unprintable()), "ExceptionGroup: <its text cannot be read: __str__ raised>"),
        (ValueError("\x1b[1;32mgreen\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07"), "ValueError: green link"),
    ],
)
def test_a_reason_is_one_line(error: BaseException, reason: str) -> None:
    assert reason_of(error) == reason


def test_a_flood_in_an_exception_is_cut() -> None:
    error = ValueError("x" * 10_000_000)

    assert len(reason_of(error)) == 500
    assert len(details_of(error)) < 70_000


# Pace and starts


def test_as_many_may_stand_in_line_as_ended_a_moment_ago_and_none_when_nothing_ends() -> None:
    throughput = Throughput()
    for number in range(10):
        throughput.ended(100 + number / 1000)

    assert throughput.ahead(100.02) == 10
    assert throughput.ahead(100.07) == 10
    assert throughput.ahead(100.2) == 0


class Here:
    pid = 5


async def test_only_an_attempt_that_is_not_over_in_a_blink_is_reported_as_started() -> None:
    reports = Reports()
    notices = StartNotices(asyncio.get_running_loop(), reports, hostname="h", delay=0.01)
    short, long = attempt("t", number=1), attempt("t", number=2)

    notices.began(short.key, Here())
    notices.began(long.key, Here())
    began = notices.ended(short.key)
    started = await reports.of(long, outcome=Outcome.STARTED)

    assert began is not None
    assert (started.pid, started.hostname, started.started_at) == (5, "h", notices.ended(long.key))
    assert [report.key for report in reports.all] == [long.key]
    notices.close()


async def test_an_attempt_that_begins_again_elsewhere_is_reported_as_started_once() -> None:
    reports = Reports()
    notices = StartNotices(asyncio.get_running_loop(), reports, hostname="h", delay=0)
    early, told, last = attempt("t", number=1), attempt("t", number=2), attempt("t", number=3)

    notices.began(early.key, Here())
    notices.withdrawn(early.key)
    notices.began(told.key, Here())
    await reports.of(told, outcome=Outcome.STARTED)
    notices.withdrawn(told.key)
    notices.began(told.key, Here())
    notices.began(early.key, Here())
    notices.began(last.key, Here())
    await reports.of(last, outcome=Outcome.STARTED)

    assert [report.key for report in reports.all] == [told.key, early.key, last.key]
    notices.close()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "ended with exit code 0"),
        (-9, "was killed by SIGKILL"),
        (-250, "was killed by signal 250"),
        (None, "is gone"),
    ],
)
def test_exits_are_told_in_words(code: int | None, text: str) -> None:
    assert describe_exit(code) == text


def test_an_interrupt_waits_while_the_socket_is_in_use() -> None:
    interrupts, log = Interrupts(), list[Any]()

    def use() -> None:
        with interrupts.shield():
            interrupts.strike(KeyboardInterrupt())
            log.append("answer read")

    with pytest.raises(KeyboardInterrupt):
        use()
    assert log == ["answer read"]
    with pytest.raises(KeyboardInterrupt):
        interrupts.strike(KeyboardInterrupt())


def test_the_shield_of_another_thread_does_not_hold_the_main_thread_up() -> None:
    interrupts, inside, leave = Interrupts(), threading.Event(), threading.Event()

    def use() -> None:
        with interrupts.shield():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=use)
    thread.start()
    inside.wait()
    with pytest.raises(KeyboardInterrupt):
        interrupts.strike(KeyboardInterrupt())
    leave.set()
    thread.join()
