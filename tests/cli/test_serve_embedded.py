"""`aiosched serve` with its embedded PostgreSQL, when that server or its folder is lost under it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from typer.testing import Result

from tests.cli.conftest import Cli
from tests.cli.serving import stop, wait_for
from tests.conftest import short_folder
from tests.removing import remove_tree

DAG = """
from aiosched import dag, task

@dag()
def sales():
    @task
    async def work(): ...
    work()

sales()
"""


@pytest.fixture
def place(short_path: Path) -> Path:
    """A folder with a DAG, for a home with a short path."""
    (short_path / "dags").mkdir()
    (short_path / "dags" / "sales.py").write_text(DAG)
    return short_path


@pytest.fixture(scope="module")
def migrated() -> Iterator[Path]:
    """A home whose server has ended. A copy of it is started sooner than initdb and the migrations make another."""
    folder = short_folder()
    Cli(home=folder / "home")("db", "migrate")
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture
def process(place: Path, migrated: Path) -> Iterator[subprocess.Popen[str]]:
    """`aiosched serve` on the embedded database of `place`, ready; it and its server are ended afterwards."""
    subprocess.run(["cp", "--archive", str(migrated), str(place / "home")], check=True)  # its owner can be another user
    command = [sys.executable, "-m", "aiosched", "serve", "--slots", "1", "--no-web", "-o", "json", "--home", "home"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=place, text=True, **pipes) as process:  # type: ignore[call-overload]
        wait_for(process, "ready")
        try:
            yield process
        finally:
            process.kill()
            for server in servers_in(place):
                server.kill()


def servers_in(place: Path) -> list[psutil.Process]:
    """The PostgreSQL servers that were started on a folder of `place`, wherever it is now."""
    found = []
    for process in psutil.process_iter(["name", "cmdline"]):
        words = process.info["cmdline"] or []
        if process.info["name"] == "postgres" and any(str(place) in word for word in words[1:]):
            found.append(process)
    return found


def read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Read the log up to the line with `text`."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"serve ended with {process.wait()} and never said {text!r}: {''.join(lines)}")


def trigger(place: Path) -> Result:
    """Run the DAG once it is there: on a busy machine that is after the banner."""
    cli = Cli(home=place / "home")
    while not cli.json("dags", "list"):
        pass
    return cli("dags", "trigger", "sales", "--wait")


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, id="killed", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, id="stopped"),
    ],
)
def test_a_server_that_ends_is_started_again_and_the_log_says_why(
    place: Path, process: subprocess.Popen[str], number: signal.Signals
) -> None:
    (server,) = servers_in(place)
    server.send_signal(number)

    said = read_until(process, "is running again")
    result = trigger(place)

    ended = next(json.loads(line)["event"] for line in said if "has ended" in line)
    assert "and is restarted now. Its log ends with: " in ended
    assert ("database system is shut down" in ended) is (number is signal.SIGINT)
    assert "dsn" not in "".join(said).lower()
    assert "success" in result.stdout
    (again,) = servers_in(place)
    assert again.pid != server.pid
    stop(process)
    assert process.returncode == 0
    assert servers_in(place) == []


@pytest.mark.slow
def test_a_session_that_is_killed_makes_the_server_recover_and_serve_goes_on(
    place: Path, process: subprocess.Popen[str]
) -> None:
    (server,) = servers_in(place)
    session = next(each for each in server.children() if "[local]" in " ".join(each.cmdline()))

    session.kill()
    result = trigger(place)

    assert "success" in result.stdout
    (again,) = servers_in(place)
    assert again.pid == server.pid
    stop(process)
    assert process.returncode == 0


def test_a_signal_during_the_first_start_leaves_no_server(place: Path) -> None:
    command = [sys.executable, "-m", "aiosched", "serve", "--slots", "1", "--no-web", "-o", "json", "--home", "home"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=place, text=True, **pipes) as process:  # type: ignore[call-overload]
        while not (place / "home" / "pg.lock").exists():  # the start has begun
            assert process.poll() is None

        said = stop(process, signal.SIGINT)

        left = servers_in(place)
        for server in left:
            server.kill()
    assert (process.returncode, left) == (130, []), said


def renamed(home: Path) -> None:
    home.rename(home.with_name("elsewhere"))


@pytest.mark.parametrize("lose", [renamed, pytest.param(remove_tree, marks=pytest.mark.slow)])
def test_a_home_that_is_lost_is_said_at_once_and_no_server_stays(
    place: Path, process: subprocess.Popen[str], lose: Callable[[Path], None]
) -> None:
    home = place / "home"
    (server,) = servers_in(place)
    before = shared_memory_of(server)

    lose(home)
    _, said = process.communicate(timeout=60)

    assert process.returncode == 5
    last = said.splitlines()[-1]
    assert "home/pg of the embedded database was renamed or removed while it was in use" in last
    assert "dsn" not in said.lower()
    assert servers_in(place) == []
    assert {path for path in before if path.exists()} == set()
    assert not home.exists()


@pytest.mark.slow  # the copy of a home that each of these tests starts is one in a new place, too
def test_a_renamed_home_can_be_used_in_its_new_place(place: Path, process: subprocess.Popen[str]) -> None:
    trigger(place)

    renamed(place / "home")
    process.communicate(timeout=60)

    runs = Cli(home=place / "elsewhere").json("runs", "list")
    assert [run["state"] for run in runs] == ["success"]


def shared_memory_of(server: psutil.Process) -> set[Path]:
    lines = Path(f"/proc/{server.pid}/maps").read_text().splitlines()
    return {Path(line.split()[-1]) for line in lines if "/dev/shm/PostgreSQL." in line}
