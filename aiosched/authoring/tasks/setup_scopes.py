"""Setups and teardowns as scopes: `with teardown.as_teardown(setups=setup): ...`.

At the end of the block, its first tasks become downstream of the setups, and its last tasks upstream of the
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
    """The tasks between setups and their teardowns, which belong together by their dependencies."""

    def __init__(self, ends: Iterable[Task]) -> None:
        self._ends = {task.task_id: task for task in ends}
        self._tasks: dict[str, Task] = {}

    def add_task(self, *tasks: Any) -> None:
        """Add tasks that were created before the block: tasks, outputs of tasks, groups."""
        for one in tasks:
            if not isinstance(one, Dependable):
                raise fail(f"add_task({one!r:.80}) needs an existing task.")
            for task in {task.task_id: task for task in [*one.first_tasks, *one.last_tasks]}.values():
                self._tasks[task.task_id] = task

    def join(self, task: Task) -> None:
        """Add a task that is being created."""
        self._tasks[task.task_id] = task

    @property
    def setups(self) -> dict[str, Task]:
        """The setups of the scope, by id: those given, and those upstream of a given teardown."""
        before = [up for end in self._ends.values() if end.is_teardown for up in end.upstream_list]
        return {task.task_id: task for task in [*self._ends.values(), *before] if task.is_setup}

    @property
    def teardowns(self) -> dict[str, Task]:
        """The teardowns of the scope, by id: those given, and those downstream of a given setup."""
        after = [down for end in self._ends.values() if end.is_setup for down in end.downstream_list]
        return {task.task_id: task for task in [*self._ends.values(), *after] if task.is_teardown}

    def wire(self) -> None:
        """Add the dependencies."""
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
    """Open a scope for setups and teardowns; raises DagError for a task that is neither."""
    ends = list(ends)
    for task in ends:
        if not (task.is_setup or task.is_teardown):
            raise fail(
                f"Task {task.task_id!r} is neither a setup nor a teardown, so it cannot be used in `with`. "
                "Mark it with .as_setup() or .as_teardown()."
            )
    scope = Scope(ends)
    for outer in _scopes.get()[-1:]:
        for task in [*scope.setups.values(), *scope.teardowns.values()]:
            outer.join(task)
    _scopes.set((*_scopes.get(), scope))
    return scope


def close_scope(*, wire: bool) -> None:
    """Close the innermost scope. Its dependencies are added unless its block failed."""
    *outer, scope = _scopes.get()
    _scopes.set(tuple(outer))
    if not wire:
        return
    scope.wire()
    if outer:  # setups and teardowns added inside the block belong to the outer scope too
        for task in [*scope.setups.values(), *scope.teardowns.values()]:
            outer[-1].join(task)


def join_scope(task: Task) -> None:
    """Add a new task to every open scope of its DAG."""
    for scope in _scopes.get():
        if all(end.dag is task.dag for end in scope._ends.values()):
            scope.join(task)
