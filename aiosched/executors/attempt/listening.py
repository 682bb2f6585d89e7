"""Which listeners of plugins are told about an attempt, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from aiosched.authoring.plugins.listeners import call
from aiosched.authoring.plugins.loading import loaded_plugins
from aiosched.core.values.states import TaskState

if TYPE_CHECKING:
    from aiosched.authoring.runtime.task_instance import TaskInstance


def listeners_of(
    state: TaskState, ti: TaskInstance | None, error: BaseException | None = None
) -> list[tuple[str, Callable[[], Any]]]:
    """The listeners to call when a task instance has got this state: their names to show, and the calls."""
    if not (all_hooks := loaded_plugins().hooks):
        return []
    before = TaskState.QUEUED if state is TaskState.RUNNING else TaskState.RUNNING
    facts = {"previous_state": before, "task_instance": ti, "error": error}
    hooks = all_hooks.get(f"on_task_instance_{state.value}", ())
    return [(f"listener {hook.__module__}.{hook.__qualname__}", partial(call, hook, facts)) for hook in hooks]
