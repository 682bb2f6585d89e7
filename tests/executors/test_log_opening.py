"""Logs that a scheduler opens for a worker of another user: those of the attempts that it runs, and no others."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aiosched.core.values.messages import Attempt, AttemptKey
from aiosched.executors.attempt.log_opening import LogCall, LogFileServer, LogOperation, RemoteLogFiles
from aiosched.executors.attempt.logs import open_log
from aiosched.remote import pending
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import attempt
from tests.patience import PATIENCE

MINE, OTHER = attempt("mine", number=1), attempt("other", number=2)


@pytest.fixture
def server(tmp_path: Path) -> LogFileServer:
    return LogFileServer(tmp_path, lambda path: open_log(tmp_path, path, uploaded=True, readable=True))


@pytest.fixture
def worker(server: LogFileServer) -> Iterator[socket.socket]:
    """The socket of a worker that runs one attempt."""
    with server.serve({MINE.key: MINE}.get) as sock:
        sock.settimeout(PATIENCE)
        yield sock


def test_a_worker_writes_to_and_reads_the_log_of_its_attempt(worker: socket.socket, tmp_path: Path) -> None:
    files = RemoteLogFiles(worker)

    for text in (b"one ", b"two"):
        with open(files.open(MINE), "a+b", buffering=0) as log:  # noqa: PTH123  a descriptor
            assert not os.get_inheritable(log.fileno())
            log.write(text)
            log.seek(0)
            assert log.read().endswith(text)

    assert log_path(tmp_path, MINE).read_bytes() == b"one two"


def test_of_other_attempts_nothing_is_opened_or_touched(worker: socket.socket, tmp_path: Path) -> None:
    files = RemoteLogFiles(worker)

    for deed in LogOperation:
        with pytest.raises(OSError, match=r"^it is not the log of an attempt of this worker$"):
            files.tell(deed, OTHER)

    assert list(tmp_path.iterdir()) == []
    os.close(files.open(MINE))  # the worker is still served


def test_what_is_beside_the_log_is_done_by_the_scheduler(worker: socket.socket, tmp_path: Path) -> None:
    files = RemoteLogFiles(worker)
    descriptor = files.open(MINE)
    os.write(descriptor, b"12345")
    os.close(descriptor)
    (log,) = pending.list_pending(tmp_path)

    files.tell(LogOperation.HOLD, MINE)
    assert log.held.read_text() == "5"
    files.tell(LogOperation.RELEASE, MINE)
    assert (log.held.exists(), log.again.exists()) == (False, False)
    files.tell(LogOperation.AGAIN, MINE)
    assert log.again.exists()


def test_a_log_that_cannot_be_opened_is_an_error_of_the_worker_with_the_reason(
    worker: socket.socket, tmp_path: Path
) -> None:
    log_path(tmp_path, MINE).parent.parent.mkdir(parents=True)
    log_path(tmp_path, MINE).parent.touch()

    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        RemoteLogFiles(worker).open(MINE)


def test_nonsense_is_answered_and_the_next_question_too(worker: socket.socket) -> None:
    worker.send(b"nonsense")

    assert worker.recv(1000).startswith(b"-")
    os.close(RemoteLogFiles(worker).open(MINE))


def test_a_worker_that_asks_without_end_is_answered_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread would have the interpreter of the scheduler for itself for half of the time."""
    monkeypatch.setattr("aiosched.core.values.allowance.WITHOUT_PAUSE", 10)
    rests: list[float] = []
    resting, goes_on = threading.Event(), threading.Event()

    def rest(seconds: float) -> None:
        rests.append(seconds)
        resting.set()
        assert goes_on.wait(PATIENCE)

    server = LogFileServer(tmp_path, lambda path: open_log(tmp_path, path, uploaded=True, readable=True), rest=rest)
    with server.serve({}.get) as sock:
        sock.settimeout(PATIENCE)
        for _ in range(12):
            sock.send(b"nonsense")
        for _ in range(10):
            sock.recv(1_000)
        assert resting.wait(PATIENCE)
        assert 0 < rests[0] <= 2 / 300
        monkeypatch.setattr("aiosched.core.values.allowance.WITHOUT_PAUSE", 1_000)
        goes_on.set()
        assert sock.recv(1_000).startswith(b"-")


@pytest.mark.parametrize("asks", [False, True], ids=["between calls", "before the answer"])
def test_a_worker_that_dies_ends_its_thread_without_a_word(server: LogFileServer, asks: bool) -> None:
    is_asked, is_dead = threading.Event(), threading.Event()

    def find(key: AttemptKey) -> Attempt:
        is_asked.set()
        assert is_dead.wait(PATIENCE)
        return MINE

    before = set(threading.enumerate())
    with server.serve(find) as sock:
        (thread,) = set(threading.enumerate()) - before
        if asks:
            sock.send(msgspec.msgpack.encode(LogCall(LogOperation.OPEN, MINE.key)))
            assert is_asked.wait(PATIENCE)
    is_dead.set()
    thread.join(PATIENCE)

    assert not thread.is_alive()


def test_a_scheduler_that_is_gone_is_an_error_of_the_worker() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        files = RemoteLogFiles(theirs)
        ours.close()

        with pytest.raises(OSError):
            files.open(MINE)
