"""Which instances of mapped task groups belong together, worked out from the plan alone: part of the checker.

Source: the semantics reference, section 26.7.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from aiosched.core.graph.spec import DagSpec, GroupSpec, LiteralLength, MapInput, MappingSpec, TaskSpec


def groups_around(spec: DagSpec, task: TaskSpec) -> list[GroupSpec]:
    """The mapped groups that a task is in, outermost first."""
    groups = {group.group_id: group for group in spec.groups}
    found: list[GroupSpec] = []
    group_id = task.group_id
    while group_id is not None:
        if groups[group_id].mapping is not None:
            found.insert(0, groups[group_id])
        group_id = groups[group_id].parent_id
    return found


def units(spec: DagSpec, task: TaskSpec) -> list[tuple[MapInput, ...]]:
    """What multiplies a task: what the groups around it are mapped over, then what it is itself."""
    mappings: list[MappingSpec | None] = [*(group.mapping for group in groups_around(spec, task)), task.mapping]
    return [mapping.inputs for mapping in mappings if mapping is not None]


def counterparts(spec: DagSpec, task: TaskSpec, index: int, up: TaskSpec, there: Collection[int]) -> list[int]:
    """The map indexes of an upstream task, of those that are `there`, on which one instance of a task depends."""
    depth = sum(one is other for one, other in zip(groups_around(spec, task), groups_around(spec, up), strict=False))
    if not depth or index < 0:
        return list(there)
    place = index // _below(spec, task, depth)
    return [other for other in there if other < 0 or other // _below(spec, up, depth) == place]


def _below(spec: DagSpec, task: TaskSpec, depth: int) -> int:
    """How many instances a task has for an index of its `depth` outermost groups: inside, lengths are fixed."""
    inputs = [each for unit in units(spec, task)[depth:] for each in unit]
    return math.prod(each.length for each in inputs if isinstance(each, LiteralLength))
