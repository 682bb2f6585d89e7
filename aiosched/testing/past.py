"""What a `World` remembers of earlier tasks and runs: in place of the statements of db/recollections.py.

The decisions on it are the scheduler's (core/past.py, scheduler/followers.py).
"""

from __future__ import annotations

import json

from aiosched.core.board import SKIPPED_DOWNSTREAM, Board, Run
from aiosched.core.past import Past, PreviousRun, StoredRun, previous_types
from aiosched.core.states import TaskState
from aiosched.scheduler.holdings import Holdings
from aiosched.scheduler.recollections import Recollection
from aiosched.testing.rows import Rows


def recollection_of(rows: Rows, run: int) -> Recollection:
    """The lengths of a run's values, and the decisions of its branches."""
    lengths: dict[tuple[int, int], int | None] = {}
    decisions: dict[tuple[int, int], list[str]] = {}
    for task, map_index in rows.instances[run]:
        if (value := rows.xcoms.get((run, task, map_index, "return_value"))) is not None:
            lengths[task, map_index] = length_of(json.loads(value))
        if (skipped := rows.xcoms.get((run, task, map_index, SKIPPED_DOWNSTREAM))) is not None:
            decisions[task, map_index] = json.loads(skipped)
    return Recollection(lengths, decisions)


def length_of(value: object) -> int | None:
    """How many instances a task has that is mapped over `value`; None for one that cannot be mapped over."""
    return len(value) if isinstance(value, (list, dict)) else None


def look_back(holdings: Holdings, rows: Rows) -> None:
    """Let every board that looks back, and does not know its past yet, know it: as scheduler/past.py."""
    dag_ids, holdings.to_look_back = holdings.to_look_back, {}
    held = {board.run.key: board for board in (*holdings.ended, *holdings.boards.values())}
    for dag_id in dag_ids:
        dag = holdings.dags.get(dag_id)
        for board in list(dag.running.values()) if dag is not None else ():
            if board.graph.lookback is None or board.past is not None:
                continue
            opens = board.run.backfill_id is not None and board.run.backfill_order == 1
            before = _run_before(rows, board)
            if before is None:
                holdings.followers.add(board, Past(opens=opens), None)
            else:
                previous: PreviousRun = held.get(before.key) or StoredRun(_states(rows, before))
                past = Past(previous, before.logical_date, _seen_before(rows, board, previous), opens)
                holdings.followers.add(board, past, before.key)
            holdings.to_evaluate[board] = None


def _run_before(rows: Rows, board: Board) -> Run | None:
    types = previous_types(board.graph.spec.catchup)
    return next((run for run in _earlier(rows, board) if run.run_type in types), None)


def _earlier(rows: Rows, board: Board) -> list[Run]:
    """The runs of the DAG with an earlier logical date, the latest first."""
    date = board.run.logical_date
    if date is None:
        return []
    runs = (rows.runs[key] for key in rows.of_dag[board.run.dag_id])
    dated = [(run.logical_date, run) for run in runs if run.logical_date is not None and run.logical_date < date]
    return [run for _, run in sorted(dated, key=lambda entry: entry[0], reverse=True)]


def _states(rows: Rows, run: Run) -> list[tuple[str, TaskState]]:
    tasks = rows.versions[run.version_id].spec.tasks
    return [(tasks[row.task_index].task_id, TaskState.of(row.state)) for row in rows.instances[run.key].values()]


def _seen_before(rows: Rows, board: Board, previous: PreviousRun) -> frozenset[str]:
    """The tasks that the run before does not have, and an earlier one has."""
    lookback = board.graph.lookback
    task_ids = [] if lookback is None else [board.graph.task_ids[task] for task in lookback.tasks]
    missing = {task_id for task_id in task_ids if previous.all_succeeded(task_id) is None}
    if not missing:
        return frozenset()
    seen = {task_id for run in _earlier(rows, board) for task_id, _ in _states(rows, run)}
    return frozenset(missing & seen)
