"""What a project of three schedulers and a web server has to do, from `up` to `down`; each step is an assertion."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from aiosched.core.values.ids import PARTITIONS
from tests.deploy.compose import Image, read_compose
from tests.deploy.containers import Container, pause
from tests.deploy.side_by_side import PATIENCE, Project, project

T = TypeVar("T")

PASSWORD: Final = "a password for the first user"
VARIABLES: Final = {  # as deploy/compose/passwords writes them
    "POSTGRES_PASSWORD": "of the superuser",
    "OWNER_PASSWORD": "0a",
    "SCHEDULER_PASSWORD": "0b",
    "WEB_PASSWORD": "0c",
    "ADMIN_PASSWORD": PASSWORD,
    "METRICS_TOKEN": "0d",
}
DAG: Final = '''
"""A DAG whose task tells where it ran."""
import os
import socket

from aiosched import dag, task


@dag(schedule=None)
def where():
    @task
    def tell() -> list[str]:
        with open("/tmp/mine", "w") as file:
            file.write("temporary files are allowed")
        print("said in", socket.gethostname())
        return [socket.gethostname(), str(os.getuid())]

    tell()


where()
'''
_GET: Final = """
import sys, urllib.error, urllib.request
try:
    headers = {"Authorization": f"Bearer {token}" for token in sys.argv[2:]}
    answer = urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers=headers), timeout=20)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status)
print(answer.read().decode())
"""


def three_schedulers(scratch: Path, images: Mapping[str, tuple[Image, Path]]) -> None:
    """`up --scale aiosched=3`, a run, a scheduler that dies, a backup that is restored, `down`."""
    dags = scratch / "dags"
    dags.mkdir()
    (dags / "where.py").write_text(DAG)
    compose = read_compose({**VARIABLES, "DAGS": str(dags)})
    with project(compose, scratch, images) as up:
        up.up(scale={"aiosched": 3})
        up.wait_until_healthy("web")
        first, second, third = up.containers["aiosched"]

        _share_the_work(first)
        run_dag(second)
        _answer(up)
        _cannot_write(third)
        third.signal(signal.SIGKILL)
        _until(lambda: _partitions(first), lambda owned: set(owned) == {"aiosched-1", "aiosched-2"})
        run_dag(first)
        _back_up_and_restore(up, scratch / "backups")

        codes = up.down()
        killed = [one.plan.name for several in up.containers.values() for one in several if one.killed]

    assert codes["web"] == [0]
    assert codes["aiosched"][:2] == [0, 0]
    assert codes["postgres"] == [0]
    assert killed == []


def _partitions(container: Container) -> dict[str, int]:
    """How many partitions each scheduler that is alive owns."""
    listed = container.run("aiosched", "schedulers", "list", "-o", "json")
    assert listed.returncode == 0, listed.stderr
    rows = json.loads(listed.stdout)
    return {row["name"]: row["partitions"] for row in rows if row["partitions"]}


def _share_the_work(container: Container) -> None:
    """Three schedulers, named by their host, with shares that differ by at most one."""

    def even(owned: Mapping[str, int]) -> bool:
        return sum(owned.values()) == PARTITIONS and len(owned) == 3 and max(owned.values()) - min(owned.values()) <= 1

    owned = _until(lambda: _partitions(container), even)
    assert set(owned) == {"aiosched-1", "aiosched-2", "aiosched-3"}


def run_dag(container: Container) -> None:
    """A run of the DAG, once its file has been read, succeeds."""
    _until(lambda: container.run("aiosched", "dags", "show", "where"), lambda shown: shown.returncode == 0)
    done = container.run("aiosched", "dags", "trigger", "where", "--wait", timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


def _answer(up: Project) -> None:
    """The web server: ready, with a login, with the metrics of all three, and with the log of a task of another."""
    web = up.containers["web"][0]
    assert _get(web, "/readyz").startswith("200")
    assert _get(web, "/api/v1/dags").startswith("401")
    assert _get(web, "/metrics").startswith("401")
    metrics = _get(web, "/metrics", VARIABLES["METRICS_TOKEN"])
    for name in ("aiosched-1", "aiosched-2", "aiosched-3"):
        assert f'aiosched_scheduler_alive{{scheduler="{name}"}} 1.0' in metrics
    said = web.run("aiosched", "tasks", "logs", "where", "latest", "tell")
    assert "said in aiosched-" in said.stdout, said.stdout + said.stderr


def _get(container: Container, path: str, *token: str) -> str:
    return container.run("python", "-c", _GET, f"http://127.0.0.1:8484{path}", *token).stdout


def _cannot_write(container: Container) -> None:
    """Its user has no rights, and the tree is read-only wherever it would have them."""
    who = container.run("python", "-c", "import os; print(os.getuid(), os.getgid(), os.getgroups())")
    assert who.stdout.split()[:2] == ["10001", "10001"]
    for path, allowed in {"/tmp": True, "/var/lib/aiosched": True, "/var/log/aiosched": True, "/dags": False}.items():
        tried = container.run("python", "-c", f"open('{path}/tried', 'w').write('x')")
        assert (tried.returncode == 0) is allowed, f"{path}: {tried.stderr}"
    options = container.run("python", "-c", "print(open('/proc/mounts').read())").stdout
    root = next(line.split()[3] for line in options.splitlines() if line.split()[1] == "/")
    assert "ro" in root.split(","), options


def _back_up_and_restore(up: Project, folder: Path) -> None:
    """As docs/deploy.md says: a backup of the working fleet, restored into another database of the server."""
    folder.mkdir()
    os.chown(folder, *up.containers["aiosched"][0].plan.user)
    postgres, scheduler = up.containers["postgres"][0], up.containers["aiosched"][0]
    again = _dsn(up.containers["migrate"][0]).rpartition("/")[0] + "/again"

    up.run("migrate", "db", "backup", "/backups/flows.dump", folders={folder: "/backups"})
    made = postgres.run("createdb", "--username", "postgres", "--owner", "aiosched_owner", "again")
    assert made.returncode == 0, made.stderr
    up.run("migrate", "db", "restore", "/backups/flows.dump", "--dsn", again, folders={folder: "/backups"})

    there, here = (json.loads(_runs(scheduler, dsn)) for dsn in (again, _dsn(scheduler)))
    assert len(there) == 2
    assert there == here


def _runs(container: Container, dsn: str) -> str:
    listed = container.run("aiosched", "runs", "list", "-o", "json", "--dsn", dsn)
    assert listed.returncode == 0, listed.stderr
    return listed.stdout


def _dsn(container: Container) -> str:
    return container.plan.environment["AIOSCHED_DSN"]


def _until(look: Callable[[], T], enough: Callable[[T], bool]) -> T:
    ends = time.monotonic() + PATIENCE
    while not enough(seen := look()):
        assert time.monotonic() < ends, seen
        pause()
    return seen
