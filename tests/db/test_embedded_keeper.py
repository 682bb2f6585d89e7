"""A server whose users were all killed is ended, by a process beside it that ends with it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from aiosched.db.server.embedded import EmbeddedPostgres, embedded_data_dir
from aiosched.db.server.embedded_keeper import ABANDONED_LOOKS, Server, keep
from aiosched.db.server.postmaster import is_alive
from tests.patience import PATIENCE

HOST = """
import os, signal, subprocess, sys
from pathlib import Path
from aiosched.db.server.embedded import EmbeddedPostgres
print(EmbeddedPostgres(Path(sys.argv[1]), durable=False).start_blocking(), flush=True)
sys.stdin.readline()
os.kill(os.getpid(), int(sys.argv[2]))
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "pg"
    folder.mkdir()
    for suffix in ("lock", "users"):
        (tmp_path / f"pg.{suffix}").touch()
    return folder


@pytest.fixture
def stand_in(data_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that the pid file names."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]) as process:
        (data_dir / "postmaster.pid").write_text(f"{process.pid}\n{data_dir}\n")
        yield process
        process.kill()


class Looks:
    """Instead of pauses: what happens before each look."""

    def __init__(self, server: Server, happenings: dict[int, Callable[[], object]], *, most: int) -> None:
        self.count, self._server, self._happenings, self._most = 0, server, happenings, most

    def __call__(self, seconds: float) -> bool:
        if seconds > 1.0:  # a signal was sent
            return self._server.ends_within(PATIENCE)
        self.count += 1
        self._happenings.get(self.count, lambda: None)()
        return self.count > self._most


def hold(path: Path, kind: int = fcntl.LOCK_SH) -> int:
    file = os.open(path, os.O_RDWR)
    fcntl.flock(file, kind)
    return file


def test_a_server_that_nobody_uses_for_some_looks_is_ended(data_dir: Path, stand_in: subprocess.Popen[bytes]) -> None:
    server = Server(str(data_dir), stand_in.pid)
    looks = Looks(server, {}, most=100)

    keep(str(data_dir), server, looks)

    assert looks.count == ABANDONED_LOOKS
    assert stand_in.wait() == -signal.SIGINT or stand_in.returncode == 1


def test_a_user_who_comes_in_time_keeps_it(data_dir: Path, stand_in: subprocess.Popen[bytes]) -> None:
    server = Server(str(data_dir), stand_in.pid)
    users = data_dir.with_name("pg.users")

    keep(str(data_dir), server, Looks(server, {ABANDONED_LOOKS - 1: lambda: hold(users)}, most=50))

    assert stand_in.poll() is None


def test_while_somebody_starts_or_stops_it_nothing_is_counted(
    data_dir: Path, stand_in: subprocess.Popen[bytes]
) -> None:
    server = Server(str(data_dir), stand_in.pid)
    lock = hold(data_dir.with_name("pg.lock"), fcntl.LOCK_EX)

    keep(str(data_dir), server, Looks(server, {}, most=50))

    assert stand_in.poll() is None
    os.close(lock)


@pytest.mark.parametrize("content", ["", "1\n", None], ids=["empty", "another", "gone"])
def test_a_process_that_the_pid_file_does_not_name_gets_no_signal(
    data_dir: Path, stand_in: subprocess.Popen[bytes], content: str | None
) -> None:
    pid_file = data_dir / "postmaster.pid"
    if content is None:
        pid_file.unlink()
    else:
        pid_file.write_text(content)

    Server(str(data_dir), stand_in.pid).send(signal.SIGKILL)

    assert stand_in.poll() is None


def test_without_descriptors_of_processes_the_end_is_seen_too(
    data_dir: Path, stand_in: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    server = Server(str(data_dir), stand_in.pid)

    assert not server.ends_within(0.0)
    server.send(signal.SIGKILL)
    stand_in.wait()
    assert server.ends_within(0.0)


def keepers_of(data_dir: Path) -> list[int]:
    """The processes that stand beside the server."""
    found = psutil.process_iter(["cmdline"])
    return [each.pid for each in found if (each.info["cmdline"] or ())[-2:-1] == [str(data_dir)]]


def test_the_keeper_ends_with_a_server_that_is_stopped(short_path: Path) -> None:
    server = EmbeddedPostgres(embedded_data_dir(short_path), durable=False)
    server.start_blocking()
    [keeper] = keepers_of(server.data_dir)
    watched = Server(str(server.data_dir), keeper)

    server.stop_blocking()

    assert watched.ends_within(PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV], ids=["KILL", "ABRT", "SEGV"])
def test_the_server_of_a_host_that_is_killed_is_ended(short_path: Path, signum: signal.Signals) -> None:
    data_dir = embedded_data_dir(short_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(data_dir), str(signum.value)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as host:
        assert host.stdout is not None
        assert host.stdout.readline()
        pid = int((data_dir / "postmaster.pid").read_text().split()[0])
        server = Server(str(data_dir), pid)
        host.communicate(b"\n")

    assert host.returncode == -signum
    assert server.ends_within(PATIENCE)
    assert not (data_dir / "postmaster.pid").exists(), "it was not shut down in order"
    assert not is_alive(pid)
