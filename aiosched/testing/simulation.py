"""Simulates what would run when, and what would hold it up: observes a world and sums up the results.

    result = await simulate(specs, start, end, pools={"etl": 4}, task_duration=timedelta(minutes=1))
    result.bottleneck  ->  "pool 'etl'"

Every run before `start` counts as done. Waiting time is the time that task instances were ready without
a slot; it is charged to the limit that refused them first. The delay of a run that could not be created
or started in time is charged to its DAG's max_active_runs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from aiosched.core.creation.run_creation import compute_next
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DEFAULT_POOL, DagSpec
from aiosched.core.timetables.base import DataInterval
from aiosched.core.values.messages import Attempt
from aiosched.errors import DagError
from aiosched.scheduler.gc_tuning import rare_collections
from aiosched.scheduler.memory.changes import Changes
from aiosched.testing.attempts.endings import Ending
from aiosched.testing.world import World

_LIMIT: Final = re.compile(r"^(pool '[^']*'|DAG '[^']*'|task '[^']*'|parallelism|executor '[^']*').*?(?:\((\w+)\))?$")
_PLENTY: Final = 1_000_000


@dataclass(slots=True)
class DagFigures:
    """One DAG. Times in seconds; `waiting` is the sum over its task instances, `longest_wait` that of a single one."""

    dag_id: str
    runs: int = 0
    tasks: int = 0  # task instances that were queued
    waiting: float = 0.0
    longest_wait: float = 0.0
    late: float = 0.0  # the largest delay between a run being due and its start
    first: datetime | None = None  # when its first run started, and (below) its last one
    last: datetime | None = None
    held_up_by: str | None = None  # the limit that most of its waiting is charged to


@dataclass(slots=True)
class PoolFigures:
    """One pool. `busy` is the average share of its slots that was used, None for an infinite pool."""

    pool: str
    slots: int
    peak: int = 0
    tasks: int = 0
    waiting: float = 0.0  # seconds, of the tasks that this pool refused
    longest_wait: float = 0.0
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """When a run was due, started and ended; `end` None: it had not ended by the end of the simulation."""

    dag_id: str
    run_id: str
    run_after: datetime
    start: datetime | None
    end: datetime | None
    state: str


@dataclass(slots=True)
class Simulation:
    """The results of a simulation. `limits` is the waiting in seconds that each limit caused, the worst first."""

    start: datetime
    end: datetime
    dags: list[DagFigures] = field(default_factory=list)
    pools: list[PoolFigures] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)
    runs: list[SimulatedRun] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # DAGs that could not be simulated

    @property
    def bottleneck(self) -> str | None:
        """The pool or limit that caused the most waiting; None if nothing waited."""
        return next(iter(self.limits), None)


async def simulate(
    dags: Iterable[DagSpec],
    start: datetime,
    end: datetime,
    *,
    pools: Mapping[str, int] | None = None,
    rates: Mapping[str, str] | None = None,
    task_duration: timedelta = timedelta(minutes=1),
    durations: Mapping[tuple[str, str], timedelta] | None = None,
    parallelism: int = _PLENTY,
    slots: int = _PLENTY,
    async_slots: int = _PLENTY,
    seed: int = 0,
    listener: Callable[[datetime], None] | None = None,
) -> Simulation:
    """Simulate `dags` from `start` to `end` (aware, both inclusive); every task succeeds.

    `pools` are slots by name (default_pool has 128 unless it is named), and `rates` their rates, such as 100/min; a
    pool that tasks name and `pools` does not is created with unlimited slots. `durations` by (DAG id, task id) take
    precedence over `task_duration`. A task that is mapped over the output of another one counts as one instance.
    A DAG that cannot be scheduled is left out and reported in `problems`. `listener` hears of the time that the
    simulation has reached, often.
    """
    known = dict(durations or {})

    mapped_over: set[tuple[str, str]] = set()

    def play(attempt: Attempt) -> Ending:
        name = (attempt.run.dag_id, attempt.task_id)
        return Ending(takes=known.get(name, task_duration), returns=[0] if name in mapped_over else None)

    watch = _Watch(start, listener)
    result = Simulation(start, end)
    async with World(
        now=start, seed=seed, parallelism=parallelism, slots=slots, async_slots=async_slots, checked=False, keep=False,
        listener=watch.observe,
    ) as world:  # fmt: skip
        watch.world = world
        for name, size in (pools or {}).items():
            world.pool(name, slots=size, rate=(rates or {}).get(name))
        world.script("*", "*", play)
        for spec in dags:
            try:
                world.add(spec, paused=False, last=run_before(spec, start))
            except DagError as error:
                result.problems.append(str(error))
                continue
            graph = Graph(spec)
            if graph.mappings is not None:
                mapped_over |= {(spec.dag_id, graph.task_ids[producer]) for producer in graph.mappings.readers}
            for task in spec.tasks:
                if task.pool not in world.rows.pools:
                    world.pool(task.pool, slots=-1)
        with rare_collections():
            await world.run_until(end)
        watch.sum_up(result)
    return result


def run_before(spec: DagSpec, instant: datetime) -> DataInterval | None:
    """The interval of the last scheduled run that was due before `instant`; None if the schedule begins later."""
    before = instant - timedelta(microseconds=1)
    run = compute_next(_without_catchup(spec), None, before)
    return run.interval if run is not None and run.run_after < instant else None


def _without_catchup(spec: DagSpec) -> DagSpec:
    return msgspec.structs.replace(spec, catchup=False)


class _Watch:
    """Observes the commits of a world."""

    world: World

    def __init__(self, start: datetime, listener: Callable[[datetime], None] | None = None) -> None:
        self._listener = listener
        self._dags: dict[str, DagFigures] = {}
        self._pools: dict[str, PoolFigures] = {}
        self._by: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))  # waiting by DAG and limit
        self._refused: dict[tuple[int, int, int], str] = {}  # why a task instance was refused first
        self._busy: dict[str, float] = defaultdict(float)  # pool -> slot seconds
        self._used: dict[str, tuple[datetime, int]] = {}  # pool -> since when it uses how many slots
        self._start = start

    def observe(self, batch: Changes, at: datetime) -> None:
        if self._listener is not None:
            self._listener(at)
        for change in batch.tasks.instances:
            place = (change.run_id, change.task_index, change.map_index)
            if change.state == "scheduled" and change.reason:
                self._refused.setdefault(place, change.reason)
            elif change.state == "queued":
                self._queued(place, change.scheduled_at, at)
        for name in batch.pools.deltas:
            self._count(name, at)

    def _queued(self, place: tuple[int, int, int], ready: datetime | None, at: datetime) -> None:
        rows = self.world.rows
        run = rows.runs[place[0]]
        spec = rows.versions[run.version_id].spec
        dag = self._dag(run.dag_id)
        dag.tasks += 1
        pool = self._pool(spec.tasks[place[1]].pool)
        pool.tasks += 1
        reason = self._refused.pop(place, None)
        wait = 0.0 if ready is None else (at - ready).total_seconds()
        if wait <= 0:
            return
        dag.waiting += wait
        dag.longest_wait = max(dag.longest_wait, wait)
        limit = limit_of(reason)
        self._by[run.dag_id][limit] += wait
        if limit == f"pool {pool.pool!r}":
            pool.waiting += wait
            pool.longest_wait = max(pool.longest_wait, wait)

    def _count(self, name: str, at: datetime) -> None:
        row = self.world.rows.pools.get(name)
        if row is None:
            return
        since, used = self._used.get(name, (at, 0))
        self._busy[name] += used * (at - since).total_seconds()
        self._used[name] = (at, row.used)
        pool = self._pool(name)
        pool.peak = max(pool.peak, row.used)

    def sum_up(self, result: Simulation) -> None:
        rows, seconds = self.world.rows, (result.end - result.start).total_seconds()
        for dag_id in rows.dags:
            self._dag(dag_id)
        for run in rows.runs.values():
            result.runs.append(
                SimulatedRun(run.dag_id, run.run_id, run.run_after, run.start_date, run.end_date, run.state.value)
            )
            self._began(run.dag_id, run.run_after, run.start_date)
        for name, pool in rows.pools.items():
            self._count(name, result.end)
            figures, slots = self._pool(name), -1 if pool is None else pool.slots
            if slots > 0 and seconds > 0:
                figures.busy = self._busy[name] / (slots * seconds)
        waiting: dict[str, float] = defaultdict(float)
        for dag_id, by in self._by.items():
            self._dag(dag_id).held_up_by = max(by, key=by.__getitem__)
            for limit, seconds_waited in by.items():
                waiting[limit] += seconds_waited
        result.limits = dict(sorted(waiting.items(), key=lambda entry: -entry[1]))
        result.dags = sorted(self._dags.values(), key=lambda dag: dag.dag_id)
        used = (pool for pool in self._pools.values() if pool.tasks or pool.pool == DEFAULT_POOL)
        result.pools = sorted(used, key=lambda pool: (-pool.waiting, pool.pool))

    def _began(self, dag_id: str, due: datetime, began: datetime | None) -> None:
        dag = self._dag(dag_id)
        dag.runs += 1
        if began is None:
            return
        dag.first = began if dag.first is None else min(dag.first, began)
        dag.last = began if dag.last is None else max(dag.last, began)
        late = (began - max(due, self._start)).total_seconds()
        if late > 0:
            dag.late = max(dag.late, late)
            self._by[dag_id][f"DAG {dag_id!r} max_active_runs"] += late

    def _dag(self, dag_id: str) -> DagFigures:
        return self._dags.setdefault(dag_id, DagFigures(dag_id))

    def _pool(self, name: str) -> PoolFigures:
        if name not in self._pools:
            row = self.world.rows.pools.get(name)
            self._pools[name] = PoolFigures(name, -1 if row is None else row.slots)
        return self._pools[name]


def limit_of(reason: str | None) -> str:
    """The name of the limit in the reason why a task waits: `pool 'etl'`, `DAG 'a' max_active_tasks`."""
    if reason is None:
        return "the order of the queue"
    found = _LIMIT.match(reason)
    if found is None:
        return reason
    return " ".join(part for part in found.groups() if part)
