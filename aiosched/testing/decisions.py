"""What a world remembers of what was decided, and the scripts by which attempts end."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from aiosched.core.board import Run
from aiosched.core.graph import Graph
from aiosched.core.messages import Attempt
from aiosched.db.deadlines import DeadlineRow
from aiosched.db.journal import InstanceChange
from aiosched.errors import NotFound, did_you_mean
from aiosched.scheduler.batch import Batch
from aiosched.scheduler.holdings import Holdings
from aiosched.testing.endings import Ending, Play, Scripted, succeeds
from aiosched.testing.rows import Rows

_SUCCEEDS: Final = succeeds()

Decision = tuple[datetime, str, str, str, str | None, int, int]
"""(instant, what, DAG id, run id, task id, map index, try number); of a run: None, -1, 0.

`what` is the new state of a task instance, or of a run "run created", "run queued" (again), "run running",
"run success", "run failed", "deadline missed".
"""


class DecisionLog:
    """What was stored, in order. Equal input and seed give equal entries."""

    def __init__(self, *, keep: bool) -> None:
        self.entries: list[Decision] = []
        self._keep = keep

    def created(self, runs: Iterable[Run], at: datetime) -> None:
        if self._keep:
            self.entries += [(at, "run created", run.dag_id, run.run_id, None, -1, 0) for run in runs]

    def committed(self, batch: Batch, rows: Rows, holdings: Holdings, at: datetime) -> None:
        if not self._keep:
            return
        runs, versions, add = rows.runs, holdings.versions, self.entries.append
        for change in batch.instances:
            run = runs[change.run_id]
            task_id = versions[run.version_id][1].task_ids[change.task_index]
            add((at, change.state or "none", run.dag_id, run.run_id, task_id, change.map_index, change.try_number))
        for ended in batch.runs:
            run = runs[ended.id]
            add((at, f"run {ended.state}", run.dag_id, run.run_id, None, -1, 0))

    def missed(self, deadlines: Iterable[DeadlineRow], rows: Rows, at: datetime) -> None:
        if self._keep:
            runs = [rows.runs[row.run_id] for row in deadlines]
            self.entries += [(at, "deadline missed", run.dag_id, run.run_id, None, -1, 0) for run in runs]

    def moved(self, row: InstanceChange, rows: Rows, holdings: Holdings, at: datetime) -> None:
        run = rows.runs[row.run_id]
        task_id = holdings.versions[run.version_id][1].task_ids[row.task_index]
        self.entries.append((at, row.state or "none", run.dag_id, run.run_id, task_id, row.map_index, row.try_number))


class Scripts:
    """Which script an attempt follows: the task's, else the DAG's, else everybody's."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._plays: dict[tuple[str, str], Scripted | Play] = {}

    def put(self, dag_id: str, task_id: str, play: Play | None, graph: Graph | None, words: dict[str, Any]) -> None:
        """Raises NotFound for a task that the DAG does not have, TypeError for a script that is none."""
        if play is not None and words:
            raise TypeError(f"script({dag_id!r}, {task_id!r}): give a function or words, not both.")
        if graph is not None and task_id != "*" and task_id not in graph.index:
            raise NotFound(f"DAG {dag_id!r} has no task {task_id!r}.{did_you_mean(task_id, graph.index)}")
        if isinstance(words.get("branch"), str):
            words = words | {"branch": (words["branch"],)}
        self._plays[dag_id, task_id] = play or Scripted(**words)

    def ending_of(self, attempt: Attempt, now: datetime) -> Ending:
        dag_id, task_id = attempt.run.dag_id, attempt.task_id
        for name in ((dag_id, task_id), (dag_id, "*"), ("*", task_id), ("*", "*")):
            if (play := self._plays.get(name)) is not None:
                if isinstance(play, Scripted):
                    return play.ending(attempt, failed_before=self._rows.failures[attempt.key[:3]], now=now)
                return play(attempt) or _SUCCEEDS
        return _SUCCEEDS
