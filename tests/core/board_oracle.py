"""What should become of a task instance now, worked out from the DAG as its author wrote it.

Written apart from the board, its counts and its graph: it looks at task ids and states, and
asks `trigger_rule_oracle` about the rule. Source: the semantics reference, sections 5 and 8.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiosched.core.graph.spec import TaskSpec
from aiosched.core.run.board import Board, Instance
from tests.core.trigger_rule_oracle import REMOVED, RUN, SKIP, UPSTREAM_FAILED, WAIT, expected

FINISHED = {"success", "failed", "skipped", "upstream_failed", "removed"}


def verdict(board: Board, instance: Instance) -> str:
    """run, wait, or the state that the instance should be settled in."""
    tasks = {task.task_id: task for task in board.graph.spec.tasks}
    states = {board.graph.task_ids[i.task]: str(i.state) for i in board}
    me = tasks[board.graph.task_ids[instance.task]]
    by_setups = RUN if me.is_teardown else _about_setups(states[s] for s in _far_setups(tasks, me))
    if by_setups not in (RUN, WAIT):
        return by_setups
    own = expected(me.trigger_rule, [_seen(tasks[up], states[up]) for up in me.upstream])
    if own == RUN and me.is_teardown and any(states[inner] not in FINISHED for inner in _scope(tasks, me)):
        return WAIT
    return by_setups if own == RUN else own


def _seen(task: TaskSpec, state: str) -> str:
    state = state if state in FINISHED else "waiting"
    return f"setup:{state}" if task.is_setup else state


def _about_setups(states: Iterable[str]) -> str:
    found = set(states)
    if found & {"failed", "upstream_failed"}:
        return UPSTREAM_FAILED
    if "skipped" in found:
        return SKIP
    return RUN if found <= {"success", REMOVED} else WAIT


def _above(tasks: dict[str, TaskSpec], task: TaskSpec) -> set[str]:
    found = set(task.upstream)
    for up in task.upstream:
        found |= _above(tasks, tasks[up])
    return found


def _far_setups(tasks: dict[str, TaskSpec], me: TaskSpec) -> set[str]:
    """Setups above `me`, not directly, that have no teardown or one that comes after `me`."""
    found = set()
    for name in _above(tasks, me) - set(me.upstream):
        teardowns = [task for task in tasks.values() if task.is_teardown and name in task.upstream]
        after_me = any(me.task_id in _above(tasks, teardown) for teardown in teardowns)
        if tasks[name].is_setup and (not teardowns or after_me):
            found.add(name)
    return found


def _scope(tasks: dict[str, TaskSpec], teardown: TaskSpec) -> set[str]:
    """Everything between the setups of `teardown` and itself."""
    setups = {up for up in teardown.upstream if tasks[up].is_setup}
    return {name for name in _above(tasks, teardown) if _above(tasks, tasks[name]) & setups}
