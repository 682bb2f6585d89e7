"""Which waiting task instances get a slot: the decision inside the critical section.

Lives here: the room left under every limit, and the test of one candidate against it, with the reason for a refusal.
Does not live here: keeping the waiting candidates and choosing among them (waiting.py), locking and SQL.

Two kinds of room. Pools, executors and parallelism are shared: a `Room` is created for each pass from the rows just
read. The limits of DAGs, runs and tasks are local to the owner of the DAG: a `DagRoom` lives as long as the DAG is
owned and is kept up to date by `occupy` and `vacate`.

Source: the semantics reference, sections 17 and 18, and section 34 decision 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from aiosched.core.slots.competing_demands import CompetingDemand, DemandPlace
from aiosched.core.slots.rates import RecentStarts
from aiosched.core.values.commands import command_line
from aiosched.core.values.messages import AttemptKey


@dataclass(slots=True, eq=False)
class TaskRoom:
    """The limits of one task over all versions of its DAG. Only tasks that have a limit get one."""

    task_id: str
    per_dag: int | None = None  # max_active_tis_per_dag
    per_run: int | None = None  # max_active_tis_per_dagrun
    active: int = 0  # queued, running and deferred
    by_run: dict[int, int] = field(default_factory=dict)  # the same by run key; runs with none are absent

    def refusal(self, run: int) -> str | None:
        """Why no further instance of the task can start in `run`; None if one can."""
        if self.per_dag is not None and self.active >= self.per_dag:
            return f"task {self.task_id!r}: {self.active} of {self.per_dag} instances active (max_active_tis_per_dag)"
        if self.per_run is not None and self.by_run.get(run, 0) >= self.per_run:
            return (
                f"task {self.task_id!r}: {self.by_run.get(run, 0)} of {self.per_run} instances active "
                "in this run (max_active_tis_per_dagrun)"
            )
        return None

    def occupy(self, run: int) -> None:
        self.active += 1
        self.by_run[run] = self.by_run.get(run, 0) + 1

    def vacate(self, run: int) -> None:
        self.active -= 1
        _decrement(self.by_run, run)


@dataclass(slots=True, eq=False)
class DagRoom:
    """The limits of one DAG, and its active task instances in all runs.

    Call `WaitingQueue.release` after a count fell or a limit rose. After `per_run` or a limit of a task was set or
    removed, add its candidates to the queue again.
    """

    dag_id: str
    limit: int  # max_active_tasks
    per_run: int | None = None  # max_active_tasks_per_run
    active: int = 0  # queued and running
    by_run: dict[int, int] = field(default_factory=dict)  # the same by run key; runs with none are absent
    tasks: dict[str, TaskRoom] = field(default_factory=dict)  # by task id
    team: str | None = None  # whose pools it may use, besides those of nobody

    def refusal(self, run: int, task: TaskRoom | None, *, defers: bool = False) -> str | None:
        """Why nothing (or not this task) can start in `run`; None if it can.

        A task that starts deferred (`defers`) is subject only to its own limits (25.1).
        """
        is_limited = not defers and (self.active >= self.limit or self.per_run is not None)
        if is_limited and (reason := self.limit_refusal() or self.run_refusal(run)) is not None:
            return reason
        return task.refusal(run) if task is not None else None

    def limit_refusal(self) -> str | None:
        """Why no further task of the DAG can start, in any run."""
        if self.active >= self.limit:
            return f"DAG {self.dag_id!r}: {self.active} of {self.limit} tasks active (max_active_tasks)"
        return None

    def run_refusal(self, run: int) -> str | None:
        """Why no further task can start in `run`, because of a limit per run."""
        if self.per_run is not None and self.by_run.get(run, 0) >= self.per_run:
            return (
                f"DAG {self.dag_id!r}: {self.by_run.get(run, 0)} of {self.per_run} tasks active "
                "in this run (max_active_tasks_per_run)"
            )
        return None

    def occupy(self, run: int, task: TaskRoom | None = None, *, defers: bool = False) -> None:
        """Count a task instance that becomes queued, or deferred at once (`defers`)."""
        if not defers:
            self.active += 1
            self.by_run[run] = self.by_run.get(run, 0) + 1
        if task is not None:
            task.occupy(run)

    def vacate(self, run: int, task: TaskRoom | None = None, *, defers: bool = False) -> None:
        """Discount a task instance that is no longer queued or running (with `defers`: undo that `occupy`).

        An instance that becomes deferred stays active for the limits of its task: call without `task`, and
        `task.vacate(run)` when the deferral ends.
        """
        if not defers:
            self.active -= 1
            _decrement(self.by_run, run)
        if task is not None:
            task.vacate(run)


@dataclass(slots=True, eq=False)
class PoolRoom:
    """A pool as read: all its slots (-1: infinite), and its open slots (below 0 after shrinking)."""

    total: int
    open: int
    include_deferred: bool = False  # whether deferred task instances count
    team: str | None = None  # whose DAGs may use it; None: all
    competing_demands: list[CompetingDemand] = field(
        default_factory=list
    )  # what other schedulers wait for, in order of precedence
    kept: int = 0  # open slots that are left to demands that go first
    winners: list[int] = field(default_factory=list)  # schedulers whose demand fits: to be notified
    starts: RecentStarts | None = None  # None: it has no rate

    def is_foreign(self, team: str | None) -> bool:
        """Whether DAGs of `team` may not use it."""
        return self.team is not None and self.team != team

    def make_way(self, place: DemandPlace | None) -> None:
        """Leave open slots to the competing demands that go before `place` (None: to all of them).

        A demand that does not fit is passed over, unless it is overdue: then the open slots are reserved until it fits.
        """
        while self.competing_demands and (place is None or self.competing_demands[0].demand.place.precedes(place)):
            competing_demand = self.competing_demands.pop(0)
            demand = competing_demand.demand
            fits = self.has_slots(demand.need)
            if fits and self.starts is not None:
                if self.starts.left <= 0:
                    continue
                self.starts.keep(demand.slots)
            if fits:
                self.winners.append(competing_demand.incarnation)
            if self.open > 0 and (fits or demand.place.overdue):
                self.keep(min(demand.slots, self.open))

    def has_slots(self, need: int) -> bool:
        """Whether so many are open."""
        return need <= self.open or self.total < 0

    def keep(self, slots: int) -> None:
        """Reserve that many of the open slots for a demand that goes first."""
        self.open -= slots
        self.kept += slots


@dataclass(slots=True, eq=False)
class ExecutorRoom:
    """How many attempts an executor can accept: of plain functions, and of `async def` functions."""

    name: str
    open: int
    open_async: int


@dataclass(slots=True, eq=False)
class Room:
    """The room that one pass can allocate; it shrinks during the pass.

    `executors` has each executor by name, and the default one under None as well. `open` is how many more attempts this
    scheduler can run within its `parallelism`.
    """

    pools: Mapping[str, PoolRoom]
    executors: Mapping[str | None, ExecutorRoom]
    open: int
    parallelism: int

    def refusal(self, needs: Needs) -> str | None:
        """Why a candidate with these needs does not fit; None if it does."""
        if self.open <= 0 and not needs.defers:
            return self.parallelism_refusal()
        return self.pool_refusal(needs) or (None if needs.defers else self.executor_refusal(needs))

    def parallelism_refusal(self) -> str | None:
        """Why this scheduler accepts no further attempt, whatever it needs."""
        if self.open <= 0:
            return f"parallelism: this scheduler runs {self.parallelism} attempts, its maximum"
        return None

    def pool_refusal(self, needs: Needs) -> str | None:
        """Why the pool does not have that many open slots for a DAG of that team."""
        name, slots, pool = needs.pool, needs.slots, self.pools.get(needs.pool)
        if pool is None:
            return f"pool {name!r} does not exist: create it with `{command_line('pools set', name, max(slots, 1))}`"
        if pool.is_foreign(needs.team):
            return f"pool {name!r} belongs to another team: choose a pool that this DAG may use"
        if slots > pool.open and pool.total >= 0 and (pool.include_deferred or not needs.defers):
            return _pool_refusal(name, slots, pool)
        if pool.starts is not None and not needs.defers:
            return pool.starts.refusal(name)
        return None

    def executor_refusal(self, needs: Needs) -> str | None:
        """Why the executor accepts no further attempt of that kind."""
        executor = self.executors.get(needs.executor)
        if executor is None:
            known = ", ".join(sorted(name for name in self.executors if name is not None)) or "none"
            return (
                f"executor {needs.executor!r} is not configured: known here is {known}. "
                "Add it to executor.kind, or change the task's executor"
            )
        if (executor.open_async if needs.is_async else executor.open) <= 0:
            kind = "async" if needs.is_async else "plain"
            return f"executor {executor.name!r}: 0 slots open for {kind} functions, needs 1"
        return None

    def impossible(self, needs: Needs) -> Impossible | None:
        """Why no candidate with these needs can start, however much becomes free; None if one can."""
        pool, counts = self.pools.get(needs.pool), True
        if pool is not None:
            counts = pool.include_deferred or not needs.defers
        if pool is None or pool.is_foreign(needs.team) or (counts and 0 <= pool.total < needs.slots):
            return Impossible("pool", needs.pool, str(self.pool_refusal(needs)))
        if needs.executor not in self.executors and not needs.defers:
            return Impossible("executor", str(needs.executor), str(self.executor_refusal(needs)))
        return None

    def occupy(self, needs: Needs) -> None:
        """Allocate what `refusal` did not refuse."""
        pool = self.pools[needs.pool]
        if needs.defers:
            pool.open -= needs.slots if pool.include_deferred else 0
            return
        self.open -= 1
        pool.open -= needs.slots
        if pool.starts is not None:
            pool.starts.take()
        executor = self.executors[needs.executor]
        if needs.is_async:
            executor.open_async -= 1
        else:
            executor.open -= 1

    def lacks_only_slots(self, needs: Needs) -> int:
        """How many candidates with these needs would fit if the pool were empty, and nothing had started in it."""
        pool, executor = self.pools.get(needs.pool), self.executors.get(needs.executor)
        if pool is None or executor is None or pool.is_foreign(needs.team) or 0 <= pool.total < needs.slots:
            return 0
        if pool.has_slots(needs.slots) and (pool.starts is None or pool.starts.left > 0):
            return 0
        return max(0, min(self.open, executor.open_async if needs.is_async else executor.open))


class Needs(NamedTuple):
    """What a candidate needs of the shared room.

    One that starts in its trigger (`defers`) needs room only in a pool that includes deferred tasks (25.1).
    """

    pool: str
    slots: int = 1
    executor: str | None = None  # None: the default one
    is_async: bool = False
    team: str | None = None  # of its DAG
    defers: bool = False


class Impossible(NamedTuple):
    """What tasks wait for in vain, a pool or an executor, and why they can never start."""

    kind: str
    name: str
    reason: str


class Candidate(msgspec.Struct, eq=False, gc=False):
    """A task instance in state scheduled, with what it needs. Compared by identity.

    The garbage collector leaves candidates alone: nothing that they refer to refers to them.
    """

    key: AttemptKey
    dag: DagRoom
    pool: str = "default_pool"
    pool_slots: int = 1
    weight: int = 1  # effective priority weight: higher goes first
    logical_at: float = math.inf  # logical date in seconds since 1970, infinite for none: lower goes first
    is_async: bool = False
    executor: str | None = None  # None: the default one
    task: TaskRoom | None = None  # None: the task has no limits of its own
    defers: bool = False  # starts in its trigger: takes no slot of an executor
    rank: Rank | None = None  # assigned by the waiting queue, kept when it is put back

    @property
    def needs(self) -> Needs:
        return Needs(self.pool, self.pool_slots, self.executor, self.is_async, self.dag.team, self.defers)

    def __repr__(self) -> str:
        return f"<Candidate {self.dag.dag_id} {tuple(self.key)}>"


Rank = tuple[int, float, int, int]  # (-weight, logical_at, map_index, order of arrival)


def precedence(candidate: Candidate) -> tuple[int, float, int]:
    """The sort key of candidates: weight descending, logical date ascending (none last), map index ascending."""
    return -candidate.weight, candidate.logical_at, candidate.key.map_index


class Grant(NamedTuple):
    """Which candidates can be queued, in order, and why each of the others that were checked waits."""

    taken: list[Candidate]
    refused: list[tuple[Candidate, str]]


def _pool_refusal(name: str, slots: int, pool: PoolRoom) -> str:
    need = f"pool {name!r}: needs {slots} slot{'s' if slots != 1 else ''}"
    if slots > pool.total:
        enlarge = command_line("pools set", name, slots)
        return f"{need}, has {pool.total} in all: enlarge it with `{enlarge}` or lower pool_slots"
    kept = f", {pool.kept} reserved for tasks that go first" if pool.kept else ""
    return f"{need}, {pool.open} of {pool.total} open{kept}"


def _decrement(counts: dict[int, int], key: int) -> None:
    left = counts.get(key, 0) - 1
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)


def full_pool_words(slots: int, waiting: int) -> str:
    """That all `slots` of a pool are taken while `waiting` tasks wait, for people."""
    taken = "its slot is occupied" if slots == 1 else f"all {slots} slots are occupied"
    return f"{taken}, {waiting_words(waiting)}"


def waiting_words(waiting: int) -> str:
    """How many tasks wait, for people."""
    return f"{waiting} {'task waits' if waiting == 1 else 'tasks wait'}"
