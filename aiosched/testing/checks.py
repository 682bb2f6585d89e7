"""What must hold after every commit of a `World`: memory is a copy of the rows, and no limit is exceeded.

Source: the semantics reference, section 35.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from aiosched.core.instances import Instance
from aiosched.core.states import HOLDING_SLOT, RunState, TaskState
from aiosched.db.journal import InstanceChange
from aiosched.scheduler.batch import Batch
from aiosched.testing.desk import MemoryDesk

_COPIED: Final = ("try_number", "max_tries", "losses", "queued_by", "start_date", "end_date", "next_at")


class InvariantBroken(AssertionError):
    """The scheduler did what it must never do: a bug in aiosched."""


def check_commit(desk: MemoryDesk, batch: Batch, shrunk: set[str]) -> None:
    """Raise InvariantBroken unless memory and rows agree and every limit holds.

    `shrunk` are pools that were made smaller than their use: they may be overfull until they drain.
    """
    for change in batch.instances:
        _demand(
            0 <= change.try_number - change.old_try <= 1,
            f"try numbers grow by one: {change.old_try} -> {change.try_number} in {change}",
        )
    for board in batch.finished:
        holding = [i for i in board if i.state in HOLDING_SLOT]
        _demand(not holding, f"a finished run holds no slot: {holding}")
    _check_copies(desk)
    _check_pools(desk, shrunk)
    _check_limits(desk)


def _check_copies(desk: MemoryDesk) -> None:
    rows, boards = desk.rows, desk.holdings.boards
    ended = {board.run.key for board in desk.holdings.ended}
    running = {run.key for run in rows.unfinished_runs() if run.state is RunState.RUNNING}
    _demand(running - ended <= boards.keys(), f"every running run is held, not only {sorted(boards)}")
    moving = desk.attempts.known() | {board.key(instance) for board, instance in desk.unsent}
    for key, board in boards.items():
        of_run, effects = rows.instances[key], board.effects
        if not effects.run_changed:
            _demand(board.run.state is rows.runs[key].state, f"run {key} is {board.run.state} in memory only")
        for instance in board:
            holds = instance.state in HOLDING_SLOT
            _demand(not holds or board.key(instance) in moving, f"{instance} holds a slot and does not run")
            if instance not in effects.lazy and instance not in effects.changed:
                _compare(instance, of_run.get((instance.task, instance.map_index)))


def _compare(instance: Instance, row: InstanceChange | None) -> None:
    _demand(row is not None and row.state == instance.state.stored, f"memory has {instance}, the row is {row}")
    for name in _COPIED:
        mine, theirs = getattr(instance, name), getattr(row, name)
        _demand(mine == theirs, f"{name} is {mine} in memory: {row}")


def _check_pools(desk: MemoryDesk, shrunk: set[str]) -> None:
    used: Counter[str] = Counter()
    for key, board in desk.holdings.boards.items():
        for row in desk.rows.instances[key].values():
            if TaskState.of(row.state) in HOLDING_SLOT:
                task = board.graph.tasks[row.task_index]
                used[task.pool] += task.pool_slots
    for name, pool in desk.rows.pools.items():
        if pool is not None:
            _demand(pool.used == used[name], f"pool {name!r} counts {pool.used}, its tasks hold {used[name]}")
            full = 0 <= pool.slots < pool.used
            _demand(not full or name in shrunk, f"pool {name!r} is oversubscribed: {pool.used} of {pool.slots}")


def _check_limits(desk: MemoryDesk) -> None:
    for dag in desk.holdings.dags.values():
        active: Counter[int] = Counter()
        for key, board in dag.running.items():
            active[key] += sum(i.state in HOLDING_SLOT for i in board)
        total, room = sum(active.values()), dag.room
        _demand(total == room.active, f"DAG {dag.row.dag_id!r} counts {room.active} active tasks of {total}")
        for task in room.tasks.values():
            _demand(task.active >= 0, f"task {task.task_id!r} counts {task.active} active instances")


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise InvariantBroken(what)
