"""Reads a campaign's history back: rows with plain SQL, and the files that the tasks wrote."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg

from tests.faults.campaign.asking import ASKED
from tests.faults.campaign.workload import Workload
from tests.faults.checker import Beat, Change, Effect, History, Instance, PoolUse, Run, RunChange, Span, TaskKey

_INSTANCES = """
    SELECT r.dag_id, r.run_id, v.spec -> 'tasks' -> ti.task_index ->> 'task_id' AS task_id, ti.map_index,
           ti.run_id AS key, ti.task_index, ti.state, ti.try_number, ti.losses, ti.reason
      FROM task_instance AS ti JOIN dag_run AS r ON r.id = ti.run_id JOIN dag_version AS v ON v.id = r.version_id
     WHERE r.dag_id <> $1
"""
# What attempts have changed, by the names that they gave to it (asking.py); an event belongs to its instance.
_NAMED = """
    SELECT key AS name, 'variable ' || what AS kind, count(*) FROM watched.variable WHERE key LIKE '%/%' GROUP BY 1, 2
     UNION ALL
    SELECT conf ->> 'by', 'run triggered', count(*) FROM dag_run WHERE dag_id = $1 GROUP BY 1
"""
_EVENTS = """
    SELECT source_run_id, source_task_index, source_map_index, count(*) FROM asset_event GROUP BY 1, 2, 3
"""
_FAILED = """
    SELECT run_id, task_index, map_index, try_number, reason FROM task_try
     WHERE state = 'failed' AND reason NOT LIKE '%on purpose%'
"""


@dataclass(frozen=True, slots=True)
class Lease:
    """A partition moved from one incarnation to another (None: free)."""

    at: float
    partition: int
    old: int | None
    new: int | None


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One start of a scheduler: when it joined, and how it ended (None: it did not, or nobody noticed)."""

    number: int
    pid: int
    joined: float
    ended: float | None = None
    end: str | None = None  # left, taken over


@dataclass
class Read:
    """A history, and what measures are taken from."""

    history: History
    leases: list[Lease] = field(default_factory=list)
    incarnations: list[Incarnation] = field(default_factory=list)
    partitions: dict[str, int] = field(default_factory=dict)  # of DAGs
    lost: int = 0  # attempts that were stored as lost


async def read_history(dsn: str, folder: Path, workload: Workload) -> Read:
    """Everything that a campaign left behind. Instants are seconds of CLOCK_MONOTONIC of this machine."""
    conn = await asyncpg.connect(dsn)
    try:
        return await _read(conn, folder, workload)
    finally:
        await conn.close()


async def _read(conn: Any, folder: Path, workload: Workload) -> Read:
    offset = time.time() - time.monotonic()

    def second(instant: datetime) -> float:
        return float(instant.timestamp() - offset)

    history = History(plans=workload.plans(), pools=dict(workload.pools))
    names: dict[tuple[int, int, int], TaskKey] = {}
    for row in await conn.fetch(_INSTANCES, ASKED):
        task = TaskKey(row["dag_id"], row["run_id"], row["task_id"], row["map_index"])
        names[row["key"], row["task_index"], row["map_index"]] = task
        history.instances.append(Instance(task, row["state"], row["try_number"], row["losses"], row["reason"]))
    runs: dict[int, tuple[str, str]] = {}
    columns = "id, dag_id, run_id, state, logical_date, data_interval_start, data_interval_end"
    for key, *rest in await conn.fetch(f"SELECT {columns} FROM dag_run WHERE dag_id <> $1", ASKED):
        runs[key] = (rest[0], rest[1])
        history.runs.append(Run(*rest))
    lost = [tuple(row) for row in await conn.fetch(_LOST)]
    history.lost_tries = Counter(names[key] for key in lost if key in names)
    columns = "n, tx::text, at, run_id, task_index, map_index, old, new, old_try, new_try"
    for n, tx, at, run, task_index, map_index, *rest in await conn.fetch(f"SELECT {columns} FROM watched.instance"):
        if run in runs:
            history.changes.append(Change(n, int(tx), second(at), names[run, task_index, map_index], *rest))
    for n, tx, at, run, old, new in await conn.fetch("SELECT n, tx::text, at, id, old, new FROM watched.run"):
        if run in runs:
            history.run_changes.append(RunChange(n, int(tx), second(at), *runs[run], old, new))
    history.pool_uses = [PoolUse(*row) for row in await conn.fetch("SELECT name, used, slots FROM watched.pool")]
    history.final_pools = [PoolUse(*row) for row in await conn.fetch("SELECT name, used, slots FROM pool")]
    history.dead_rows = [
        f"scheduler {row[0]} ({row[1]}) still has a row"
        for row in await conn.fetch("SELECT incarnation, name FROM scheduler")
    ] + [
        f"partition {row[0]} is still leased to {row[1]}"
        for row in await conn.fetch("SELECT partition, incarnation FROM partition_lease WHERE incarnation IS NOT NULL")
    ]
    if workload.asks:
        await _read_effects(conn, history, names)
    history.spans = read_spans(folder / "records")
    history.beats = read_beats(folder / "records")
    leases = await conn.fetch("SELECT at, partition, old, new FROM watched.lease ORDER BY n")
    return Read(
        history,
        [Lease(second(at), *rest) for at, *rest in leases],
        _incarnations([(second(at), *rest) for at, *rest in await conn.fetch(_LIVES)]),
        dict(map(tuple, await conn.fetch("SELECT dag_id, partition FROM dag"))),
        len(lost),
    )


async def _read_effects(conn: Any, history: History, names: Mapping[tuple[int, int, int], TaskKey]) -> None:
    for name, kind, times in await conn.fetch(_NAMED, ASKED):
        task, _, number = name.partition(" try ")
        history.effects.append(Effect(TaskKey(*task.split("/")), int(number), kind, times))
    tries = {instance.task: instance.try_number for instance in history.instances}
    for *key, times in await conn.fetch(_EVENTS):
        task_key = names[key[0], key[1], key[2]]
        history.effects.append(Effect(task_key, tries[task_key], "event emitted", times))
    for *key, number, reason in await conn.fetch(_FAILED):
        failed = names.get((key[0], key[1], key[2]), f"a run of {ASKED}")
        history.failed_tries.append(f"{failed} try {number}: {reason}")


_LOST = "SELECT run_id, task_index, map_index FROM task_try WHERE state = 'lost'"
_LIVES = "SELECT at, incarnation, pid, what FROM watched.scheduler ORDER BY n"


def _incarnations(events: list[tuple[float, int, int, str]]) -> list[Incarnation]:
    found: dict[int, Incarnation] = {}
    for at, number, pid, what in events:
        if what == "joined":
            found[number] = Incarnation(number, pid, at)
        else:
            found[number] = Incarnation(number, pid, found[number].joined, at, what)
    return list(found.values())


def read_beats(folder: Path) -> list[Beat]:
    """The processes that tasks started, each with its last sign of life."""
    last: dict[tuple[TaskKey, int, int], float] = {}
    for event, dag_id, run_id, task_id, map_index, number, pid, _, at in _lines(folder):
        if event == "beat":
            last[TaskKey(dag_id, run_id, task_id, int(map_index)), int(number), int(pid)] = int(at) / 1e9
    return [Beat(*process, at) for process, at in last.items()]


def _lines(folder: Path) -> list[list[str]]:
    """What tasks wrote down, in order. A last line that was cut off by a SIGKILL does not count."""
    lines = [line.split("\t") for path in folder.iterdir() for line in path.read_text().splitlines()]
    return sorted((words for words in lines if len(words) == 9 and words[-1]), key=lambda words: int(words[-1]))


def read_spans(folder: Path) -> list[Span]:
    """The attempts that tasks wrote down."""
    spans: list[Span] = []
    going: dict[tuple[TaskKey, int, int], Span] = {}
    for event, dag_id, run_id, task_id, map_index, number, pid, scheduler, at in _lines(folder):
        if event == "beat":
            continue
        attempt = TaskKey(dag_id, run_id, task_id, int(map_index)), int(number), int(pid)
        second = int(at) / 1e9
        if event == "start":
            if attempt in going:
                spans.append(going.pop(attempt))
            going[attempt] = Span(*attempt, scheduler, second, second, None)
        elif event == "alive":
            going[attempt] = going[attempt]._replace(last=second)
        else:
            spans.append(going.pop(attempt)._replace(last=second, outcome=event))
    return spans + list(going.values())
