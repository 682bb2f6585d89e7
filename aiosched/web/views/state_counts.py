"""The numbers of instances in each state, for the tasks and groups of runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from aiosched.core.graph.spec import DagSpec
from aiosched.db.queries import run_queries
from aiosched.db.queries.queries import RunRow, shown_state, shown_task
from aiosched.db.server.engine import Database

Counts = dict[str, Counter[str]]  # by task id or group id: the number in each state


async def read_counts(db: Database, runs: Sequence[RunRow]) -> dict[int, Counts]:
    """The states of all tasks of these runs, by the runs' keys."""
    names = await run_queries.read_task_ids(db, {run.version_key for run in runs})
    version = {run.key: run.version_key for run in runs}
    found: dict[int, Counts] = {run.key: defaultdict(Counter) for run in runs}
    for cell in await run_queries.read_cells(db, list(version)):
        task_id = shown_task(names[version[cell.run]], cell.task_index)
        found[cell.run][task_id][shown_state(cell.state)] += cell.number
    return found


async def read_mapped_counts(db: Database, run: RunRow) -> Counts:
    """The states of the instances of each mapped task of a run."""
    found: Counts = defaultdict(Counter)
    if cells := await run_queries.read_mapped_cells(db, run.key):
        names = (await run_queries.read_task_ids(db, {run.version_key}))[run.version_key]
        for cell in cells:
            found[shown_task(names, cell.task_index)][shown_state(cell.state)] += cell.number
    return found


def groups_around(spec: DagSpec) -> dict[str, list[str]]:
    """The groups of each task, the innermost first."""
    parents = {group.group_id: group.parent_id for group in spec.groups}
    found: dict[str, list[str]] = {}
    for task in spec.tasks:
        found[task.task_id] = around = []
        group = task.group_id
        while group is not None:
            around.append(group)
            group = parents.get(group)
    return found


def with_groups(counts: Mapping[str, Counter[str]], around: Mapping[str, Sequence[str]]) -> Counts:
    """The counts of tasks, and for each group the sum of its tasks."""
    found: Counts = defaultdict(Counter, counts)
    for task_id, states in counts.items():
        for group in around.get(task_id, ()):
            found[group].update(states)
    return found
