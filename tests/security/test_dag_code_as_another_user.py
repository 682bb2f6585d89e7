"""With `executor.run_as`, code of DAG authors reaches nothing of the scheduler, wherever it runs; it tries to."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from aiosched.db.server.postmaster import is_alive
from aiosched.errors import ConfigError
from aiosched.other_user import check_access, command_as
from tests.cli.serving import stop, wait_for
from tests.other_users import NOBODY, environment, nobody, shared_python
from tests.patience import eventually

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="changes users, which root may"
)  # fmt: skip

ATTACKS = '''
"""Everywhere where code of authors runs, it tries to reach what is the scheduler's, and writes down what it could."""

import ctypes
import json
import os
import signal
import socket
from pathlib import Path

from aiosched import DAG, BaseOperator, BashOperator, Variable, task
from aiosched.triggers import BaseTrigger, TriggerEvent

FOLDER, HOME = Path(__FOLDER__), Path(__FOLDER__, "home")


def above():
    """The processes above this one that belong to another user."""
    pid, found = os.getpid(), []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if pid > 1 and os.stat(f"/proc/{pid}").st_uid != os.getuid():
            found.append(pid)
    return found


def connect(path):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(path))


def attacks():
    yield "settings file", lambda: (FOLDER / "aiosched.toml").read_text()
    yield "key file", lambda: (HOME / "fernet.key").read_bytes()
    yield "database", lambda: list((HOME / "pg").iterdir())
    yield "socket", lambda: connect(HOME / "pg" / ".s.PGSQL.__PORT__")
    yield "logs", lambda: list((HOME / "logs").rglob("*.log"))[0].read_text()
    yield "new log", lambda: (HOME / "logs" / "x.log").write_text("x")
    yield "root again", lambda: os.setuid(0)
    yield "groups", lambda: os.setgroups([0])
    for pid in above():
        yield "environment", lambda pid=pid: Path(f"/proc/{pid}/environ").read_bytes()
        yield "memory", lambda pid=pid: open(f"/proc/{pid}/mem", "rb")
        yield "files", lambda pid=pid: os.listdir(f"/proc/{pid}/fd")
        yield "signal", lambda pid=pid: os.kill(pid, signal.SIGCONT)
        libc = ctypes.CDLL(None, use_errno=True)
        yield "trace", lambda pid=pid: libc.ptrace(16, pid, 0, 0) == 0 or 1 / 0


def look(where):
    reached = []
    for name, attack in attacks():
        try:
            attack()
            reached.append(name)
        except (OSError, IndexError, ZeroDivisionError):
            pass
    status = Path("/proc/self/status").read_text().splitlines()
    held = [line for line in status if line.startswith(("CapEff", "CapPrm"))]
    found = {
        "uid": os.getuid(), "groups": os.getgroups(), "home": os.environ["HOME"], "reached": reached,
        "above": len(above()), "rights": [int(line.split()[1], 16) for line in held],
        "own": os.listdir("/proc/self/fd"),
    }
    Path(FOLDER, "found", f"{where}-{os.getpid()}.json").write_text(json.dumps(found))


class Looks(BaseTrigger):
    async def run(self):
        look("trigger")
        yield TriggerEvent(1)


class Defers(BaseOperator):
    def execute(self, context):
        self.defer(trigger=Looks(), method_name="go_on")

    def go_on(self, context, event=None):
        look("resumed")


look("import")
REGION = Variable.get("region")
called = {"on_success_callback": lambda context: look("callback")}
with DAG("looks", schedule="@once", start_date="2026-01-01", catchup=True, **called):

    @task
    def plain():
        look("plain")
        print("said by plain in", REGION)

    @task
    async def later():
        look("later")

    @task
    def own_log():
        os.system("echo said by a child")  # writes to the log without Python

    BashOperator(task_id="bash", bash_command="id -u > __FOLDER_TEXT__/found/bash.txt; echo said by bash {{ run_id }}")
    plain() >> own_log()
    later()
    Defers(task_id="defers")
'''


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter, with DAG files that every user can read."""
    made = Path(tempfile.mkdtemp(prefix="as-another-user-"))
    try:
        made.chmod(0o755)
        for name in ("dags", "found"):
            (made / name).mkdir()
        (made / "found").chmod(0o777)
        yield made
    finally:
        shutil.rmtree(made)


def put_settings(folder: Path, dsn: str | None = None, **executor: Any) -> None:
    """The settings of commands in the folder; without a DSN, the first of them makes a database there."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in executor.items()]
    database = [] if dsn is None else ["[database]", f"dsn = {json.dumps(dsn)}"]
    (folder / "aiosched.toml").write_text("\n".join([*database, "[executor]", "slots = 2", *lines]))
    (folder / "aiosched.toml").chmod(0o600)


def command_line(folder: Path, *words: str, prefix: Sequence[str] = ()) -> dict[str, Any]:
    """A command of a Python that others can run, in the folder."""
    env = {**environment(), "AIOSCHED_HOME": str(folder / "home"), "AIOSCHED_DAGS": str(folder / "dags")}
    env["AIOSCHED__CORE__KILLED_TASK_CLEANUP_TIME"] = "1"
    env["AIOSCHED__CORE__PLUGINS_FOLDER"] = str(folder / "plugins")
    return {"args": [*prefix, shared_python(), "-m", "aiosched", *words], "cwd": folder, "env": env, "text": True}


def aiosched(folder: Path, *words: str, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder, as root unless `prefix` changes the user."""
    return subprocess.run(**command_line(folder, *words, prefix=prefix), capture_output=True, timeout=100)


def found_in(folder: Path) -> dict[str, dict[str, Any]]:
    files = (folder / "found").glob("*.json")
    return {file.name.partition("-")[0]: json.loads(file.read_text()) for file in files}


def test_code_that_runs_as_another_user_reaches_nothing_of_the_scheduler(folder: Path) -> None:
    put_settings(folder, run_as=NOBODY)
    for words in (("db", "migrate"), ("variables", "set", "region", "eu-west-1")):
        done = aiosched(folder, *words)
        assert done.returncode == 0, done.stderr
    (port,) = re.findall(r"^port = (\d+)", (folder / "home" / "pg" / "postgresql.conf").read_text(), re.MULTILINE)
    code = ATTACKS.replace("__FOLDER__", repr(str(folder))).replace("__FOLDER_TEXT__", str(folder))
    code = code.replace("__PORT__", port)
    (folder / "dags" / "looks.py").write_text(code)
    (folder / "plugins").mkdir()
    looks, _, _ = code.partition("class Looks")
    (folder / "plugins" / "spy.py").write_text(f'{looks}\nlook("plugin")\n')

    served = aiosched(folder, "serve", "--no-web", "--until-idle", "-o", "json")

    assert served.returncode == 0, served.stderr
    seen = found_in(folder)
    assert seen.keys() == {"import", "plugin", "plain", "later", "trigger", "resumed", "callback"}
    for where, found in seen.items():
        assert found["reached"] == [], where
        assert found["uid"] == nobody().uid, where
        assert found["groups"] == [*nobody().groups], where
        assert found["rights"] == [0, 0], where
        assert found["above"] > 0, where
    assert (folder / "found" / "bash.txt").read_text() == f"{nobody().uid}\n"
    shown = aiosched(folder, "tasks", "logs", "looks", "latest", "plain")
    assert "said by plain in eu-west-1" in shown.stdout, shown.stderr
    assert "said by bash" in aiosched(folder, "tasks", "logs", "looks", "latest", "bash").stdout
    assert "said by a child" in aiosched(folder, "tasks", "logs", "looks", "latest", "own_log").stdout
    checked = aiosched(folder, "doctor", "-o", "json")
    assert "plugins" in checked.stdout, checked.stderr
    plugins = [json.loads(file.read_text()) for file in (folder / "found").glob("plugin-*.json")]
    assert {(found["uid"], *found["reached"]) for found in plugins} == {(nobody().uid,)}
    logs = list((folder / "home" / "logs").rglob("*.log"))
    assert {log.stat().st_uid for log in logs} == {0}


NAMES_USERS = """
import os
from aiosched import DAG, task

with DAG("names", schedule="@once", start_date="2026-01-01", catchup=True, default_args={"run_as_user": "nobody"}):

    @task
    def plain():
        print("plain ran as", os.getuid())

    @task
    async def later():
        print("later ran as", os.getuid())

    @task(run_as_user=None)
    def mine():
        print("mine ran as", os.getuid())

    @task
    def dies():
        os.system("echo last words of $(id -u)")
        os._exit(3)

    plain(), later(), mine(), dies()

with DAG("refused", schedule="@once", start_date="2026-01-01", catchup=True):

    @task(run_as_user="daemon")
    def other():
        print("other ran")

    other()
"""


def test_a_task_runs_as_the_user_that_it_names_if_the_settings_allow_that(folder: Path, dsn: str) -> None:
    (folder / "dags" / "names.py").write_text(NAMES_USERS)
    put_settings(folder, dsn, run_as_users=[NOBODY])

    served = aiosched(folder, "serve", "--no-web", "--until-idle", "-o", "json")

    assert served.returncode == 0, served.stderr
    for task, uid in (("plain", nobody().uid), ("later", nobody().uid), ("mine", 0)):
        said = aiosched(folder, "tasks", "logs", "names", "latest", task).stdout
        assert f"{task} ran as {uid}" in said, said
    said = aiosched(folder, "tasks", "logs", "names", "latest", "dies").stdout
    assert said.index(f"last words of {nobody().uid}\n") < said.index("ended with exit code 3"), said
    refused = json.loads(aiosched(folder, "tasks", "show", "refused", "latest", "other", "-o", "json").stdout)
    assert refused["state"] == "failed"
    assert "'daemon'" in refused["reason"]
    assert "executor.run_as_users" in refused["reason"]


@pytest.mark.parametrize(
    ("user", "problem"),
    [("no_such_user", "no such user"), ("root", "is root")],
)
def test_a_user_that_cannot_be_used_is_an_error_at_the_start(folder: Path, dsn: str, user: str, problem: str) -> None:
    put_settings(folder, dsn, run_as=user)

    served = aiosched(folder, "serve", "--no-web", "--until-idle")

    assert served.returncode == 2, served.stderr
    assert problem in served.stderr
    assert "executor.run_as" in served.stderr


def test_a_dags_folder_that_the_user_cannot_read_is_an_error_at_the_start(folder: Path, dsn: str) -> None:
    (folder / "dags").chmod(0o700)
    put_settings(folder, dsn, run_as=NOBODY)

    served = aiosched(folder, "serve", "--no-web", "--until-idle")

    assert served.returncode == 2, served.stderr
    assert f"cannot read {folder / 'dags'}" in served.stderr
    assert "chmod" in served.stderr


def test_a_folder_above_python_that_the_user_cannot_enter_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if Python is a link to it, as in a virtual environment."""
    closed = folder / "closed"
    (closed / "bin").mkdir(parents=True)
    closed.chmod(0o700)
    shutil.copy(Path(sys.executable).resolve(), closed / "bin" / "python3")
    (folder / "python").symlink_to(closed / "bin" / "python3")
    monkeypatch.setattr(sys, "executable", str(folder / "python"))

    with pytest.raises(ConfigError, match=f"{closed}/bin/python3, and that user cannot enter {closed}[)]"):
        check_access(nobody(), "executor.run_as", [], program="json")


@pytest.mark.slow
def test_doctor_says_that_teams_share_a_user_until_each_has_its_own(folder: Path, dsn: str) -> None:
    def said() -> list[str]:
        found = json.loads(aiosched(folder, "doctor", "-o", "json").stdout)
        return [one["text"] for one in found if one["check"] == "isolation" and "teams" in one["text"]]

    put_settings(folder, dsn, run_as=NOBODY)
    aiosched(folder, "db", "migrate")
    aiosched(folder, "teams", "create", "sales", "--folder", "sales")
    assert said() == []

    aiosched(folder, "teams", "create", "research", "--folder", "research")
    assert said() == [f"tasks of 2 teams run as {NOBODY}: each can read what the others have in memory"]

    put_settings(folder, dsn, run_as=NOBODY, run_as_users=["sales:daemon", "research:games"])
    assert said() == []


STAYS = """
import asyncio, os, subprocess, time
from pathlib import Path
from aiosched import DAG, task

def begin(name):
    left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path("__FOLDER__", "found", f"{name}.pids").write_text(f"{os.getpid()} {left.pid}")

with DAG("stays", schedule="@once", start_date="2026-01-01", catchup=True):

    @task
    def plain():
        begin("plain")
        while True:
            try:
                time.sleep(1000)
            except BaseException:
                pass

    @task
    async def later():
        begin("later")
        await asyncio.sleep(1000)

    plain(), later()
"""


def test_tasks_of_another_user_are_ended_with_all_that_they_have_started(folder: Path, dsn: str) -> None:
    (folder / "dags" / "stays.py").write_text(STAYS.replace("__FOLDER__", str(folder)))
    put_settings(folder, dsn, run_as=NOBODY)
    files = [folder / "found" / f"{name}.pids" for name in ("plain", "later")]
    with subprocess.Popen(
        **command_line(folder, "serve", "--no-web", "-o", "json", "--grace", "0"), stdout=PIPE, stderr=PIPE
    ) as process:
        try:
            wait_for(process, "ready")
            eventually(lambda: all(file.exists() and len(file.read_text().split()) == 2 for file in files))
            pids = [int(pid) for file in files for pid in file.read_text().split()]
            assert {Path(f"/proc/{pid}").stat().st_uid for pid in pids} == {nobody().uid}

            cancelled = aiosched(folder, "runs", "cancel", "stays", "latest")
            assert cancelled.returncode == 0, cancelled.stderr
            worker_of_coroutines = pids[2]
            eventually(lambda: not any(is_alive(pid) for pid in pids if pid != worker_of_coroutines))
            assert "was killed" in aiosched(folder, "tasks", "logs", "stays", "latest", "plain").stdout
            said = stop(process)
        finally:
            process.kill()
    assert process.returncode == 0, said
    assert not any(is_alive(pid) for pid in pids)


def test_a_scheduler_that_may_not_change_users_says_so_at_the_start(folder: Path) -> None:
    (folder / "home").mkdir()
    os.chown(folder / "home", nobody().uid, nobody().gid)
    put_settings(folder, run_as="daemon")
    (folder / "aiosched.toml").chmod(0o644)

    served = aiosched(folder, "serve", "--no-web", "--until-idle", prefix=command_as(nobody(), []))

    assert served.returncode == 2, served.stderr
    assert "CAP_SETUID" in served.stderr
    assert "executor.run_as" in served.stderr
