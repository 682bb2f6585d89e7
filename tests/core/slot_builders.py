"""Small builders for candidates and rooms, and the walk of the reference to compare with."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import count
from typing import Any

from aiosched.core.slots.allocation import Candidate, DagRoom, ExecutorRoom, Grant, PoolRoom, Room, TaskRoom
from aiosched.core.slots.waiting import WaitingQueue
from aiosched.core.values.messages import AttemptKey

_runs = count(1)


def dag_room(dag_id: str = "sales", limit: int = 16, **options: Any) -> DagRoom:
    return DagRoom(dag_id, limit, **options)


def needs(
    slots: int = 1,
    *,
    pool: str = "etl",
    dag: DagRoom | None = None,
    run: int | None = None,
    index: int = 0,
    map_index: int = -1,
    weight: int = 1,
    logical_at: float = math.inf,
    is_async: bool = False,
    executor: str | None = None,
    task: TaskRoom | None = None,
    defers: bool = False,
) -> Candidate:
    """A candidate that needs `slots` of `pool`; of a run and DAG of its own unless said otherwise."""
    return Candidate(
        AttemptKey(next(_runs) if run is None else run, index, map_index, 1),
        dag or dag_room(),
        pool=pool,
        pool_slots=slots,
        weight=weight,
        logical_at=logical_at,
        is_async=is_async,
        executor=executor,
        task=task,
        defers=defers,
    )


def room(*, plain: int = 1000, asynchronous: int = 1000, parallelism: int = 1000, **pools: int | PoolRoom) -> Room:
    """Room in pools (a number: all slots open; -1: infinite) and in one executor called local."""
    executor = ExecutorRoom("local", plain, asynchronous)
    return Room(
        pools={
            name: pool if isinstance(pool, PoolRoom) else PoolRoom(pool, max(pool, 0)) for name, pool in pools.items()
        },
        executors={None: executor, "local": executor},
        open=parallelism,
        parallelism=parallelism,
    )


def queue_of(*candidates: Candidate) -> WaitingQueue:
    queue = WaitingQueue()
    for candidate in candidates:
        queue.add(candidate)
    return queue


def allocate(candidates: Iterable[Candidate], given: Room) -> Grant:
    """What one pass over these candidates alone takes, and the reason of each of the others."""
    waiting = list(candidates)
    queue = queue_of(*waiting)
    taken = queue.take(given, 0.0).taken
    return Grant(taken, [(c, str(queue.reason(c.key))) for c in waiting if c.key in queue])


def put_back(queue: WaitingQueue, candidate: Candidate) -> None:
    """Let a candidate that was taken, but not claimed, wait again at its old place."""
    candidate.dag.vacate(candidate.key.run, candidate.task, defers=candidate.defers)
    queue.add(candidate)
    queue.release(candidate.dag)


def line_up_again(queue: WaitingQueue, dag: DagRoom) -> None:
    """Sort the DAG's candidates anew: limits per run or per task came or went."""
    mine = [candidate for candidate in queue if candidate.dag is dag]
    for candidate in mine:
        queue.discard(candidate.key)
    for candidate in mine:
        queue.add(candidate)
    queue.release(dag)


def reference_walk(candidates: Iterable[Candidate], given: Room) -> list[Candidate]:
    """Sort everything, walk once, take what fits: section 17.3, word by word. Keeps its own counts."""
    pools = {name: math.inf if pool.total < 0 else pool.open for name, pool in given.pools.items()}
    executors = {
        id(executor): {False: executor.open, True: executor.open_async} for executor in given.executors.values()
    }
    left = given.open
    in_dag: dict[DagRoom, int] = {}
    in_run: dict[tuple[DagRoom, int], int] = {}
    of_task: dict[TaskRoom, int] = {}
    of_task_in_run: dict[tuple[TaskRoom, int], int] = {}
    taken = []
    for c in sorted(candidates, key=lambda c: (-c.weight, c.logical_at, c.key.map_index)):
        run = c.key.run
        if c.pool in pools and given.pools[c.pool].team not in (None, c.dag.team):  # it belongs to another team
            continue
        executor = executors.get(id(given.executors.get(c.executor)))
        if c.defers:  # 25.1: no slot, no pool slot unless the pool includes deferred, only the task's own limits
            counts = c.pool in pools and given.pools[c.pool].include_deferred
            if c.pool not in pools or (counts and c.pool_slots > pools[c.pool]):
                continue
            if c.task is not None:
                per_dag = c.task.active + of_task.get(c.task, 0)
                per_run = c.task.by_run.get(run, 0) + of_task_in_run.get((c.task, run), 0)
                if c.task.per_dag is not None and per_dag >= c.task.per_dag:
                    continue
                if c.task.per_run is not None and per_run >= c.task.per_run:
                    continue
                of_task[c.task] = of_task.get(c.task, 0) + 1
                of_task_in_run[c.task, run] = of_task_in_run.get((c.task, run), 0) + 1
            pools[c.pool] -= c.pool_slots if counts else 0
            taken.append(c)
            continue
        if left < 1 or c.pool not in pools or c.pool_slots > pools[c.pool] or not executor or executor[c.is_async] < 1:
            continue
        if c.dag.active + in_dag.get(c.dag, 0) >= c.dag.limit:
            continue
        if c.dag.per_run is not None and c.dag.by_run.get(run, 0) + in_run.get((c.dag, run), 0) >= c.dag.per_run:
            continue
        if c.task is not None:
            everywhere = c.task.active + of_task.get(c.task, 0)
            here = c.task.by_run.get(run, 0) + of_task_in_run.get((c.task, run), 0)
            if c.task.per_dag is not None and everywhere >= c.task.per_dag:
                continue
            if c.task.per_run is not None and here >= c.task.per_run:
                continue
            of_task[c.task] = of_task.get(c.task, 0) + 1
            of_task_in_run[c.task, run] = of_task_in_run.get((c.task, run), 0) + 1
        left -= 1
        pools[c.pool] -= c.pool_slots
        executor[c.is_async] -= 1
        in_dag[c.dag] = in_dag.get(c.dag, 0) + 1
        in_run[c.dag, run] = in_run.get((c.dag, run), 0) + 1
        taken.append(c)
    return taken
