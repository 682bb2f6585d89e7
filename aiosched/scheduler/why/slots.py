"""Which task instances compete for the slots that a waiting one needs, and how long tasks usually take.

The order is that of a scheduler's candidates (core/slots/allocation.py `precedence`), across the whole fleet. Reads
are bounded: contenders are those of the `MOST_RUNS` oldest running runs, and with more than `MOST_INSTANCES` waiting
instances or `_MOST_VERSIONS` DAG versions the rank is unknown. A note names each bound that was reached.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiosched.core.graph.spec import TaskSpec
from aiosched.core.graph.weights import capped
from aiosched.core.run.board import Instance
from aiosched.core.slots.allocation import Candidate, ExecutorRoom, PoolRoom, Room, precedence
from aiosched.core.slots.rates import RecentStarts
from aiosched.core.values.messages import AttemptKey
from aiosched.core.values.states import TaskState
from aiosched.core.why.explanation import MOST_HOLDERS, Holder, seconds_since
from aiosched.db.people.pools import GET_POOL, Pool
from aiosched.db.queries import why
from aiosched.db.queries.why import Contender
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements.pool_demands import read_starts
from aiosched.scheduler.memory.cache import StateCache
from aiosched.scheduler.memory.version_reading import readable_versions

_MOST_VERSIONS: Final = 200
_FEW_RUNS: Final = "more than {0:,} runs are running: who holds slots or goes first is known of the {0:,} oldest"
_FEW_HOLDERS: Final = "more than {0:,} task instances hold slots: holders are named of the {0:,} oldest"
_LONG_QUEUE: Final = "more than {0:,} task instances wait for slots: its rank is not known"
_MANY_VERSIONS: Final = "what competes belongs to more than {0:,} DAG versions: its rank is not known"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def room_for(conn: DatabaseConnection, candidate: Candidate, figures: dict[str, Any] | None) -> tuple[Room, int]:
    """The room that the candidate needs, from its scheduler's last figures, and the used slots of its pool."""
    row = await conn.fetchrow(GET_POOL, candidate.pool)
    pools: dict[str, PoolRoom] = {}
    used = 0
    if row is not None:
        pool, used = Pool(*row), row["used"]
        room_of_pool = PoolRoom(pool.slots, pool.open or 0, pool.include_deferred, team=pool.team)
        if pool.rate is not None and (starts := await read_starts(conn, pool.name)) is not None:
            room_of_pool.starts = RecentStarts.of(pool.rate, *starts)
        pools[pool.name] = room_of_pool
    executors: dict[str | None, ExecutorRoom] = {}
    figures = figures or {}
    for name, slots in figures.get("executor", {}).items():
        room = ExecutorRoom(name, int(slots["open"]), int(slots["open_async"]))
        executors.setdefault(None, room)
        executors[name] = room
    parallelism = int(figures.get("parallelism", 0))
    return Room(pools, executors, parallelism - int(figures.get("in_flight", 0)), parallelism), used


@dataclass(frozen=True, slots=True)
class Competition:
    """Who holds slots of the pool and of the DAG if these are full; and how many go first, with their slots.

    `notes` name the bounds that were reached.
    """

    of_pool: tuple[Holder, ...] = ()
    of_dag: tuple[Holder, ...] = ()
    ahead: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()

    def tasks(self) -> set[tuple[str, str]]:
        """(DAG id, task id) of the holders."""
        holders = (*self.of_pool, *self.of_dag)
        return {(holder.dag_id, holder.task_id) for holder in holders if holder.task_id is not None}


async def competition(
    cache: StateCache, conn: DatabaseConnection, candidate: Candidate, room: Room, instance: Instance, now: datetime
) -> Competition:
    """What competes with a candidate. No rows are read where nothing blocks it."""
    if instance.state is not TaskState.SCHEDULED:
        return Competition()
    of_pool: Sequence[Contender] = ()
    of_dag: Sequence[Contender] = ()
    pool = room.pools.get(candidate.pool)
    if pool is not None and not pool.has_slots(candidate.pool_slots) and room.pool_refusal(candidate.needs):
        of_pool = await why.holding_instances(conn)
    if candidate.dag.refusal(candidate.key.run, candidate.task, defers=candidate.defers):
        of_dag = await why.holding_instances(conn, candidate.dag.dag_id)
    has_queue = pool is not None and (pool.total >= 0 or pool.starts is not None)
    waiting = await why.waiting_instances(conn) if has_queue else []
    notes: list[str] = []
    if (of_pool or of_dag or has_queue) and await why.more_run_than_are_read(conn):
        notes.append(_FEW_RUNS.format(why.MOST_RUNS))
    if max(len(of_pool), len(of_dag)) > why.MOST_INSTANCES:
        notes.append(_FEW_HOLDERS.format(why.MOST_INSTANCES))
    if waiting is None:
        notes.append(_LONG_QUEUE.format(why.MOST_INSTANCES))
    wanted = {each.version_id for each in (*of_pool, *of_dag, *(waiting or ()))}
    too_many = len(wanted - cache.versions.keys()) > _MOST_VERSIONS
    if too_many:
        waiting = None
        notes.append(_MANY_VERSIONS.format(_MOST_VERSIONS))
        wanted = {each.version_id for each in (*of_pool[:MOST_HOLDERS], *of_dag[:MOST_HOLDERS])}
    await readable_versions(cache, conn, wanted)
    deferred_too = pool is not None and pool.include_deferred
    holders_of_pool = [
        each
        for each in of_pool
        if (task := _task(cache, each)) is not None
        and task.pool == candidate.pool
        and (each.state is not TaskState.DEFERRED or deferred_too)
    ]
    return Competition(
        tuple(_holder(cache, each, now, in_pool=True) for each in holders_of_pool[:MOST_HOLDERS]),
        tuple(_holder(cache, each, now, in_pool=False) for each in of_dag[:MOST_HOLDERS]),
        None if waiting is None else _ahead(cache, candidate, instance, waiting),
        tuple(notes),
    )


def _task(cache: StateCache, contender: Contender) -> TaskSpec | None:
    """The task of a contender; None if its version was not read, or its task no longer exists."""
    found = cache.versions.get(contender.version_id)
    tasks = () if found is None else found[1].tasks
    return tasks[contender.task_index] if contender.task_index < len(tasks) else None


def _holder(cache: StateCache, contender: Contender, now: datetime, *, in_pool: bool) -> Holder:
    task = _task(cache, contender)
    since = contender.queued_at if contender.state is TaskState.QUEUED else contender.start_date
    return Holder(
        dag_id=contender.dag_id,
        run_id=contender.run_id,
        task_id=None if task is None else task.task_id,
        map_index=contender.map_index,
        state=contender.state.value,
        slots=task.pool_slots if task is not None and in_pool else 1,
        seconds=seconds_since(since, now),
        logical_date=contender.logical_date,
    )


def _ahead(
    cache: StateCache, candidate: Candidate, instance: Instance, waiting: Iterable[Contender]
) -> tuple[int, int]:
    """How many instances of the fleet go before the candidate in its pool, and how many slots they need."""
    mine = (*precedence(candidate), instance.scheduled_at or _EPOCH, candidate.key.run)
    number = slots = 0
    for each in waiting:
        found, task = cache.versions.get(each.version_id), _task(cache, each)
        if found is None or task is None or task.pool != candidate.pool:
            continue
        other = Candidate(
            AttemptKey(each.run, each.task_index, each.map_index, 0),
            candidate.dag,
            weight=capped(found[1].weights[each.task_index] + each.priority),
            logical_at=math.inf if each.logical_date is None else each.logical_date.timestamp(),
        )
        if (*precedence(other), each.scheduled_at or _EPOCH, each.run) < mine:
            number += 1
            slots += task.pool_slots
    return number, slots


class TypicalDurations:
    """How long tasks usually take: the median of their latest successes, in seconds, for tasks given to `learn`."""

    def __init__(self, cache: StateCache, conn: DatabaseConnection) -> None:
        self._cache, self._conn = cache, conn
        self._seconds: dict[tuple[str, str], float] = {}

    async def learn(self, tasks: Collection[tuple[str, str]]) -> None:
        """Read the durations of tasks by (DAG id, task id)."""
        wanted = sorted(tasks)
        latest = await why.latest_runs(self._conn, {dag_id for dag_id, _ in wanted})
        readable = await readable_versions(self._cache, self._conn, {version for *_, version in latest})
        places: list[tuple[int, int, int]] = []
        for dag_id, run, version in (each for each in latest if each[2] in readable):
            index = self._cache.versions[version][1].index
            for place, (owner, task_id) in enumerate(wanted):
                if owner == dag_id and task_id in index:
                    places.append((place, run, index[task_id]))
        found = await why.median_seconds(self._conn, places)
        self._seconds.update((wanted[place], seconds) for place, seconds in found.items())

    def of(self, dag_id: str, task_id: str) -> float | None:
        return self._seconds.get((dag_id, task_id))

    def applied(self, holders: Iterable[Holder]) -> tuple[Holder, ...]:
        """The holders with their usual durations."""
        return tuple(
            dataclasses.replace(holder, usual_seconds=self.of(holder.dag_id, holder.task_id))
            if holder.task_id is not None
            else holder
            for holder in holders
        )
