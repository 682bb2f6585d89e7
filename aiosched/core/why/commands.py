"""The commands that an explanation suggests: each the smallest change that helps, and ready to be pasted into a shell.

Source: docs/why.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiosched.core.graph.instances import is_undone
from aiosched.core.run.board import Board, Instance
from aiosched.core.values.commands import command_line
from aiosched.core.values.states import FAILURES, TaskState

_MOST_NAMED: Final = 5  # tasks that a command names
# Reasons: what was unfinished is undone.
_ENDED_EARLY: Final = frozenset({"cancelled", "marked", "timed_out"})


def show_log(board: Board, instance: Instance) -> str:
    """Shows the log of an instance."""
    return command_line("tasks logs", *_place(board, instance), options=_index(instance))


def explain(board: Board, instance: Instance) -> str:
    """Explains an instance."""
    return command_line("why", *_place(board, instance), options=_index(instance))


def clear_failed(board: Board, instances: Sequence[Instance]) -> str:
    """Clears failed instances, of one task or of several, and what failed downstream because of them."""
    return _clear(board, instances, "--only-failed", "--downstream")


def clear_onto_newest(board: Board) -> str:
    """Clears what failed in a run, and moves the run to the newest version of its DAG."""
    return _clear_tasks(board, "--only-failed", "--newest-version")


def clear_with_downstream(board: Board, instance: Instance) -> str:
    """Clears an instance that did not fail, and all that depends on it."""
    return _clear(board, [instance], "--downstream")


def rerun(board: Board) -> str:
    """Lets a run that has ended without success go on: clears what failed, or what it did not come to."""
    run = board.run
    whole = ("runs clear", run.dag_id, run.run_id)
    if any(is_undone(each) for each in board) or (
        run.reason not in _ENDED_EARLY and any(each.state in FAILURES for each in board)
    ):
        return command_line(*whole, options=("--only-failed",))
    left = (each for each in board if each.state not in (TaskState.SUCCESS, TaskState.REMOVED))
    tasks = list(dict.fromkeys(board.graph.task_ids[each.task] for each in left))
    if not 0 < len(tasks) <= _MOST_NAMED:
        return command_line(*whole)
    return _clear_tasks(board, *_named(tasks))


def _clear(board: Board, instances: Sequence[Instance], *options: str) -> str:
    tasks = list(dict.fromkeys(board.graph.task_ids[each.task] for each in instances))
    index = _index(instances[0]) if len(instances) == 1 else ()
    return _clear_tasks(board, *_named(tasks), *index, *options)


def _clear_tasks(board: Board, *options: str) -> str:
    return command_line("tasks clear", board.run.dag_id, options=("--run", board.run.run_id, *options))


def _place(board: Board, instance: Instance) -> tuple[str, ...]:
    return board.run.dag_id, board.run.run_id, board.graph.task_ids[instance.task]


def _index(instance: Instance) -> tuple[str, ...]:
    return () if instance.map_index < 0 else ("--map-index", str(instance.map_index))


def _named(task_ids: Sequence[str]) -> list[str]:
    return [word for task_id in task_ids for word in ("--task-id", task_id)]
