"""What a request to clear reaches in other DAGs of a `World`: the decision of the owner, with the rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import MARKED
from aiosched.core.requests.instance_changes import InstanceSelection
from aiosched.core.requests.requests import Clear
from aiosched.core.run.board import Run
from aiosched.db.statements.clearing import RunOfRequest
from aiosched.scheduler.requests.dependents import (
    Dependents,
    MarkedRuns,
    MarkerInstance,
    SelectedRun,
    follow,
    target_of,
)
from aiosched.testing.rows.rows import Rows


def reached_by(
    rows: Rows,
    dag_id: str,
    runs: Sequence[Run],
    selection: InstanceSelection,
    request: Clear,
    graphs_of: Callable[[str], Mapping[int, Graph]],
) -> Dependents:
    """What `follow` decides; `graphs_of`: the graphs of a DAG by version."""
    selected = [
        SelectedRun(
            dag_id,
            _as_row(run),
            selection.graphs[run.version_id],
            selection.of(run.version_id, rows.load_instances(run.key)),
        )
        for run in runs
    ]
    steps, answer = follow(selected, request), None
    while True:
        try:
            question = steps.send(answer)
        except StopIteration as done:
            found: Dependents = done.value
            return found
        answer = _read(rows, question, graphs_of)


def _read(rows: Rows, marker: MarkerInstance, graphs_of: Callable[[str], Mapping[int, Graph]]) -> MarkedRuns | None:
    note = rows.xcoms.get((marker.run.key, marker.instance.task, marker.instance.map_index, MARKED))
    if (target := target_of(marker, note)) is None:
        return None
    dag_id, task_id, date = target
    meant: Iterable[Run] = (r for r in rows.runs.values() if r.dag_id == dag_id and r.logical_date == date)
    return MarkedRuns(
        dag_id,
        task_id,
        [(_as_row(run), graphs_of(dag_id)[run.version_id], rows.load_instances(run.key)) for run in meant],
    )


def _as_row(run: Run) -> RunOfRequest:
    return RunOfRequest(run.key, run.run_id, run.version_id, run.logical_date, is_incomplete=False)
