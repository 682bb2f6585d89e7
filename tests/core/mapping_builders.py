"""A board with mapped tasks, moved by hand. Instances are named `task` (unexpanded) or `task[index]`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.new_instances import new_instances
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.run.board import Board, Instance
from aiosched.core.values.messages import Outcome, XComValue
from aiosched.core.values.states import RunState, TaskState
from tests.core.board_player import NOW, Ending, board_of, new_run, report_of


def begun(*tasks: TaskSpec) -> Board:
    """A board whose run has just begun."""
    return begin(Graph(DagSpec(dag_id="sales", tasks=tasks)))


def begin(graph: Graph) -> Board:
    board = board_of(graph, new_run(), new_instances(graph, range(len(graph))))
    board.start(NOW)
    board.evaluate(NOW)
    return board


def at(board: Board, name: str) -> Instance:
    """`m[1]`: the instance with that map index; `m`: the unexpanded or unmapped one."""
    task_id, index = re.fullmatch(r"([^\[]+)(?:\[(\d+)\])?", name).groups()  # type: ignore[union-attr]
    found = board.find(board.graph.index[task_id], -1 if index is None else int(index))
    assert found is not None, f"no {name} in {seen(board)}"
    return found


def seen(board: Board) -> dict[str, str]:
    """All states by the names of the instances."""
    names = board.graph.task_ids
    return {names[i.task] + (f"[{i.map_index}]" if i.map_index >= 0 else ""): i.state.value for i in board}


def finish(board: Board, *named: str, ending: Ending = Outcome.SUCCESS, value: int | str | None = None) -> None:
    """These instances, which are ready, get a slot and end so; `value` is what they return (a length: a list)."""
    for name in named:
        instance = at(board, name)
        if instance.state is TaskState.SCHEDULED:
            if instance in board.effects.slots.ready:
                board.effects.slots.ready.remove(instance)
            board.grant(instance, NOW, 1)
        assert instance.state in (TaskState.QUEUED, TaskState.RUNNING), seen(board)
        report = report_of(board.key(instance), ending, NOW, **_returned(value))
        assert board.apply(report, NOW)
    board.evaluate(NOW)


def _returned(value: int | str | None) -> dict[str, Any]:
    if value is None:
        return {}
    text = str(list(range(value))) if isinstance(value, int) else value
    return {"xcoms": (XComValue("return_value", text),)}


def clear(board: Board, *named: str) -> None:
    """Clear instances, and let a run that was over go on."""
    board.clear([at(board, name) for name in named], NOW)
    go_on(board)


def go_on(board: Board) -> None:
    if board.run.state is RunState.QUEUED:
        board.start(NOW)
    board.evaluate(NOW)


def reread(board: Board, lengths: Sequence[tuple[str, int]] = ()) -> Board:
    """The board as another scheduler reads it from its rows; `lengths` are those of stored values."""
    again = board_of(board.graph, board.run, list(board))
    for name, length in lengths:
        instance = at(again, name)
        again.learn_length(instance.task, instance.map_index, length)
    again.resume()
    again.evaluate(NOW)
    return again
