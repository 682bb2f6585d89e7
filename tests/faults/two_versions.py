"""Two versions of aiosched as one fleet: an older package beside today's, and the DAG files that both run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

# The tag of the release that runs beside today's package: the oldest whose schedulers may. None before the first
# release, 0.2.0: a copy of today's package then plays its part, so that what is here is tried and ready.
RELEASED: Final[str | None] = None
ROOT = Path(__file__).parents[2]
CHAINS = 6
CLOCKED, TICKS = "clocked", 12

# What each DAG file does: a task in a process, one on the loop, mapped ones, one that waits without a slot, one
# that fails in its first try. Each writes a line; the environment tells which scheduler has started its worker.
DAG_FILE = """
import asyncio, os, time
from datetime import datetime, timedelta
from pathlib import Path
from aiosched import DAG, DateTimeSensor, get_current_context, task

def note(context):
    ti = context["ti"]
    line = f"{os.environ['WHO']} {context['dag_run'].run_id} {ti.task_id} {ti.map_index} {ti.try_number}\\n"
    with (Path(os.environ["RECORDS"]) / ti.dag_id).open("a") as file:
        file.write(line)

@task
def plain():
    note(get_current_context())
    time.sleep(0.1)
    return [1, 2, 3]

@task
async def slow(values):
    note(get_current_context())
    await asyncio.sleep(1.0)

@task
def each(value):
    note(get_current_context())
    return value

@task(retries=1, retry_delay=timedelta(seconds=0.5))
def flaky(values):
    note(get_current_context())
    if get_current_context()["ti"].try_number == 1:
        raise RuntimeError("the first try fails")

with DAG(NAME, max_active_runs=4, max_active_tasks=6, SCHEDULE):
    values = plain()
    soon = "{{ (dag_run.start_date + macros.timedelta(seconds=1)).isoformat() }}"
    wait = DateTimeSensor(task_id="wait", target_time=soon, deferrable=True)
    numbers = each.expand(value=values)
    slow(values) >> wait >> numbers
    flaky(numbers)
"""
TRIES = Counter(
    dict.fromkeys(["plain -1 1", "slow -1 1", "each 0 1", "each 1 1", "each 2 1", "flaky -1 1", "flaky -1 2"], 1)
)


def unpack(folder: Path) -> None:
    """Put the older package into `folder`. Raises CalledProcessError if its tag is not here."""
    folder.mkdir(parents=True, exist_ok=True)
    if RELEASED is None:
        shutil.copytree(ROOT / "aiosched", folder / "aiosched", ignore=shutil.ignore_patterns("__pycache__"))
        return
    packed = subprocess.run(["git", "archive", RELEASED, "aiosched"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)


def why_not() -> str | None:
    """Why the older package cannot be unpacked here, None if it can be."""
    if RELEASED is None:
        return None
    try:
        found = subprocess.run(["git", "cat-file", "-e", f"{RELEASED}^{{commit}}"], cwd=ROOT, capture_output=True)
    except OSError as error:
        return f"git cannot be run ({error})"
    return (
        None if found.returncode == 0 else f"{RELEASED} is not in this folder's history: a shallow clone, or no clone"
    )


def write_dags(folder: Path, start: datetime) -> None:
    """DAG files that are triggered, and one with a run every two seconds, TICKS in all."""
    (folder / "dags").mkdir()
    (folder / "records").mkdir()
    clock = f"datetime.fromisoformat({start.isoformat()!r})"
    last = f"{clock} + {TICKS - 1} * timedelta(seconds=2)"
    scheduled = f"schedule=timedelta(seconds=2), start_date={clock}, end_date={last}, catchup=True"
    for name in (*names(), CLOCKED):
        text = DAG_FILE.replace("SCHEDULE", scheduled if name == CLOCKED else "schedule=None")
        (folder / "dags" / f"{name}.py").write_text(text.replace("NAME", repr(name)))


def names() -> list[str]:
    """The ids of the DAGs that are triggered."""
    return [f"chain{number}" for number in range(CHAINS)]


@dataclass
class Version:
    """A process of one of the two packages, and what its command line does.

    `tree` is the folder of the package; with a `port` the process is a web server, else a scheduler.
    """

    name: str
    tree: Path
    folder: Path
    dsn: str
    port: int | None = None
    starts: int = 0
    stops: bool = False  # it was asked to
    process: subprocess.Popen[bytes] | None = None
    logs: list[Path] = field(default_factory=list)

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(self.tree),
            "WHO": self.name,
            "RECORDS": str(self.folder / "records"),
            "AIOSCHED__SCHEDULER__GRACE": "30",
            "AIOSCHED__SCHEDULER__SAFETY_POLL": "2",
            "AIOSCHED__EXECUTOR__SLOTS": "4",
            "AIOSCHED__DATABASE__POOL_SIZE": "3",
            "AIOSCHED__PARSING__PROCESSES": "1",
            "AIOSCHED__LOGS__FORMAT": "json",
            "AIOSCHED__WEB__AUTH": "none",
        }

    def run(self, *arguments: str) -> None:
        """Run a command to its end; it must succeed."""
        self.python("-m", "aiosched", *arguments, "--dsn", self.dsn)

    def python(self, *arguments: str) -> str:
        """What Python says with this package; it must succeed."""
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=self._environment(), capture_output=True, text=True
        )
        assert done.returncode == 0, f"{self.name}: {' '.join(arguments)}: {done.stderr or done.stdout}"
        return done.stdout

    def start(self, dsn: str | None = None) -> None:
        """Start `serve`."""
        self.starts += 1
        home = self.folder / f"home-{self.name}"
        home.mkdir(exist_ok=True)
        self.logs.append(self.folder / f"{self.name}-{self.starts}.log")
        arguments = ["serve", "--dsn", dsn or self.dsn, "--name", self.name, "--home", str(home)]
        arguments += ["--dags", str(self.folder / "dags")]
        arguments += ["--no-web"] if self.port is None else ["--role", "web", "--port", str(self.port)]
        with self.logs[-1].open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "aiosched", *arguments],
                cwd=home, env=self._environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def check(self) -> None:
        """Raise AssertionError if its process has ended by itself."""
        if self.process is not None and not self.stops and self.process.poll() is not None:
            raise AssertionError(f"{self.name} has ended with {self.process.returncode}: {self.last_words()}")

    def ask_to_stop(self) -> None:
        """Ask it to end; its tasks may run to their end."""
        self.check()
        assert self.process is not None, "it was not started"
        self.stops = True
        self.process.send_signal(signal.SIGINT)

    def has_ended(self) -> bool:
        """Whether the process that was asked to end has done so, in order."""
        assert self.process is not None, "it was not started"
        if self.process.poll() is None:
            return False
        assert self.process.returncode in (0, 130), f"{self.name} ended with {self.process.returncode}"
        self.process, self.stops = None, False
        return True

    def kill(self) -> None:
        """SIGKILL, if it runs; its children must go by themselves."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def last_words(self) -> str:
        """The end of its log."""
        return self.logs[-1].read_text(errors="replace")[-3000:] if self.logs else ""

    def complaints(self) -> list[str]:
        """The lines of its logs that are errors, or not log lines at all (tracebacks)."""
        found = []
        for line in (line for log in self.logs for line in log.read_text(errors="replace").splitlines()):
            try:
                level = json.loads(line).get("level", "").lower()
            except ValueError:
                level = "info" if line.startswith("stopping: ") else "not JSON"
            if level not in ("debug", "info") or "Traceback" in line:
                found.append(f"{self.name}: {line}")
        return found


def problems(folder: Path, runs: Iterable[tuple[str, str]]) -> list[str]:
    """What these runs, by DAG id and run id, have not done or have done twice."""
    tries: dict[tuple[str, str], Counter[str]] = {run: Counter() for run in runs}
    for dag_id, line in _lines(folder):
        _, run_id, what = line.split(" ", 2)
        tries.setdefault((dag_id, run_id), Counter())[what] += 1
    return [
        f"{dag_id} {run_id}: not run {dict(TRIES - found)}, run too often {dict(found - TRIES)}"
        for (dag_id, run_id), found in tries.items()
        if found != TRIES
    ]


def twice(folder: Path) -> list[str]:
    """What has begun more than once for one try."""
    begun = Counter((dag_id, line.split(" ", 1)[1]) for dag_id, line in _lines(folder))
    return [f"{dag_id} {what}: {number} times" for (dag_id, what), number in begun.items() if number > 1]


def beginnings(folder: Path) -> Counter[str]:
    """How many attempts each version has begun."""
    return Counter(line.split(" ", 1)[0] for _, line in _lines(folder))


def _lines(folder: Path) -> Iterator[tuple[str, str]]:
    for file in (folder / "records").iterdir():
        for line in file.read_text().splitlines():
            yield file.name, line
