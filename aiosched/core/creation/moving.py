"""How the task instances of a run change when it moves to another DAG version. Pure.

Does not live here: moving the rows (scheduler/runs/stored_runs.py). Source: the semantics reference, section 10.2.
"""

from __future__ import annotations

from typing import NamedTuple

from aiosched.core.creation.run_creation import as_planned, tasks_of_run
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import Instance, Run
from aiosched.core.graph.new_instances import new_instances
from aiosched.core.graph.spec import MappingSpec


class VersionMove(NamedTuple):
    """How task indexes change when runs move to another version: moved, gone and kept tasks."""

    moved: dict[int, int]  # old index to new
    gone: list[int]  # old indexes
    kept: frozenset[int]  # new indexes, moved or not


def moving(old: Graph, new: Graph) -> VersionMove:
    """What moving a run from `old` to `new` does to its tasks."""
    places = _places(old, new)
    return VersionMove(
        {task: place for task, place in enumerate(places) if place is not None and place != task},
        [task for task, place in enumerate(places) if place is None],
        frozenset(place for place in places if place is not None),
    )


def added_instances(new: Graph, run: Run, move: VersionMove) -> list[Instance]:
    """The task instances of `new` that a run gets when it moves."""
    tasks = tasks_of_run(new.spec, as_planned(run))
    return new_instances(new, [task for task in tasks if task not in move.kept])


def _places(old: Graph, new: Graph) -> list[int | None]:
    """For each task of `old` its index in `new`; None if it is gone or its mapping has changed."""
    return [
        place if (place := new.index.get(task_id)) is not None and _units(new, place) == _units(old, task) else None
        for task, task_id in enumerate(old.task_ids)
    ]


def _units(graph: Graph, task: int) -> tuple[MappingSpec, ...]:
    """The mappings that give the task its map indexes: its own, and those of the groups around it."""
    return () if graph.mappings is None else graph.mappings.units[task]
