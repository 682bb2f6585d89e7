"""Invariants after every commit of a `World`: memory is a copy of the rows, and no limit is exceeded.

Source: the semantics reference, section 35.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from aiosched.core.creation.run_creation import active_runs_limit
from aiosched.core.graph.instances import Instance
from aiosched.core.run.board import Board, Run
from aiosched.core.values.states import (
    ACTIVE_FOR_TASK_LIMITS,
    FINISHED,
    HOLDING_SLOT,
    RUN_FINISHED,
    RunState,
    TaskState,
)
from aiosched.db.statements.journal import InstanceChange
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.memory.changes import Changes
from aiosched.testing.rows.rows import Rows
from aiosched.testing.world_memory import MemoryContext

_COPIED: Final = ("try_number", "max_tries", "losses", "queued_by", "start_date", "end_date", "next_at", "is_stopped")
NOTHING: Final[Mapping[int, Board]] = MappingProxyType({})
_copied: Final = attrgetter(*_COPIED)


class InvariantBroken(AssertionError):
    """The scheduler violated an invariant: a bug in aiosched."""


def check_commit(
    context: MemoryContext, batch: Changes, shrunk: set[str], *, parallelism: int, contexts: Sequence[MemoryContext]
) -> None:
    """Raise InvariantBroken unless memory and rows agree and every limit holds.

    `contexts` are those of all schedulers. `shrunk` are pools that were made smaller than their use: they may stay
    overfull until they drain. Other limits may be lowered, too, so they are checked only where something was claimed.
    """
    ended = Counter(done.key[:3] for done in batch.tasks.tries)
    for change in batch.tasks.instances:
        grown = change.try_number - change.old_try_number
        if not 0 <= grown <= 1 + ended[change[:3]]:  # one that is cleared at once leaves a row in the history
            raise InvariantBroken(
                f"try numbers grow by one: {change.old_try_number} -> {change.try_number} in {change}"
            )
        if change.state == TaskState.QUEUED:
            ready = change.scheduled_at is not None and context.rows.runs[change.run_id].state is RunState.RUNNING
            _demand(ready, f"only what was scheduled, in a running run, is queued: {change}")
    for board in batch.effects.finished:
        holding = [i for i in board if i.state in HOLDING_SLOT]
        _demand(not holding, f"a finished run holds no slot: {holding}")
        left = [i for i in board if i.state not in FINISHED]
        _demand(not left or board.run.reason == "all_tasks_deadlocked", f"a finished run is finished: {left}")
    _check_copies(context)
    _check_pools(context, contexts, shrunk)
    _check_counts(context)
    _check_claims(context, batch, parallelism)


def stalled_runs(context: MemoryContext) -> dict[int, Board]:
    """The stalled runs by key: the state before runs start that `check_starts` needs."""
    held = context.cache.dags.values()
    return {
        key: board for dag in held if dag.has_lookback for key, board in dag.runs.running.items() if board.stands_still
    }


def check_starts(context: MemoryContext, still: Mapping[int, Board] = NOTHING) -> None:
    """Raise InvariantBroken unless there was room for every run that has just started. Source: invariant 3.

    A run may start beyond a limit if all others under that limit are stalled (`still`), and one of the DAG waits for
    it. Each start is checked once, by the state before it: afterwards the runs after it continue while it runs.
    """
    new = [board for board in context.cache.unstored.pending.effects.started if board not in context.checked_starts]
    context.checked_starts = dict.fromkeys(context.cache.unstored.pending.effects.started)
    later: set[int] = set()  # runs that started after the one being checked
    for board in reversed(new):
        dag, backfill = context.cache.dags[board.run.dag_id], board.run.backfill_id
        limit = active_runs_limit(dag.version.spec)
        if backfill is not None:
            limit = dag.runs.backfills[backfill].max_active_runs if backfill in dag.runs.backfills else limit
        running = [run for run in dag.runs.under_way() if run.backfill_id == backfill and run.key not in later]
        later.add(board.run.key)
        if len(running) > limit:
            names = f"{[run.run_id for run in running]} run at one time, the limit is {limit}"
            busy = [run.run_id for run in running if run.key not in still and run is not board.run]
            _demand(not busy, f"{names}, and {busy} were not stalled")
            waits = any(
                _waits_for(context, dag.runs.running[key].run, board.run) for key in still if key in dag.runs.running
            )
            _demand(waits, f"{names}, and none waited for {board.run.run_id}")


def _waits_for(context: MemoryContext, run: Run, other: Run) -> bool:
    """Whether a stalled run waits for the `other` one, directly or through unfinished runs."""
    while run.key != other.key:
        before = context.rows.run_before(run, catchup=context.rows.versions[run.version_id].spec.catchup)
        if before is None or context.rows.runs[before].state in RUN_FINISHED:
            return False
        run = context.rows.runs[before]
    return True


def _check_copies(context: MemoryContext) -> None:
    rows, boards = context.rows, context.cache.boards
    ended = {board.run.key for board in context.cache.unstored.pending.effects.finished}
    ours = context.cache.dags
    running = {run.key for run in rows.unfinished_runs() if run.state is RunState.RUNNING and run.dag_id in ours}
    _demand(running - ended <= boards.keys(), f"every running run is held, not only {sorted(boards)}")
    moving = context.attempts.known() | {board.key(instance) for board, instance in (*context.unsent, *context.held)}
    for key, board in boards.items():
        of_run, effects = rows.instances[key], board.effects
        later = {*effects.rows.later}  # decided, and stored with one of the next commits
        if not effects.rows.run_changed:
            _demand(board.run.state is rows.runs[key].state, f"run {key} is {board.run.state} in memory only")
        for instance in board:
            if instance.state in HOLDING_SLOT and board.key(instance) not in moving:
                raise InvariantBroken(f"{instance} holds a slot and does not run")
            if instance not in effects.rows.lazy and instance not in effects.rows.changed and instance not in later:
                _compare(instance, of_run.get((instance.task, instance.map_index)))


def _compare(instance: Instance, row: InstanceChange | None) -> None:
    if row is None or row.state != instance.state.stored or _copied(row) != _copied(instance):
        raise InvariantBroken(f"memory has {instance}, the row is {row}")  # formatted only here: this is a hot path


def _check_pools(context: MemoryContext, contexts: Sequence[MemoryContext], shrunk: set[str]) -> None:
    used: Counter[str] = Counter()
    rows, caches = context.rows, [one.cache for one in contexts]
    held = chain.from_iterable((*c.unstored.pending.effects.finished, *c.boards.values()) for c in caches)
    runs = [(board.run.key, board.graph.tasks) for board in held]
    runs += [
        (run.key, rows.versions[run.version_id].spec.tasks) for run in rows.unfinished_runs() if _is_left(rows, run)
    ]
    for key, tasks in runs:
        for place, row in rows.instances[key].items():
            state = TaskState.of(row.state)
            if state in HOLDING_SLOT or (state is TaskState.DEFERRED and _keeps_its_slot(context, (key, *place))):
                task = tasks[row.task_index]
                used[task.pool] += task.pool_slots
    for name, pool in rows.pools.items():
        if pool is not None:
            _demand(pool.used == used[name], f"pool {name!r} counts {pool.used}, its tasks hold {used[name]}")
            full = 0 <= pool.slots < pool.used
            _demand(not full or name in shrunk, f"pool {name!r} is oversubscribed: {pool.used} of {pool.slots}")


def _is_left(rows: Rows, run: Run) -> bool:
    """Whether its DAG is in quarantine."""
    return rows.quarantine.find(run.dag_id) is not None


def _keeps_its_slot(context: MemoryContext, place: tuple[int, int, int]) -> bool:
    row = context.rows.deferrals.get(place)
    return row is not None and row.holds_pool


def _check_counts(context: MemoryContext) -> None:
    for dag in context.cache.dags.values():
        active: Counter[int] = Counter()
        for key, board in dag.runs.running.items():
            active[key] += sum(i.state in HOLDING_SLOT for i in board)
        total, room = sum(active.values()), dag.room
        _demand(total == room.active, f"DAG {dag.row.dag_id!r} counts {room.active} active tasks of {total}")
        if room.tasks:
            _check_task_counts(dag)


def _check_task_counts(dag: OwnedDag) -> None:
    active: Counter[str] = Counter()
    for board in dag.runs.running.values():
        active.update(board.graph.task_ids[i.task] for i in board if i.state in ACTIVE_FOR_TASK_LIMITS)
    for task_id, task in dag.room.tasks.items():
        _demand(task.active == active[task_id], f"task {task_id!r} counts {task.active} instances of {active[task_id]}")


def _check_claims(context: MemoryContext, batch: Changes, parallelism: int) -> None:
    """Whatever was queued, there was room for it. Source: section 35, invariant 2."""
    active = len(context.attempts.in_flight)
    _demand(not batch.effects.claimed or active <= parallelism, f"{active} attempts run, parallelism is {parallelism}")
    for board, instance in batch.effects.claimed:
        dag, run = context.cache.dags[board.run.dag_id], board.run.key
        room, task = dag.room, dag.room.tasks.get(board.graph.task_ids[instance.task])
        limits = [(room.active, room.limit), (room.by_run.get(run, 0), room.per_run)]
        if task is not None:
            limits += [(task.active, task.per_dag), (task.by_run.get(run, 0), task.per_run)]
        if any(limit is not None and count > limit for count, limit in limits):
            raise InvariantBroken(f"a limit is exceeded by {instance} of {board.run.run_id}: {room}")


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise InvariantBroken(what)
