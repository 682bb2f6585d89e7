"""What each task body wrote down about itself, one line an attempt, one file a process."""

from __future__ import annotations

from collections.abc import Iterable
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


def most_at_once(records: Iterable[Record]) -> int:
    """How many bodies ran at one instant, at most. One that starts when another ends does not overlap it."""
    edges = sorted([(r.end, -1) for r in records] + [(r.start, 1) for r in records])
    running = most = 0
    for _, step in edges:
        running += step
        most = max(most, running)
    return most
