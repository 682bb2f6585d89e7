"""What a killed server leaves behind never stops the next start, and never costs another process its life.

Pid files outlive their server, and in a container, which has few processes, each start hands out the same numbers.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiosched.db.server.embedded import EmbeddedPostgres, ServerState, embedded_data_dir
from aiosched.db.server.embedded_host import Account
from aiosched.db.server.postmaster import ServerAnswer, ask, folder_id, last_lines, read_postmaster, runs_on
from aiosched.errors import DatabaseError
from tests.removing import remove_tree

pytestmark = pytest.mark.slow

CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
if os.geteuid() != 0:
    CONTAINER += ["--user", "--map-current-user"]
IS_ALLOWED = shutil.which("unshare") is not None and not subprocess.call(
    [*CONTAINER, "true"], stderr=subprocess.DEVNULL
)

NOBODY = 4194303  # the number of no process

PROGRAM = """
import asyncio, sys
from pathlib import Path
import asyncpg
from aiosched.db.server.embedded import EmbeddedPostgres

async def count():
    conn = await asyncpg.connect(EmbeddedPostgres(Path(sys.argv[1])).start_blocking())
    await conn.execute("CREATE TABLE IF NOT EXISTS starts (n int)")
    await conn.execute("INSERT INTO starts VALUES (1)")
    return await conn.fetchval("SELECT count(*) FROM starts")

print(asyncio.run(count()), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def postgres(short_path: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(embedded_data_dir(short_path), durable=False)
    yield server
    server.stop_blocking()


@pytest.fixture
def stopped(postgres: EmbeddedPostgres) -> EmbeddedPostgres:
    """A server that has been started and stopped."""
    postgres.start_blocking()
    postgres.stop_blocking()
    return postgres


@pytest.fixture
def stranger(stopped: EmbeddedPostgres) -> Iterator[subprocess.Popen[bytes]]:
    """A living process of the user that runs the server, which is no PostgreSQL."""
    account = Account.for_data(stopped.data_dir)
    become = {"user": account.uid, "group": account.gid, "extra_groups": []} if account.switch else {}
    with subprocess.Popen(["sleep", "600"], **become) as process:  # type: ignore[call-overload]
        yield process
        process.kill()


def leave(data_dir: Path, name: str, *lines: object) -> None:
    """Put a file there, as the server's user."""
    path = data_dir / name
    path.write_text("".join(f"{line}\n" for line in lines))
    owner = data_dir.stat()
    os.chown(path, owner.st_uid, owner.st_gid)


@pytest.mark.skipif(not IS_ALLOWED, reason=f"{' '.join(CONTAINER)} is not permitted here")
def test_in_a_container_that_is_killed_again_and_again_every_start_succeeds(short_path: Path) -> None:
    home = short_path / "pg"

    for start in range(1, 6):
        with subprocess.Popen(
            [*CONTAINER, sys.executable, "-c", PROGRAM, str(home)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as container:  # fmt: skip
            assert container.stdout is not None
            counted = container.stdout.readline()
            container.kill()
            _, said = container.communicate()
        assert counted == f"{start}\n", said


def test_a_file_that_names_the_number_of_the_new_server_is_not_taken_for_its_word(
    stopped: EmbeddedPostgres, stranger: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = stopped.data_dir
    leave(data, "postmaster.pid", stranger.pid, data, 1, 4711, data, "", "  1  1", "ready")
    monkeypatch.setattr(EmbeddedPostgres, "_spawn", lambda *_: stranger.pid)
    monkeypatch.setattr("aiosched.db.server.embedded.START_SECONDS", 0.2)

    with pytest.raises(DatabaseError, match="was not ready after"):
        stopped.start_blocking()


def test_the_files_of_two_dead_servers_do_not_stop_a_start(
    stopped: EmbeddedPostgres, stranger: subprocess.Popen[bytes]
) -> None:
    data, port = stopped.data_dir, configured_port(stopped.data_dir)
    leave(data, "postmaster.pid", NOBODY, data, 1, port, data, "", "  1  1", "ready")
    leave(data, f".s.PGSQL.{port}.lock", stranger.pid, data, 1, port, data)

    stopped.start_blocking()

    assert stopped.check() is ServerState.RUNS
    assert stranger.poll() is None


def configured_port(data_dir: Path) -> str:
    lines = (data_dir / "postgresql.conf").read_text().splitlines()
    return next(line.split()[2] for line in lines if line.startswith("port ="))


def test_an_empty_pid_file_does_not_stop_a_start(stopped: EmbeddedPostgres) -> None:
    leave(stopped.data_dir, "postmaster.pid")

    stopped.start_blocking()

    assert stopped.check() is ServerState.RUNS


def test_a_process_that_is_not_the_server_is_not_ended_with_it(
    stopped: EmbeddedPostgres, stranger: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """As it is seen from another container on the same folder: the socket answers, the number is somebody else's."""
    stopped.start_blocking()
    file = stopped.data_dir / "postmaster.pid"
    true = file.read_text().splitlines()
    leave(stopped.data_dir, "postmaster.pid", stranger.pid, *true[1:])

    with caplog.at_level(logging.WARNING, "aiosched.db.server.embedded"):
        stopped.stop_blocking()

    assert "runs in another container, and is left running" in caplog.text
    assert stranger.poll() is None
    leave(stopped.data_dir, "postmaster.pid", *true)
    stopped.start_blocking()


def test_a_server_is_known_by_the_folder_it_works_in(
    stopped: EmbeddedPostgres, stranger: subprocess.Popen[bytes], short_path: Path
) -> None:
    stopped.start_blocking()
    found = read_postmaster(stopped.data_dir)
    assert found is not None
    folder = folder_id(stopped.data_dir)

    assert runs_on(found.pid, folder, stopped.data_dir)
    assert not runs_on(found.pid, folder_id(short_path), short_path)
    assert not runs_on(stranger.pid, folder, stopped.data_dir)
    assert not runs_on(NOBODY, folder, stopped.data_dir)


def test_the_server_of_a_folder_that_was_removed_is_ended_by_its_last_user(postgres: EmbeddedPostgres) -> None:
    postgres.start_blocking()
    found = read_postmaster(postgres.data_dir)
    assert found is not None
    folder = folder_id(postgres.data_dir)

    remove_tree(postgres.data_dir.parent / "pg")
    assert postgres.check() is ServerState.FOLDER_GONE
    postgres.stop_blocking()

    assert not runs_on(found.pid, folder, postgres.data_dir)
    assert ask(found.socket) is ServerAnswer.NONE


def test_what_clients_were_told_is_no_reason_for_an_end() -> None:
    log = (
        "1 LOG:  received fast shutdown request\n"
        "2 FATAL:  terminating connection due to administrator command\n"
        "3 FATAL:  the database system is shutting down\n"
        "4 LOG:  database system is shut down\n"
    )

    assert last_lines(log) == "1 LOG:  received fast shutdown request | 4 LOG:  database system is shut down"
    assert last_lines("") == "nothing."
