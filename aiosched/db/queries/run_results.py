"""How the tasks of a run ended, for the application that asked for it. Read only, no SQLAlchemy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiosched.core.values.messages import XComPairs, XComRef
from aiosched.core.values.states import TaskState
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.db.statements import runs
from aiosched.errors import NotFound, Refused, did_you_mean


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A task instance, or one of a mapped task (`map_index` ≥ 0). `reason`: why it failed or waits. Aware instants."""

    task_id: str
    map_index: int
    state: TaskState
    try_number: int
    reason: str | None
    start_date: datetime | None
    end_date: datetime | None

    def __str__(self) -> str:
        name = self.task_id if self.map_index < 0 else f"{self.task_id}[{self.map_index}]"
        return f"{name}: {self.reason or self.state}"


# Index: primary keys.
TASKS: Final = """
    SELECT task_id, map_index, state, try_number, reason, start_date, end_date
      FROM task_instance_named WHERE run_key = $1 ORDER BY task_index, map_index
"""


async def read_tasks(conn: Queryable, run: int) -> list[TaskResult]:
    """The task instances of the run with this key, in the order of the DAG's tasks; [] without such a run."""
    return [TaskResult(**{**row, "state": TaskState.of(row["state"])}) for row in await conn.fetch(TASKS, run)]


@dataclass(frozen=True, slots=True)
class RunPairs:
    """What the tasks of a run pushed under one key, by task id. `last`: the tasks that no other one follows."""

    pairs: Mapping[str, XComPairs]
    last: Sequence[str]


async def read_pairs(
    conn: DatabaseConnection, run: int, task_id: str | None = None, key: str = "return_value"
) -> RunPairs:
    """The values of a task (None: of all) of the run with this key.

    Raises NotFound for a task that the run does not have, Refused if the values are too many for one answer.
    """
    version = await runs.version_of_run(conn, run)
    if version is None:
        raise NotFound("The run is gone.")
    versions, unreadable = await runs.load_versions(conn, [version])
    if unreadable:
        raise Refused(str(unreadable[0]))
    spec = versions[version].spec
    known = {task.task_id: index for index, task in enumerate(spec.tasks)}
    if task_id is not None and task_id not in known:
        raise NotFound(f"DAG {spec.dag_id!r} has no task {task_id!r}.{did_you_mean(task_id, known)}")
    wanted = list(known) if task_id is None else [task_id]
    found = await runs.get_xcoms(conn, run, [(known[each], XComRef(each, key)) for each in wanted])
    pairs = {each: of_task for each, of_task in zip(wanted, found, strict=True) if of_task is not None}
    if len(pairs) < len(wanted):
        raise Refused(
            f"The results of the run have more than {runs.MOST_PULLED // 2**20} MiB: ask for one task's at a time."
        )
    followed = {upstream for task in spec.tasks for upstream in task.upstream}
    return RunPairs(pairs, [each for each in known if each not in followed])
