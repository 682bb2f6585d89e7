"""What each task body wrote down about itself, one line an attempt, one file a process."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Record(NamedTuple):
    """One execution of one task body. `start` and `end` are readings of the machine's monotonic clock, in seconds."""

    dag_id: str
    task_id: str
    try_number: int
    pid: int
    start: float
    end: float


def parse(lines: Iterable[str]) -> list[Record]:
    """The records of `lines`, in their order; raises ValueError for a line that is not whole."""
    records = []
    for line in lines:
        dag_id, task_id, try_number, pid, start, end = line.split()
        records.append(Record(dag_id, task_id, int(try_number), int(pid), float(start), float(end)))
    return records


def read(folder: Path) -> list[Record]:
    """All records of all processes, in no particular order."""
    return [record for file in sorted(folder.iterdir()) for record in parse(file.read_text().splitlines())]


def forget(folder: Path) -> None:
    """Remove all records. What bodies of this process have open is closed: other modules' bodies open files anew."""
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the folder's own descriptor has gone
            if file.readlink().parent == folder:
                os.close(int(file.name))
    for file in folder.iterdir():
        file.unlink()


def most_at_once(records: Iterable[Record]) -> int:
    """How many bodies ran at one instant, at most. One that starts when another ends does not overlap it."""
    edges = sorted([(r.end, -1) for r in records] + [(r.start, 1) for r in records])
    running = most = 0
    for _, step in edges:
        running += step
        most = max(most, running)
    return most
