"""A board in the middle of a run, moved by hand: small builders for its tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.new_instances import new_instances
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.run.board import Board, Instance
from aiosched.core.values.messages import Outcome, Report
from aiosched.core.values.states import TaskEvent, TaskState
from tests.core.board_player import NOW, Ending, board_of, new_run, report_of

SUCCESS, FAILED, SKIPPED, RESCHEDULED, LOST = (
    Outcome.SUCCESS,
    Outcome.FAILED,
    Outcome.SKIPPED,
    Outcome.RESCHEDULED,
    Outcome.LOST,
)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def started(*tasks: TaskSpec, running: Sequence[str] = (), fail_fast: bool = False) -> Board:
    """A board whose run has just begun; `running` tasks have been handed out, in that order, and started."""
    compiled = Graph(DagSpec(dag_id="sales", tasks=tasks, fail_fast=fail_fast))
    board = board_of(compiled, new_run(), new_instances(compiled, range(len(compiled))))
    board.start(NOW)
    board.evaluate(NOW)
    for name in running:
        run(board, name)
    return board


def of(board: Board, name: str) -> Instance:
    found = board.find(board.graph.index[name])
    assert found is not None
    return found


def grant(board: Board, name: str) -> Instance:
    instance = of(board, name)
    board.effects.slots.ready.remove(instance)
    board.grant(instance, NOW, incarnation=7)
    return instance


def run(board: Board, name: str) -> Instance:
    instance = grant(board, name)
    assert board.apply(Report(key=board.key(instance), outcome=Outcome.STARTED, at=NOW), NOW)
    return instance


def end(board: Board, name: str, ending: Ending = SUCCESS, **fields: Any) -> bool:
    """Report how the current attempt of a task ended, and decide what follows."""
    applied = board.apply(report_of(board.key(of(board, name)), ending, NOW, **fields), NOW)
    board.evaluate(NOW)
    return applied


def shut_down(board: Board, name: str) -> Instance:
    """Ask the attempt of a task to stop from outside; one that has no attempt stays as it is (2.3)."""
    instance = of(board, name)
    if instance.state in (TaskState.QUEUED, TaskState.RUNNING):
        board.effects.cancelled[board.key(instance)] = instance.queued_by
        instance.reason = "stopped on request"
        board._set(instance, TaskEvent.STOP_REQUESTED)
    return instance


def states(board: Board) -> dict[str, str]:
    return {board.graph.task_ids[i.task]: i.state.value for i in board}
