"""The task instances of a new run, by its graph. Source: the semantics reference, section 10.1."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import Instance
from aiosched.core.graph.mapping import literal_size
from aiosched.core.graph.spec import MappingSpec


def new_instances(graph: Graph, tasks: Iterable[int]) -> list[Instance]:
    """The rows of a new run, for the tasks that take part in it.

    One for each task; for a task that is mapped over literal values (or is in a group that is) one for each value, with
    map indexes from 0 on. Source: the semantics reference, section 10.1.
    """
    return [Instance(task, map_index, max_tries=tries) for task, map_index, tries in new_places(graph, tasks)]


def new_places(graph: Graph, tasks: Iterable[int]) -> list[tuple[int, int, int]]:
    """For each of the `new_instances` its task, map index and `max_tries`."""
    specs, mappings = graph.tasks, graph.mappings
    if mappings is None:
        return [(task, -1, specs[task].retries) for task in tasks]
    return [
        (task, map_index, specs[task].retries) for task in tasks for map_index in _map_indexes(mappings.units[task])
    ]


def count_instances(graph: Graph, tasks: Collection[int]) -> int:
    """The number of `new_instances`."""
    mappings = graph.mappings
    return len(tasks) if mappings is None else sum(len(_map_indexes(mappings.units[task])) for task in tasks)


def _map_indexes(units: Sequence[MappingSpec]) -> Sequence[int]:
    size = literal_size(units) if units else None
    return range(size) if size else (-1,)
