"""The DAGs of each benchmark. Pure: a shape is numbers, and `dag_files` turns it into the text of DAG files.

Names follow the pattern KIND-DAGSxTASKS where there are several DAGs, and KIND-TASKS where there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

CallableKind = Literal["async", "sync"]

MAX_FILES: Final = 100  # a shape with more DAGs puts several of them into one file


@dataclass(frozen=True)
class Shape:
    """`dags` equal DAGs of `tasks` tasks; `edges` are (upstream, downstream) positions within one DAG."""

    name: str
    dags: int
    tasks: int
    edges: tuple[tuple[int, int], ...]
    pool_slots: int | None = None  # all tasks share a pool of so many slots; None: the default pool, unlimited
    cron: bool = False  # due by a daily cron schedule, not `@once`
    body_seconds: float = 0.0  # what a body awaits (or sleeps) between its two readings of the clock

    def resized(self, dags: int) -> Shape:
        """The same with another number of DAGs."""
        return replace(self, dags=dags)

    @property
    def pool(self) -> str:
        return "default_pool" if self.pool_slots is None else "narrow"

    @property
    def total(self) -> int:
        """How many task instances one run of every DAG has."""
        return self.dags * self.tasks

    def dag_ids(self) -> list[str]:
        return [dag_id(self, number) for number in range(self.dags)]

    def task_ids(self) -> list[str]:
        return [task_id(position) for position in range(self.tasks)]

    def upstreams(self) -> dict[str, list[str]]:
        """The direct upstream task ids of every task id."""
        found: dict[str, list[str]] = {name: [] for name in self.task_ids()}
        for up, down in self.edges:
            found[task_id(down)].append(task_id(up))
        return found


def linear(length: int) -> tuple[tuple[int, int], ...]:
    """Each task after the one before it."""
    return tuple((position - 1, position) for position in range(1, length))


def binary_tree(size: int) -> tuple[tuple[int, int], ...]:
    """Each task opens the way for two others."""
    return tuple(((position - 1) // 2, position) for position in range(1, size))


def fan(width: int) -> tuple[tuple[int, int], ...]:
    """One task, then `width` side by side, then one that waits for all of them."""
    last = width + 1
    return tuple((0, position) for position in range(1, last)) + tuple((position, last) for position in range(1, last))


def levels(shape: Shape) -> list[list[str]]:
    """The task ids by their distance from the roots: each needs only tasks of levels before its own."""
    depth: dict[str, int] = {}
    for task_id, upstreams in shape.upstreams().items():  # upstreams have smaller positions
        depth[task_id] = max((depth[name] + 1 for name in upstreams), default=0)
    return [[name for name in depth if depth[name] == at] for at in range(max(depth.values()) + 1)]


def sized(shape: Shape, dags: int, tasks: int) -> Shape:
    """The same kind of shape with other numbers, and with its name."""
    kind = shape.name.partition("-")[0]
    name = f"{kind}-{dags}x{tasks}" if shape.dags > 1 else f"{kind}-{tasks}"
    edges = {"linear": linear(tasks), "chain": linear(tasks), "tree": binary_tree(tasks), "fan": fan(tasks - 2)}
    return replace(shape, name=name, dags=dags, tasks=tasks, edges=edges.get(kind, ()))


SHAPES: Final = {
    shape.name: shape
    for shape in (
        Shape("linear-100x10", 100, 10, linear(10)),
        Shape("linear-10x100", 10, 100, linear(100)),
        Shape("tree-100x10", 100, 10, binary_tree(10)),
        Shape("parallel-500x10", 500, 10, ()),
        Shape("parallel-5000x10", 5000, 10, ()),
        Shape("fan-1000", 1, 1002, fan(1000)),
        Shape("chain-200", 1, 200, linear(200)),
        Shape("chain-1000", 1, 1000, linear(1000)),
        Shape("pool-5", 100, 100, (), pool_slots=5, body_seconds=0.002),
        Shape("herd-20000", 20_000, 1, (), cron=True),
    )
}


def dag_id(shape: Shape, number: int) -> str:
    return f"{shape.name}.{number:05d}"


def task_id(position: int) -> str:
    return f"t{position:04d}"


def dag_files(shape: Shape, *, kind: CallableKind, start: datetime, records: str) -> Iterator[tuple[str, str]]:
    """The (file name, text) pairs that define the shape's DAGs.

    Every DAG is `@once` (or has a daily cron schedule) and due at `start` (aware; a whole second), so that
    all runs begin together after all files were read. The bodies append one line each to a file of their
    process in the folder `records`; the files import nothing of this package, because worker processes
    need not have it on their path.
    """
    per_file = -(-shape.dags // MAX_FILES)
    for count, first in enumerate(range(0, shape.dags, per_file)):
        numbers = range(first, min(first + per_file, shape.dags))
        text = _FILE.format(
            name=shape.name,
            ids=[dag_id(shape, number) for number in numbers],
            tasks=shape.task_ids(),
            edges=list(shape.edges),
            start=(start - timedelta(days=1) if shape.cron else start).isoformat(),
            schedule=f"{start.minute} {start.hour} * * * {start.second}" if shape.cron else "@once",
            pool=shape.pool,
            records=records,
            define="async def" if kind == "async" else "def",
            rest=_rest(shape.body_seconds, kind),
        )
        yield f"{shape.name.replace('-', '_')}_{count:03d}.py", text


def _rest(seconds: float, kind: CallableKind) -> str:
    """The line of a body that takes so long; none for 0."""
    if not seconds:
        return ""
    return f"\n    await asyncio.sleep({seconds})" if kind == "async" else f"\n    time.sleep({seconds})"


_FILE: Final = '''\
"""A DAG file of the benchmark {name} for aiosched; generated."""

import asyncio
import os
import time
from datetime import datetime

from aiosched import DAG, task

RECORDS = {records!r}
TASKS = {tasks!r}
EDGES = {edges!r}
LIMIT = 1_000_000
files = {{}}


def record(ti, start):
    pid = os.getpid()
    if pid not in files:
        files[pid] = os.open(os.path.join(RECORDS, str(pid)), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    line = f"{{ti.dag_id}} {{ti.task_id}} {{ti.try_number}} {{pid}} {{start!r}} {{time.monotonic()!r}}\\n"
    os.write(files[pid], line.encode())


@task(pool={pool!r})
{define} body(ti=None):
    start = time.monotonic(){rest}
    record(ti, start)


for dag_id in {ids!r}:
    with DAG(
        dag_id,
        schedule={schedule!r},
        start_date=datetime.fromisoformat({start!r}),
        catchup=False,
        max_active_runs=1,
        max_active_tasks=LIMIT,
    ):
        tasks = [body.override(task_id=name)() for name in TASKS]
        for up, down in EDGES:
            tasks[up] >> tasks[down]
'''
