"""The setups and teardowns that belong to task instances. Pure. Source: the semantics reference, section 28.1."""

from __future__ import annotations

from collections.abc import Iterable

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import Instance
from aiosched.core.run.upstream_counts import UpstreamCounts


def belonging(graph: Graph, upstream_counts: UpstreamCounts, instances: Iterable[Instance]) -> set[Instance]:
    """The setups and teardowns without which `instances` must not be rerun.

    For a task these are the setups whose scope it is in, with their teardowns; for a setup its teardowns; and in turn
    those of all these. In a mapped group they are those of the same index (of all indexes if groups are nested and
    their sizes are unknown).
    """
    found: set[Instance] = set()
    to_visit = list(instances)
    tasks: dict[int, set[int]] = {}
    while to_visit:
        instance = to_visit.pop()
        task = instance.task
        if task not in tasks:
            tasks[task] = _scopes_of(graph, task)
        for other in tasks[task]:
            added = [each for each in upstream_counts.counterparts(other, instance) if each not in found]
            found.update(added)
            to_visit.extend(added)
    return found


def _scopes_of(graph: Graph, task: int) -> set[int]:
    found = set(_teardowns(graph, task)) if graph.is_setup[task] else set()
    below = graph.descendants(task)
    for setup in graph.ancestors(task):
        if graph.is_setup[setup]:
            teardowns = _teardowns(graph, setup)
            if not below.isdisjoint(teardowns) or not (teardowns or graph.is_teardown[task]):
                found.update((setup, *teardowns))
    return found


def _teardowns(graph: Graph, setup: int) -> list[int]:
    return [down for down in graph.downstream[setup] if graph.is_teardown[down]]
