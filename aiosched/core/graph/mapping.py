"""How many instances mapped tasks have, and which of them belong together.

Lives here: the mapped tasks and groups of a DAG version (`Mappings`, compiled once), and their lengths as far as a run
knows them (`Lengths`). Pure; the board creates the instances. Source: the semantics reference, sections 26.2, 26.6 and
26.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from aiosched.core.graph.instances import Instance
from aiosched.core.graph.spec import Concatenated, DagSpec, LiteralLength, MapInput, MappingSpec, TaskOutput
from aiosched.core.graph.trigger_rules import TriggerRule, TriggerVerdict
from aiosched.core.values.states import FAILURES, TaskState
from aiosched.core.values.typed_json import json_length

Known = Callable[[str], int | None]  # the length of a task's return value, by task id; None while it is unknown

# Before they are expanded, tasks in a mapped group with these rules depend on all upstream instances.
EARLY_RULES: Final = frozenset(
    {
        TriggerRule.ONE_SUCCESS,
        TriggerRule.ONE_FAILED,
        TriggerRule.ONE_DONE,
        TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
    }
)


def length_of(mapped: MapInput, known: Known) -> int | None:
    """The length of one input; None while it is unknown."""
    if isinstance(mapped, LiteralLength):
        return mapped.length
    if isinstance(mapped, TaskOutput):
        return known(mapped.task_id)
    lengths = _all_known(length_of(each, known) for each in mapped.inputs)
    if lengths is None:
        return None
    if isinstance(mapped, Concatenated):
        return sum(lengths)
    return max(lengths, default=0) if mapped.longest else min(lengths, default=0)


def size_of(mapping: MappingSpec, known: Known) -> int | None:
    """How many instances `mapping` creates: one for each combination of its inputs. None while that is unknown."""
    lengths = _all_known(length_of(each, known) for each in mapping.inputs)
    return None if lengths is None else math.prod(lengths)


def literal_size(mappings: Iterable[MappingSpec]) -> int | None:
    """How many instances they create together, if that follows from the DAG file."""
    sizes = _all_known(size_of(mapping, lambda _: None) for mapping in mappings)
    return None if sizes is None else math.prod(sizes)


def check_producers(states: Iterable[TaskState]) -> TriggerVerdict:
    """The verdict of the finished, unexpanded instances of the producers, whatever the trigger rule (26.6)."""
    found = set(states)
    if found & FAILURES:
        return TriggerVerdict.UPSTREAM_FAILED
    if TaskState.SKIPPED in found:
        return TriggerVerdict.SKIPPED
    return TriggerVerdict.WAIT if TaskState.REMOVED in found else TriggerVerdict.RUN


def _all_known(lengths: Iterable[int | None]) -> list[int] | None:
    found: list[int] = []
    for length in lengths:
        if length is None:
            return None
        found.append(length)
    return found


class Mappings:
    """The mapped tasks of a DAG version; tuples and dicts are by task index.

    units      for each task its multipliers: the mapped groups around it, outermost first, then itself
    groups     for each task the ids of these groups
    producers  for each task the tasks whose return values it, or a group around it, maps over
    readers    for each producer the tasks that it multiplies
    """

    __slots__ = ("_shared", "groups", "producers", "readers", "units")

    def __init__(self, spec: DagSpec, index: Mapping[str, int]) -> None:
        groups = {group.group_id: group for group in spec.groups}
        self.units: list[tuple[MappingSpec, ...]] = []
        self.groups: list[tuple[str, ...]] = []
        self.producers: list[tuple[int, ...]] = []
        self.readers: dict[int, list[int]] = {}
        self._shared: dict[tuple[int, int], int] = {}
        for position, task in enumerate(spec.tasks):
            around: list[str] = []
            group_id = task.group_id
            while group_id is not None:
                if groups[group_id].mapping is not None:
                    around.insert(0, group_id)
                group_id = groups[group_id].parent_id
            units = [mapping for each in around if (mapping := groups[each].mapping) is not None]
            if task.mapping is not None:
                units.append(task.mapping)
            read = {index[name] for unit in units for name in _outputs(unit.inputs)}
            self.units.append(tuple(units))
            self.groups.append(tuple(around))
            self.producers.append(tuple(sorted(read)))
            for producer in read:
                self.readers.setdefault(producer, []).append(position)

    def shared(self, one: int, other: int) -> int:
        """How many mapped groups two tasks have in common."""
        count = self._shared.get((one, other))
        if count is None:
            pairs = zip(self.groups[one], self.groups[other], strict=False)
            count = self._shared[one, other] = sum(mine == theirs for mine, theirs in pairs)
        return count


def compile_mappings(spec: DagSpec, index: Mapping[str, int]) -> Mappings | None:
    """The mappings of `spec`; None for a DAG without any."""
    if any(task.mapping is not None for task in spec.tasks) or any(group.mapping is not None for group in spec.groups):
        return Mappings(spec, index)
    return None


def _outputs(inputs: Iterable[MapInput]) -> Iterator[str]:
    for each in inputs:
        if isinstance(each, TaskOutput):
            yield each.task_id
        elif not isinstance(each, LiteralLength):
            yield from _outputs(each.inputs)


class Lengths:
    """What one run knows about the return values that its mapped tasks are mapped over.

    For an unmapped task the length of its value; for a mapped task which instances returned a value, which counts once
    all of them are finished. `unfinished` are the numbers of unfinished instances by task index.
    """

    __slots__ = ("_mappings", "_task_ids", "_unfinished", "_values")

    def __init__(self, mappings: Mappings, task_ids: Mapping[str, int], unfinished: Sequence[int]) -> None:
        self._mappings = mappings
        self._task_ids = task_ids
        self._unfinished = unfinished
        self._values: dict[int, dict[int, int]] = {}

    def learn(self, task: int, map_index: int, length: int) -> None:
        """An instance returned a value; its length matters if the task is not mapped."""
        if task in self._mappings.readers:
            self._values.setdefault(task, {})[map_index] = length

    def learn_value(self, instance: Instance, length: int | None, value: str) -> None:
        """An instance returned `value` (JSON). `length` is its length; None: determined from the value."""
        if instance.task in self._mappings.readers:
            length = json_length(value) if length is None else length
            if length is not None or instance.map_index >= 0:
                self.learn(instance.task, instance.map_index, length or 0)

    def forget(self, task: int, map_index: int) -> None:
        """The value of an instance was deleted."""
        values = self._values.get(task)
        if values is not None:
            values.pop(map_index, None)

    def known(self, task_id: str) -> int | None:
        """The length of the task's return value; None while it is unknown."""
        task = self._task_ids[task_id]
        values = self._values.get(task, {})
        if not self._mappings.units[task]:
            return values.get(-1)
        return None if self._unfinished[task] else len(values)

    def are_new(self, task: int) -> bool:
        """Whether the values that the task is mapped over are current: none is left over from before a rerun."""
        return not any(self._unfinished[producer] for producer in self._mappings.producers[task])

    def sizes(self, task: int) -> tuple[int, ...] | None:
        """The numbers by which the task's units multiply it; None while one of them is unknown."""
        found = _all_known(self.found(task))
        return None if found is None else tuple(found)

    def found(self, task: int) -> tuple[int | None, ...]:
        """The numbers by which the task's units multiply it, as far as they are known."""
        return tuple(size_of(unit, self.known) for unit in self._mappings.units[task])
