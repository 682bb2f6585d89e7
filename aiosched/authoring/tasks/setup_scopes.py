"""Setups and teardowns as scopes: `with teardown.as_teardown(setups=setup): ...`.

What a block makes is connected when it ends: setups, then the block's first tasks; its last tasks, then the
teardowns. Setups and teardowns of an inner scope count as tasks of the outer one.
Source: the semantics reference, section 8.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.dependencies import Dependable, connect

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Task


class Scope:
    """The tasks between setups and their teardowns. Setups and teardowns find each other by the arrows between them."""

    def __init__(self, ends: Iterable[Task]) -> None:
        self._ends = {task.task_id: task for task in ends}
        self._tasks: dict[str, Task] = {}

    def add_task(self, *tasks: Any) -> None:
        """Take tasks in that were made before the block: tasks, outputs of tasks, groups."""
        for one in tasks:
            if not isinstance(one, Dependable):
                raise fail(f"add_task({one!r:.80}) needs a task that was made already.")
            for task in {task.task_id: task for task in [*one.first_tasks, *one.last_tasks]}.values():
                self._tasks[task.task_id] = task

    def join(self, task: Task) -> None:
        """Take a task in that is being made."""
        self._tasks[task.task_id] = task

    @property
    def setups(self) -> dict[str, Task]:
        """The setups of the scope, by id: those named, and those before a teardown that was named."""
        before = [up for end in self._ends.values() if end.is_teardown for up in end.upstream_list]
        return {task.task_id: task for task in [*self._ends.values(), *before] if task.is_setup}

    @property
    def teardowns(self) -> dict[str, Task]:
        """The teardowns of the scope, by id: those named, and those after a setup that was named."""
        after = [down for end in self._ends.values() if end.is_setup for down in end.downstream_list]
        return {task.task_id: task for task in [*self._ends.values(), *after] if task.is_teardown}

    def wire(self) -> None:
        """Draw the arrows."""
        setups, teardowns = self.setups, self.teardowns
        inside = {key: task for key, task in self._tasks.items() if key not in setups and key not in teardowns}
        first = [task for task in inside.values() if not task.upstream_task_ids & inside.keys()]
        last = [task for task in inside.values() if not task.downstream_task_ids & inside.keys()]
        for setup in setups.values():
            for task in first:
                connect(setup, task)
        for teardown in teardowns.values():
            for task in last:
                connect(task, teardown)


_scopes: ContextVar[tuple[Scope, ...]] = ContextVar("aiosched_setup_scopes", default=())


def open_scope(ends: Iterable[Task]) -> Scope:
    """Begin the scope of some setups and teardowns; raises DagError for a task that is neither."""
    ends = list(ends)
    for task in ends:
        if not (task.is_setup or task.is_teardown):
            raise fail(
                f"Task {task.task_id!r} is neither a setup nor a teardown, so it cannot stand in `with`. "
                "Mark it with .as_setup() or .as_teardown()."
            )
    scope = Scope(ends)
    for outer in _scopes.get()[-1:]:
        for task in [*scope.setups.values(), *scope.teardowns.values()]:
            outer.join(task)
    _scopes.set((*_scopes.get(), scope))
    return scope


def close_scope(*, wire: bool) -> None:
    """End the innermost scope, and draw its arrows unless its block failed."""
    *outer, scope = _scopes.get()
    _scopes.set(tuple(outer))
    if not wire:
        return
    scope.wire()
    if outer:  # what was connected to it inside its block belongs to the outer scope too
        for task in [*scope.setups.values(), *scope.teardowns.values()]:
            outer[-1].join(task)


def join_scope(task: Task) -> None:
    """Let every scope that is open, and of the same DAG, know that `task` was made."""
    for scope in _scopes.get():
        if all(end.dag is task.dag for end in scope._ends.values()):
            scope.join(task)
