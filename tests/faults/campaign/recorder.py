"""What tasks write down about themselves, imported by the generated DAG files (as the module `recorder`).

One file for each process, opened with O_APPEND, one write for each line, so that a SIGKILL
loses nothing that was written. A line: event, dag, run, task, map index, try, pid, scheduler, CLOCK_MONOTONIC in
nanoseconds. Events: start, alive (while it works), done, stopped (an exception ended it), failed (on purpose).
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

_TICK = 0.02  # seconds between two signs of life
_opening = threading.Lock()
_file: tuple[int, int] = (0, -1)  # pid, descriptor


def _descriptor() -> int:
    global _file
    with _opening:
        pid = os.getpid()
        if _file[0] != pid:
            path = os.path.join(os.environ["FAULTS_RECORDS"], f"{pid}-{time.monotonic_ns()}")  # noqa: PTH118
            _file = pid, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        return _file[1]


class _Notes:
    def __init__(self, context: Any) -> None:
        ti, run = context["ti"], context["dag_run"]
        map_index = getattr(ti, "map_index", -1)
        self._words = f"{run.dag_id}\t{run.run_id}\t{ti.task_id}\t{map_index}\t{ti.try_number}\t{os.getpid()}"
        self._words += f"\t{os.environ.get('FAULTS_SCHEDULER', '?')}"
        self.try_number = ti.try_number

    def write(self, event: str) -> None:
        os.write(_descriptor(), f"{event}\t{self._words}\t{time.monotonic_ns()}\n".encode())

    def end(self, fails: bool) -> None:
        if fails and self.try_number == 1:
            self.write("failed")
            raise RuntimeError("fails in its first try, on purpose")
        self.write("done")


async def work_async(context: Any, seconds: float, fails: bool = False) -> None:
    """Be a task that takes `seconds`; with `fails` its first try fails."""
    notes = _Notes(context)
    notes.write("start")
    try:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(_TICK, left))
            notes.write("alive")
    except BaseException:
        notes.write("stopped")
        raise
    notes.end(fails)


def work(context: Any, seconds: float, fails: bool = False) -> None:
    """As `work_async`, for a plain function."""
    notes = _Notes(context)
    notes.write("start")
    try:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(_TICK, left))
            notes.write("alive")
    except BaseException:
        notes.write("stopped")
        raise
    notes.end(fails)
