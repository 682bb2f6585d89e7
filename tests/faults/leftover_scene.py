"""A real `serve` with tasks that start processes in every way that gets them out of sight, and what became of those."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import psutil

from tests.faults.campaign.fleet import Service, start_time
from tests.patience import PATIENCE

# A loop that says every 50 ms that it lives: the task, its process id, the try.
BEAT = """beat() { while :; do echo "$1 $BASHPID $TRY" >> "$BEATS/$1"; sleep 0.05; done; }"""
DAGS = """
import os, subprocess, sys
from datetime import datetime
from aiosched import DAG, BashOperator, ExternalPythonOperator, task
from aiosched.authoring.runtime.context import get_current_context

BEAT = {beat!r}
BEATS = {beats!r}
PROGRAM = "export BEATS=" + BEATS + " TRY=$AIRFLOW_CTX_TRY_NUMBER\\n" + BEAT + "\\nexport -f beat\\n"

def external(beats):
    import os, subprocess
    program = "while :; do echo external $$ $AIRFLOW_CTX_TRY_NUMBER >> " + beats + "/external; sleep 0.05; done"
    subprocess.run(["bash", "-c", program])

with DAG("d", schedule="@once", start_date=datetime(2025, 1, 1), max_active_tasks=20, default_args={{"retries": 0}}):
    BashOperator(task_id="loop", bash_command=PROGRAM + "beat loop")
    BashOperator(task_id="session", bash_command=PROGRAM + "setsid bash -c 'beat session' & wait")
    BashOperator(task_id="orphan", bash_command=PROGRAM + "(setsid bash -c 'beat orphan' &); sleep 1000")
    BashOperator(task_id="stubborn", bash_command=PROGRAM + "trap '' TERM HUP INT; beat stubborn")
    BashOperator(task_id="own_env", env={{"PATH": os.environ["PATH"]}}, bash_command=PROGRAM + "beat own_env")
    ExternalPythonOperator(task_id="external", python=sys.executable, python_callable=external, op_args=[BEATS])
    if {own}:
        @task
        def plain():
            env = {{**os.environ, "AIRFLOW_CTX_TRY_NUMBER": str(get_current_context()["ti"].try_number)}}
            subprocess.run(["bash", "-c", PROGRAM + "(setsid bash -c 'beat plain' &); sleep 1000"], env=env)
        plain()
"""
BEATING = {"loop", "session", "orphan", "stubborn", "own_env", "external"}


class Scene:
    """`tasks` beat once all of them run; every process that ever said that it lives is known."""

    def __init__(self, dsn: str, folder: Path, executor: str) -> None:
        self.dsn, self.folder, self.executor = dsn, folder, executor
        self.beats = folder / "beats"
        self.tasks = BEATING | ({"plain"} if executor == "local" else set())
        self.services: list[Service] = []
        self.beats.mkdir()
        (folder / "dags").mkdir()
        text = DAGS.format(beat=BEAT, beats=str(self.beats), own=executor == "local")
        (folder / "dags" / "d.py").write_text(text)

    async def serve(self, *, lease: float = 15.0) -> Service:
        """Start a scheduler process, and wait until every task beats in it."""
        settings = {"AIOSCHED__PARSING__PROCESSES": "1", "AIOSCHED__SCHEDULER__LEASE": str(lease)}
        service = Service(f"s{len(self.services)}", self.executor, self.dsn, self.folder, settings)
        self.services.append(service)
        before = set(self.processes())
        await service.start()
        await self.until(lambda: {task for task, _, _ in set(self.processes()) - before} >= self.tasks, "every task")
        return service

    def processes(self) -> list[tuple[str, int, int]]:
        """(task, process id, try) of all loops that ever ran, in order."""
        lines = [line for file in sorted(self.beats.iterdir()) for line in file.read_text().splitlines()]
        words = [line.split() for line in lines]
        return list(dict.fromkeys((w[0], int(w[1]), int(w[2])) for w in words if len(w) == 3))

    def overlaps(self) -> list[str]:
        """Tries of which something said that it lived after the next try had begun."""
        found = []
        for file in sorted(self.beats.iterdir()):
            tries = [int(words[2]) for words in map(str.split, file.read_text().splitlines()) if len(words) == 3]
            found += [
                f"{file.name}: try {older} beats after try {newer} has begun"
                for newer, older in sorted(set(pairwise(tries)))
                if older < newer
            ]
        return found

    def living(self) -> list[tuple[str, int, int]]:
        """Those of them that run now."""
        return [each for each in self.processes() if start_time(each[1])]

    async def until(self, condition: object, what: str, seconds: float = PATIENCE) -> float:
        """Wait for something that nobody reports; how long that took."""
        began = time.monotonic()
        while not condition():  # type: ignore[operator]
            log = "" if not self.services else self.services[-1].last_words()
            assert time.monotonic() < began + seconds, f"waited {seconds} s for {what}; {self.living()}; {log}"
            await asyncio.sleep(0.01)
        return time.monotonic() - began


@contextlib.asynccontextmanager
async def scene(dsn: str, folder: Path, executor: str) -> AsyncIterator[Scene]:
    """A scene whose processes are all ended at the end of the block, by their names if need be."""
    one = Scene(dsn, folder, executor)
    try:
        yield one
    finally:
        for service in one.services:
            if service.alive:
                await service.kill()
        for _, pid, _ in one.living():
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
