"""One run in memory with its task instances in any state, for the tables that are about one run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.values.messages import Outcome, Report, RunInfo
from aiosched.core.values.states import RUN_FINISHED, RunState, TaskState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def task(task_id: str, *upstream: str, **fields: Any) -> TaskSpec:
    return TaskSpec(task_id=task_id, operator="X", upstream=upstream, **fields)


def board_of(
    *tasks: TaskSpec,
    states: Mapping[str, TaskState | str] | None = None,
    run_state: RunState = RunState.RUNNING,
    tries: int = 1,
    **dag: Any,
) -> Board:
    """A run of these tasks since NOW; `states` of those that are not None yet, which have had `tries` tries."""
    graph, given = Graph(DagSpec(dag_id="d", tasks=tasks, **dag)), dict(states or {})
    rows = []
    for index, one in enumerate(tasks):
        state = TaskState(given.get(one.task_id, TaskState.NONE))
        rows.append(
            Instance(index, state=state, try_number=tries if one.task_id in given else 0, max_tries=one.retries)
        )
    over = NOW if run_state in RUN_FINISHED else None
    run = Run(1, "d", "r", 1, "manual", run_state, NOW, start_date=NOW, end_date=over, stored_state=run_state)
    return Board(graph, run, rows, info=RunInfo(key=1, dag_id="d", run_id="r", run_type="manual", run_after=NOW))


def of(board: Board, name: str) -> Instance:
    found = board.find(board.graph.index[name])
    assert found is not None
    return found


def report(board: Board, name: str, outcome: Outcome, *, at: datetime = NOW, **fields: Any) -> bool:
    """Report how the current try of a task ended; whether the board took it."""
    return board.apply(Report(key=board.key(of(board, name)), outcome=outcome, at=at, **fields), at)


def begin(board: Board, now: datetime = NOW) -> Board:
    """The run goes on: everything is looked at and decided."""
    board.start(now)
    board.evaluate(now)
    return board


def states(board: Board) -> dict[str, str]:
    return {board.graph.task_ids[i.task]: i.state.value for i in board}
