"""Without `run_as`, tasks are of the service's user: what of its processes they reach all the same, and what not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiosched.other_user import command_as
from tests.other_users import environment, nobody, shared_python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ATTACKS = '''
import ctypes, json, os
from pathlib import Path
from aiosched import DAG, task

FOLDER = Path(__file__).parents[1]

def services():
    """The processes above this one that are aiosched's main process, of the same user."""
    pid, found = os.getpid(), []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\\0"):
            found.append(pid)
    return found

def look(where):
    reached, pids = [], services()
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in pids:
        for name, attack in {
            "memory": lambda: open(f"/proc/{pid}/mem", "rb"),
            "map": lambda: Path(f"/proc/{pid}/maps").read_bytes(),
            "environment": lambda: Path(f"/proc/{pid}/environ").read_bytes(),
            "descriptors": lambda: os.listdir(f"/proc/{pid}/fd"),
            "trace": lambda: libc.ptrace(16, pid, 0, 0) == 0 or 1 / 0,
            "taken descriptor": lambda: libc.syscall(438, libc.syscall(434, pid, 0), 0, 0) >= 0 or 1 / 0,
            "signal": lambda: os.kill(pid, 0),
        }.items():
            try:
                attack()
                reached.append(name)
            except (OSError, ZeroDivisionError):
                pass
    Path(FOLDER, f"{where}.json").write_text(json.dumps([len(pids), reached]))

look("import")
with DAG("looks", schedule="@once", start_date="2026-01-01", catchup=True):

    @task
    def plain():
        look("plain")

    @task
    async def later():
        look("later")

    plain()
    later()
'''


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the user as whom the service runs: not root, whom nothing is hidden from."""
    made = Path(tempfile.mkdtemp(prefix="same-user-"))
    try:
        (made / "dags").mkdir()
        (made / "dags" / "looks.py").write_text(ATTACKS)
        if os.geteuid() == 0:
            for place in (made, made / "dags"):
                os.chown(place, nobody().uid, nobody().gid)
        yield made
    finally:
        shutil.rmtree(made)


def as_user(*words: str) -> list[str]:
    """A command of Python as a user from whom something can be hidden."""
    if os.geteuid() == 0:
        return [*command_as(nobody(), []), shared_python(), *words]
    return [sys.executable, *words]


def serve_as_user(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env: dict[str, Any] = {
        **environment(),
        "AIOSCHED_HOME": str(folder / "home"),
        "AIOSCHED_DAGS": str(folder / "dags"),
    }
    command = as_user("-m", "aiosched", "serve", "--no-web", "--until-idle", *words)
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=100)


HIDES = """
import os, sys
from aiosched.prctl import hide_memory

def opened(place):
    try:
        open(f"/proc/{os.getppid()}/{place}", "rb").close()
        return True
    except PermissionError:
        return False

for hides in (False, True):
    if hides:
        hide_memory()
    if os.fork() == 0:
        print(hides, [opened(place) for place in ("mem", "environ", "maps")], flush=True)
        os._exit(0)
    os.wait()
"""


def test_a_process_that_hides_its_memory_shows_it_to_no_other_of_its_user() -> None:
    done = subprocess.run(as_user("-c", HIDES), cwd="/", env=environment(), capture_output=True, text=True, timeout=100)

    assert done.stdout == "False [True, True, True]\nTrue [False, False, False]\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("schedulers", ["1", "2"])
def test_the_memory_of_the_service_is_closed_to_tasks_of_its_user(folder: Path, schedulers: str) -> None:
    served = serve_as_user(folder, "--schedulers", schedulers)

    assert served.returncode == 0, served.stderr
    found = {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}
    assert found.keys() == {"import", "plain", "later"}
    for where, (processes, reached) in found.items():
        assert processes >= 1, where
        assert set(reached) == {"signal"}, where  # which is why the page says: another user
