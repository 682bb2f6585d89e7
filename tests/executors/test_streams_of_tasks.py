"""`sys.stdout` and `sys.stderr` of DAG files and tasks in workers: text streams as everywhere else in Python."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiosched.core.values.messages import Outcome
from aiosched.executors.attempt.logs import AttemptLog, RoutedStream, current_log
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import Reports, StartLocal, attempt, write_dag

ONE = attempt("t")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AttemptLog]:
    log = AttemptLog(tmp_path, ONE, 10_000)
    token = current_log.set(log)
    yield log
    current_log.reset(token)
    log.close()


@pytest.fixture
def stream(log: AttemptLog) -> RoutedStream:
    return RoutedStream("stdout", io.StringIO())


def said(log: AttemptLog, folder: Path) -> list[str]:
    """The lines of the log, without time and level."""
    log.close()
    return [line.split(maxsplit=2)[2] for line in log_path(folder, ONE).read_text().splitlines()]


@pytest.mark.parametrize("name", ["plain", "later"])
async def test_a_dag_file_and_its_tasks_use_stdout_as_any_text_stream(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, name: str
) -> None:
    body = """
    sys.stdout.reconfigure(encoding="utf-8", errors="replace", line_buffering=True)
    sys.stdout.buffer
    def say():
        print("printed")
        sys.stdout.buffer.write("written é\\n".encode())
        sys.stderr.reconfigure(write_through=True)
        return [sys.stdout.name, sys.stdout.mode, sys.stdout.errors, sys.stdout.newlines, sys.stdout.line_buffering]
    def plain(): return say()
    async def later(): return say()
    task(plain), task(later)
    """
    write_dag(dags_folder, body)
    one = attempt(name, is_async=name == "later")
    executor = await start_local()

    executor.submit([one])

    report = await reports.of(one)
    assert (report.outcome, report.reason) == (Outcome.SUCCESS, None)
    assert report.xcoms[0].value == '["<stdout>","w","backslashreplace",null,true]'
    lines = log_path(logs_folder, one).read_text().splitlines()
    assert [line.split("  ")[-1] for line in lines] == ["printed", "written é"]


async def test_what_a_task_prints_to_a_stream_of_its_own_above_stdout_is_in_its_log(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = """
    import io
    def wrap():
        sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")
        print("wrapped")
    def detach():
        sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding="utf-8")
        print("detached")
    def usual(): print("usual")
    task(wrap), task(detach), task(usual)
    """
    write_dag(dags_folder, body)
    attempts = [attempt(name, number=n) for n, name in enumerate(("wrap", "detach", "usual"))]
    executor = await start_local(slots=1)

    executor.submit(attempts)

    await reports.count(3)
    wrapped, detached, usual = (log_path(logs_folder, one).read_text() for one in attempts)
    assert "stdout  wrapped\n" in wrapped
    assert "stdout  detached\n" in detached
    assert usual.split("  ")[-1] == "usual\n"
    assert len(usual.splitlines()) == 1


async def test_what_a_thread_of_a_task_prints_is_in_the_log_of_that_task(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    body = """
    import threading
    def beside():
        thread = threading.Thread(target=print, args=("by a thread",), kwargs={"end": ""})
        thread.start()
        thread.join()
    def loud(): os.write(1, b"loud")
    task(beside), task(loud)
    """
    write_dag(dags_folder, body)
    beside, loud = attempt("beside", number=1), attempt("loud", number=2)
    executor = await start_local(slots=1)

    executor.submit([beside, loud])

    await reports.count(2)
    assert log_path(logs_folder, beside).read_text() == "by a thread\n"
    assert log_path(logs_folder, loud).read_text() == "loud\n"


def test_bytes_are_in_order_with_what_was_printed(log: AttemptLog, stream: RoutedStream, tmp_path: Path) -> None:
    print("one", file=stream)
    assert stream.buffer.write(bytearray(b"tw")) == 2
    print("o", file=stream)
    stream.buffer.write(b"three\nfour")

    assert said(log, tmp_path) == ["stdout  one", "stdout  two", "stdout  three", "stdout  four"]


def test_a_character_may_be_split_over_two_writes(log: AttemptLog, stream: RoutedStream, tmp_path: Path) -> None:
    for byte in "é€\n".encode():
        stream.buffer.write(bytes([byte]))
    stream.buffer.write(b"no \xff UTF-8, half a character: \xc3")

    assert said(log, tmp_path) == ["stdout  é€", "stdout  no \ufffd UTF-8, half a character: \ufffd"]


def test_bytes_without_an_attempt_go_where_text_goes(tmp_path: Path) -> None:
    with (tmp_path / "console").open("w", encoding="utf-8") as console:
        stream = RoutedStream("stdout", console)
        print("text", file=stream)
        stream.buffer.write(b"\xff\n")
        stream.buffer.flush()

    assert (tmp_path / "console").read_bytes() == b"text\n\xff\n"
    plain = io.StringIO()
    RoutedStream("stdout", plain).buffer.write(b"bytes \xff")
    assert plain.getvalue() == "bytes \ufffd"


def test_the_wrong_type_is_refused_in_pythons_words(stream: RoutedStream) -> None:
    with pytest.raises(TypeError, match=r"write\(\) argument must be str, not bytes"):
        stream.write(b"x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a bytes-like object is required, not 'str'"):
        stream.buffer.write("x")  # type: ignore[arg-type]


def test_a_task_that_closes_the_stream_takes_it_from_no_other_one(
    log: AttemptLog, stream: RoutedStream, tmp_path: Path
) -> None:
    stream.buffer.close()
    stream.close()

    stream.writelines(["still ", "there\n"])
    stream.buffer.writelines([b"bytes, ", b"too\n"])

    assert said(log, tmp_path) == ["stdout  still there", "stdout  bytes, too"]


def test_it_has_what_text_streams_have(stream: RoutedStream) -> None:
    missing = [name for name in dir(io.TextIOWrapper) if not name.startswith("_") and not hasattr(stream, name)]

    assert missing == []
    assert isinstance(stream, io.TextIOBase)
    assert isinstance(stream.buffer, io.BufferedIOBase)
    assert (stream.writable(), stream.readable(), stream.seekable(), stream.isatty()) == (True, False, False, False)
