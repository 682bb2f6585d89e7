"""The embedded server: made, shared, survived, attached to again and stopped in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from aiosched.db.server.dsn import address_of
from aiosched.db.server.embedded import EmbeddedPostgres, embedded_data_dir, embedded_dsn
from aiosched.db.server.embedded_host import SOCKET_PATH_BYTES, Account, first_closed
from aiosched.db.server.installations import binaries
from aiosched.db.server.postmaster import is_alive
from aiosched.errors import DatabaseError, UnsupportedDatabase
from tests.removing import remove_tree

IS_ROOT = os.geteuid() == 0


def ask(dsn: str, query: str) -> Any:
    """The answer to `query`, over a connection of its own."""

    async def fetch() -> Any:
        conn = await asyncpg.connect(dsn)
        try:
            return await conn.fetchval(query)
        finally:
            await conn.close()

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(fetch())


def server_pid(data_dir: Path) -> int:
    return int((data_dir / "postmaster.pid").read_text().split()[0])


def is_running(data_dir: Path) -> bool:
    return embedded_dsn(data_dir.parent) is not None


def shared_memory_of(pid: int) -> set[Path]:
    """The files in /dev/shm of a server: one that cannot read its data any more leaves them there."""
    maps = Path(f"/proc/{pid}/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    return {Path(line.split()[-1]) for line in lines if "/dev/shm/PostgreSQL." in line}


def until(condition: Callable[[], bool]) -> None:
    """Wait for the machine, not for a time: pytest-timeout ends what never comes."""
    while not condition():
        threading.Event().wait(0.005)


@pytest.fixture
def data_dir(short_path: Path) -> Iterator[Path]:
    """The data directory of a home; a server that still runs on it at the end is stopped."""
    folder = embedded_data_dir(short_path)
    yield folder
    if is_running(folder):
        server = EmbeddedPostgres(folder)
        server.start_blocking()
        server.stop_blocking()


@pytest.fixture
def postgres(data_dir: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(data_dir, durable=False)
    yield server
    server.stop_blocking()


PROGRAM = """
import os, signal, sys
from pathlib import Path
from aiosched.db.server.embedded import EmbeddedPostgres
if sys.argv[2:]:  # become an ordinary user only now: Python itself may stand where that user cannot read
    uid, gid = map(int, sys.argv[2:])
    os.setgroups([]), os.setgid(gid), os.setuid(uid)
signal.signal(signal.SIGINT, signal.SIG_DFL)  # a background job of a shell inherits that it is ignored
server = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
print(server.start_blocking(), flush=True)
sys.stdin.readline()
server.stop_blocking()
print("stopped", flush=True)
"""


@contextlib.contextmanager
def another_process(data_dir: Path, *, account: Account | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process, of `account` if given, that uses the server until a line is written to it."""
    become = [] if account is None else [str(account.uid), str(account.gid)]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(data_dir), *become],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        yield process
        process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ask_to_stop(process: subprocess.Popen[str]) -> str:
    """Ask the process to stop using the server; its answer."""
    assert process.stdin is not None
    process.stdin.write("stop\n")
    process.stdin.flush()
    return line_of(process)


# -- starting and stopping -------------------------------------------------------------------------


async def test_it_starts_and_stops_without_blocking_the_loop_and_keeps_its_data(data_dir: Path) -> None:
    async with EmbeddedPostgres(data_dir) as dsn:
        conn = await asyncpg.connect(dsn)
        await conn.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        await conn.close()
    assert not is_running(data_dir)

    async with EmbeddedPostgres(data_dir) as dsn:
        conn = await asyncpg.connect(dsn)
        answer = await conn.fetchval("SELECT answer FROM kept")
        database = await conn.fetchval("SELECT current_database()")
        await conn.close()

    assert (answer, database) == (42, "aiosched")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("data_checksums", "on"),
        ("listen_addresses", ""),
        ("max_connections", "200"),
        ("jit", "off"),
        ("TimeZone", "UTC"),
        ("server_encoding", "UTF8"),
    ],
)
def test_it_is_durable_and_reachable_by_its_socket_alone(durable_dsn: str, setting: str, value: str) -> None:
    assert ask(durable_dsn, f"SHOW {setting}") == value


@pytest.fixture(scope="module")
def durable_dsn() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="aio", ignore_cleanup_errors=False) as folder:
        Path(folder).chmod(0o711)
        server = EmbeddedPostgres(Path(folder) / "pg")
        yield server.start_blocking()
        server.stop_blocking()


def test_it_runs_as_an_ordinary_user_even_if_we_are_root(postgres: EmbeddedPostgres) -> None:
    postgres.start_blocking()

    data = postgres.data_dir.stat()
    assert data.st_uid != 0
    assert data.st_uid == os.geteuid() or IS_ROOT
    assert stat.S_IMODE(data.st_mode) == 0o700


@pytest.mark.slow
def test_an_ordinary_user_needs_no_rights_at_all(short_path: Path) -> None:
    home = short_path / "home"
    home.mkdir(mode=0o700)
    account = Account.for_data(home) if IS_ROOT else None
    if account is not None:
        if (closed := first_closed(binaries(), account)) is not None:
            pytest.skip(f"an ordinary user cannot run the programs in {binaries()}: {closed} is closed")
        os.chown(home, account.uid, account.gid)

    with another_process(home / "pg", account=account) as process:
        dsn = line_of(process)
        assert dsn.startswith("postgresql://")
        assert ask(dsn, "SELECT 1") == 1
        assert ask_to_stop(process) == "stopped"

    assert embedded_dsn(home) is None


def test_the_running_server_of_a_home_can_be_found(postgres: EmbeddedPostgres) -> None:
    home = postgres.data_dir.parent
    assert embedded_dsn(home) is None

    dsn = postgres.start_blocking()
    assert embedded_dsn(home) == dsn

    postgres.stop_blocking()
    assert embedded_dsn(home) is None


def test_a_stop_is_ordered_so_the_next_start_recovers_nothing(postgres: EmbeddedPostgres) -> None:
    for _ in range(2):
        ask(postgres.start_blocking(), "SELECT 1")
        postgres.stop_blocking()

    told = postgres.log_file.read_text()
    assert told.count("database system is shut down") == 2
    assert "not properly shut down" not in told
    assert not (postgres.data_dir / "postmaster.pid").exists()


def test_stopping_twice_or_unstarted_does_nothing(postgres: EmbeddedPostgres) -> None:
    postgres.stop_blocking()
    postgres.start_blocking()
    postgres.stop_blocking()
    postgres.stop_blocking()

    assert not is_running(postgres.data_dir)


def test_a_server_that_somebody_else_ended_is_started_again(postgres: EmbeddedPostgres) -> None:
    postgres.start_blocking()
    os.kill(server_pid(postgres.data_dir), signal.SIGINT)
    until(lambda: not is_running(postgres.data_dir))

    assert ask(postgres.start_blocking(), "SELECT 1") == 1


# -- where the socket stands -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_path_too_long_for_a_socket_gets_a_private_short_one(short_path: Path) -> None:
    server = EmbeddedPostgres(short_path / ("d" * 60) / ("e" * 60) / "pg", durable=False)

    dsn = server.start_blocking()
    folder = Path(address_of(dsn).host)
    try:
        assert len(os.fsencode(folder / f".s.PGSQL.{address_of(dsn).port}")) <= SOCKET_PATH_BYTES
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert ask(dsn, "SELECT 1") == 1
        assert embedded_dsn(server.data_dir.parent) == dsn
    finally:
        server.stop_blocking()
        folder.rmdir()


@pytest.mark.slow
def test_a_socket_path_of_just_the_limit_stays_in_the_data_directory(short_path: Path) -> None:
    room = SOCKET_PATH_BYTES - len("/.s.PGSQL.1234") - len(str(short_path)) - 1
    server = EmbeddedPostgres(short_path / ("x" * room), durable=False)

    dsn = server.start_blocking()
    server.stop_blocking()

    assert address_of(dsn).host == str(server.data_dir)


# -- sharing ---------------------------------------------------------------------------------------


def test_two_processes_share_one_server_and_the_last_one_ends_it(postgres: EmbeddedPostgres) -> None:
    with another_process(postgres.data_dir) as process:
        theirs = line_of(process)
        ours = postgres.start_blocking()
        pid = server_pid(postgres.data_dir)

        postgres.stop_blocking()

        assert ours == theirs
        assert server_pid(postgres.data_dir) == pid
        assert is_running(postgres.data_dir)
        assert ask_to_stop(process) == "stopped"
    assert not is_running(postgres.data_dir)


@pytest.mark.slow
def test_two_users_in_one_process_count_as_two(data_dir: Path) -> None:
    first, second = (EmbeddedPostgres(data_dir, durable=False) for _ in range(2))
    assert first.start_blocking() == second.start_blocking()

    first.stop_blocking()
    assert is_running(data_dir)

    second.stop_blocking()
    assert not is_running(data_dir)


@pytest.mark.slow
async def test_first_starts_at_the_same_moment_make_one_server(data_dir: Path) -> None:
    servers = [EmbeddedPostgres(data_dir, durable=False) for _ in range(4)]

    addresses = await asyncio.gather(*(server.start() for server in servers))
    await asyncio.gather(*(server.stop() for server in servers))

    assert len(set(addresses)) == 1
    assert not is_running(data_dir)


# -- what it survives ------------------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_in_the_terminal_does_not_reach_the_server(data_dir: Path) -> None:
    with another_process(data_dir) as process:
        dsn = line_of(process)
        os.killpg(process.pid, signal.SIGINT)
        process.wait()

        assert ask(dsn, "SELECT 1") == 1


def test_it_outlives_a_killed_owner_and_the_next_one_attaches_and_ends_it(postgres: EmbeddedPostgres) -> None:
    with another_process(postgres.data_dir) as process:
        dsn = line_of(process)
        pid = server_pid(postgres.data_dir)
        process.kill()
        process.wait()

    assert postgres.start_blocking() == dsn
    assert server_pid(postgres.data_dir) == pid

    postgres.stop_blocking()
    assert not is_running(postgres.data_dir)


def test_a_killed_server_is_recovered_with_everything_committed(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    dsn = server.start_blocking()
    ask(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    os.kill(server_pid(data_dir), signal.SIGKILL)  # its backends may live a moment longer

    answer = ask(server.start_blocking(), "SELECT answer FROM kept")
    server.stop_blocking()

    assert answer == 42


@pytest.mark.slow
def test_pid_files_whose_number_now_belongs_to_somebody_else_do_not_stop_a_start(postgres: EmbeddedPostgres) -> None:
    port = address_of(postgres.start_blocking()).port
    names = ["postmaster.pid", f".s.PGSQL.{port}.lock"]
    left = {name: (postgres.data_dir / name).read_text().splitlines()[1:] for name in names}
    postgres.stop_blocking()
    owner = postgres.data_dir.stat()
    become = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if IS_ROOT else {}

    with subprocess.Popen(["sleep", "60"], **become) as stranger:  # type: ignore[call-overload]
        for name, lines in left.items():
            path = postgres.data_dir / name
            path.write_text("\n".join([str(stranger.pid), *lines, ""]))
            os.chown(path, owner.st_uid, owner.st_gid)

        assert ask(postgres.start_blocking(), "SELECT 1") == 1
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.slow
def test_a_broken_pid_file_does_not_stop_a_start(postgres: EmbeddedPostgres) -> None:
    postgres.start_blocking()
    postgres.stop_blocking()
    path = postgres.data_dir / "postmaster.pid"
    path.write_text("4194303\n")  # written by a server that was killed while it wrote
    os.chown(path, postgres.data_dir.stat().st_uid, -1)

    assert ask(postgres.start_blocking(), "SELECT 1") == 1


@pytest.mark.slow
def test_a_first_start_that_was_killed_half_way_is_repeated(postgres: EmbeddedPostgres) -> None:
    half = postgres.data_dir.with_name("pg.new")
    (half / "base").mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")

    assert ask(postgres.start_blocking(), "SELECT 1") == 1
    assert not half.exists()


@pytest.mark.slow
def test_a_server_whose_data_was_removed_does_not_take_its_successor_along(postgres: EmbeddedPostgres) -> None:
    first = postgres.start_blocking()
    pid = server_pid(postgres.data_dir)
    left_behind = shared_memory_of(pid)
    remove_tree(postgres.data_dir)

    second = postgres.start_blocking()
    with contextlib.suppress(ProcessLookupError):  # it may have noticed already
        os.kill(pid, signal.SIGQUIT)  # what the old one does by itself, within a minute
    until(lambda: not is_alive(pid))
    for path in left_behind:
        path.unlink(missing_ok=True)

    assert first != second
    assert ask(second, "SELECT 1") == 1


@pytest.mark.slow
def test_a_big_log_is_put_aside(postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiosched.db.server.embedded.LOG_BYTES", 10)
    for _ in range(2):
        postgres.start_blocking()
        postgres.stop_blocking()

    assert postgres.log_file.with_suffix(".log.1").exists()


# -- what it refuses -------------------------------------------------------------------------------


def test_data_of_another_version_is_left_alone_and_said(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "PG_VERSION").write_text("16\n")

    with pytest.raises(UnsupportedDatabase, match="made by PostgreSQL 16, and the embedded server is PostgreSQL 18"):
        EmbeddedPostgres(data_dir).start_blocking()


def test_a_folder_with_other_things_in_it_is_left_alone(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "thesis.tex").touch()

    with pytest.raises(DatabaseError, match="not empty and not a PostgreSQL data directory"):
        EmbeddedPostgres(data_dir).start_blocking()

    assert [path.name for path in data_dir.iterdir()] == ["thesis.tex"]


def test_a_server_that_does_not_start_is_quoted(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir, durable=False, options={"shared_buffers": "plenty"})

    with pytest.raises(
        DatabaseError, match=r'did not start: invalid value for parameter "shared_buffers".*server\.log'
    ):
        server.start_blocking()


def test_a_full_disk_is_told_and_nothing_half_made_stays(
    data_dir: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = short_path / "fake" / "bin"
    programs.mkdir(parents=True)
    (programs / "initdb").write_text("#!/bin/sh\necho 'initdb: error: No space left on device' >&2; exit 1\n")
    (programs / "initdb").chmod(0o755)
    monkeypatch.setattr("aiosched.db.server.embedded.programs", lambda account, folder: programs)

    with pytest.raises(DatabaseError, match=r"No space left on device.*Check disk space") as caught:
        EmbeddedPostgres(data_dir).start_blocking()

    assert caught.value.exit_code == 5
    assert sorted(path.name for path in short_path.iterdir()) == ["fake", "pg.lock"]


def test_a_folder_without_permission_is_told(short_path: Path) -> None:
    home = short_path / "home"
    home.mkdir(mode=0o555)
    account = Account.for_data(home) if IS_ROOT else None

    with another_process(home / "pg", account=account) as process:
        _, told = process.communicate()

    assert f"No permission for the embedded database in {home / 'pg'}" in told
    assert "Run as the user that owns the folder" in told
