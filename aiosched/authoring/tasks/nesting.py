"""Which instances of a task are read by an instance of another task: those in the same instance of a mapped group.

A task in nested mapped groups has one instance for each combination of their indexes; the index of the
innermost group varies fastest. Source: the semantics reference, section 26.7.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Dag, Group, Task
    from aiosched.authoring.runtime.context import Context


def mapped_groups(task: Task) -> list[Group]:
    """The mapped groups around `task`, outermost first."""
    return groups_around(task.task_group) if task.task_group is not None else []


def groups_around(group: Group) -> list[Group]:
    """The mapped groups around `group`, including itself, outermost first."""
    found = []
    inner: Group | None = group
    while inner is not None:
        if inner.expand_input is not None:
            found.append(inner)
        inner = inner.parent_group
    return found[::-1]


def is_mapped(task: Task) -> bool:
    """Whether the task is mapped, or is in a mapped group."""
    return task.expand_input is not None or bool(mapped_groups(task))


def is_mapped_over(task: Task) -> bool:
    """Whether the number of instances of another task, or of a group, depends on what `task` returns."""
    return task.dag is not None and task.task_id in _producers(task.dag)


def _producers(dag: Dag) -> frozenset[str]:
    """The tasks over whose return values others are mapped. Computed again while the DAG grows."""
    size = (len(dag.task_dict), len(dag.task_groups))
    known = _known_producers.get(dag)
    if known is None or known[0] != size:
        mapped: list[Task | Group] = [*dag.task_dict.values(), *dag.task_groups.values()]
        found = (one.expand_input.producers for one in mapped if one.expand_input is not None)
        known = _known_producers[dag] = (size, frozenset().union(*found))
    return known[1]


_known_producers: Final[WeakKeyDictionary[Dag, tuple[tuple[int, int], frozenset[str]]]] = WeakKeyDictionary()


class Returning(Protocol):
    """The attributes of a task that concern its return value."""

    @property
    def task_id(self) -> str: ...
    @property
    def do_xcom_push(self) -> bool: ...


def map_length(value: Any, task: Returning, map_index: int, limit: int) -> int | None:
    """The number of values for tasks that are mapped over `value`, which an instance of `task` returned.

    For an instance of a mapped task it is 1, or None when the value is not stored: others are mapped over the list
    of all instances' values. Raises AioschedError, which fails the task, when `value` cannot be mapped over.
    Source: the semantics reference, sections 26.2 and 26.3.
    """
    if map_index >= 0:
        return 1 if value is not None and task.do_xcom_push else None
    who = f"Other tasks are mapped over what task {task.task_id!r} returns"
    if not task.do_xcom_push:
        raise AioschedError(f"{who}, but it stores nothing. Leave out do_xcom_push=False.")
    if not isinstance(value, list | tuple | Mapping):
        raise AioschedError(f"{who}, and it returned {value!r:.80}. Return a list or a dict, perhaps an empty one.")
    if len(value) > limit:
        raise AioschedError(
            f"{who}, and it returned {len(value)} values; allowed are {limit}. Return fewer, for instance in "
            "batches, or raise core.max_map_length."
        )
    return len(value)


def split_index(index: int, lengths: Sequence[int]) -> list[int]:
    """The position in each of several inputs for a map index. The last input varies fastest."""
    rest, positions = index, []
    for length in reversed(lengths):
        if length == 0:
            rest = 1
            break
        rest, position = divmod(rest, length)
        positions.append(position)
    if rest or index < 0:
        raise AioschedError(
            f"Map index {index} is out of range: the inputs now have {' x '.join(map(str, lengths))} values. "
            "They changed since the run was expanded; clear the task that returns them, with its downstream tasks."
        )
    return positions[::-1]


def reads_own_index(source: Task, reader: Task) -> bool:
    """Whether instance i of `reader` reads only instance i of `source`."""
    groups = mapped_groups(reader)
    return bool(groups) and groups == mapped_groups(source)


def indexes_read(source: Task, context: Context) -> range | None:
    """The map indexes of `source` that the running task reads; None for all of them.

    In a common mapped group these are the indexes of the same instance of the group.
    """
    reader: Task = context["task"]
    theirs, ours = mapped_groups(source), mapped_groups(reader)
    common = sum(1 for one, other in zip(theirs, ours, strict=False) if one is other)
    if not common:
        return None
    below_ours, below_theirs = _count(ours[common:], context), _count(theirs[common:], context)
    index = context["ti"].map_index // (below_ours or 1)
    return range(index * below_theirs, (index + 1) * below_theirs)


def group_index(group: Group, context: Context) -> int:
    """The instance of the group that the running task belongs to."""
    groups = mapped_groups(context["task"])
    index: int = context["ti"].map_index
    if len(groups) == 1:
        return index
    return split_index(index, [_length(one, context) for one in groups])[groups.index(group)]


def _count(groups: Sequence[Group], context: Context) -> int:
    return math.prod(_length(group, context) for group in groups)


def _length(group: Group, context: Context) -> int:
    assert group.expand_input is not None
    return group.expand_input.length(context)
