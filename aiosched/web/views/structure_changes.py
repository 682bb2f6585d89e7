"""What differs in the structure of two versions of a DAG, in words: tasks, edges, schedule, params, limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from aiosched.core.graph.spec import DagSpec, GroupSpec, ParamSpec, TaskSpec

MOST: Final = 200  # changes that are told
_LONGEST: Final = 80  # characters of a value
_APART: Final = frozenset({"tasks", "groups", "params", "param_order", "timetable", "dag_id", "defaults_of"})
_WORDS: Final = {
    "doc": "documentation", "doc_md": "documentation", "is_async": "async", "template_fields": "arguments",
    "mapping": "mapped over", "max_active_runs": "most active runs", "max_active_tasks": "most active tasks",
    "execution_timeout": "timeout (s)", "retry_delay": "retry delay (s)", "dagrun_timeout": "timeout of a run (s)",
}  # fmt: skip


class StructureChange(NamedTuple):
    """One difference: of the DAG or of what else, and what is different."""

    about: str
    words: str


def structure_changes(one: DagSpec, two: DagSpec) -> list[StructureChange]:
    """What changed from `one` to `two`, at most `MOST` changes and a last one that says how many are left out."""
    found = [*_of_dag(one, two), *_of_params(one.params, two.params), *_of_tasks(one, two), *_of_groups(one, two)]
    left = len(found) - MOST
    return found if left <= 0 else [*found[:MOST], StructureChange("", f"and {left:,} more")]


def _of_dag(one: DagSpec, two: DagSpec) -> Iterator[StructureChange]:
    if one.timetable != two.timetable:
        before, after = one.timetable.summary, two.timetable.summary
        yield StructureChange("schedule", "changed" if before == after else f"{before} → {after}")
    for field in DagSpec.__struct_fields__:
        if field not in _APART and (words := _difference(field, getattr(one, field), getattr(two, field))):
            yield StructureChange("DAG", words)


def _of_params(one: Mapping[str, ParamSpec], two: Mapping[str, ParamSpec]) -> Iterator[StructureChange]:
    for name in sorted(one.keys() | two.keys()):
        before, after = one.get(name), two.get(name)
        if before is None or after is None:
            yield StructureChange(f"param {name}", "removed" if after is None else "added")
        elif before != after:
            kinds = ("required", "value", "description", "json_schema")
            words = [_difference(kind, getattr(before, kind), getattr(after, kind)) for kind in kinds]
            yield StructureChange(f"param {name}", _listed(filter(None, words)) or "changed")


def _of_tasks(one: DagSpec, two: DagSpec) -> Iterator[StructureChange]:
    before, after = ({task.task_id: task for task in spec.tasks} for spec in (one, two))
    for task_id in [name for name in before if name not in after]:
        yield StructureChange(f"task {task_id}", "removed")
    for task_id, task in after.items():
        if (old := before.get(task_id)) is not None:
            words = [*_edges(old, task), *_fields(old, task)]
            if words:
                yield StructureChange(f"task {task_id}", _listed(words))
        else:
            follows = f", after {', '.join(task.upstream)}" if task.upstream else ""
            yield StructureChange(f"task {task_id}", f"added{follows}")


def _of_groups(one: DagSpec, two: DagSpec) -> Iterator[StructureChange]:
    before, after = ({group.group_id: group for group in spec.groups} for spec in (one, two))
    for group_id in sorted(before.keys() | after.keys()):
        words = _group_words(before.get(group_id), after.get(group_id))
        if words is not None:
            yield StructureChange(f"group {group_id}", words)


def _group_words(before: GroupSpec | None, after: GroupSpec | None) -> str | None:
    if before == after:
        return None
    return "added" if before is None else "removed" if after is None else "changed"


def _edges(one: TaskSpec, two: TaskSpec) -> Iterator[str]:
    if added := [name for name in two.upstream if name not in one.upstream]:
        yield f"now runs after {', '.join(added)}"
    if gone := [name for name in one.upstream if name not in two.upstream]:
        yield f"runs no longer after {', '.join(gone)}"


def _fields(one: TaskSpec, two: TaskSpec) -> Iterator[str]:
    for field in TaskSpec.__struct_fields__:
        before, after = getattr(one, field), getattr(two, field)
        if field == "upstream" or before == after:
            continue
        if field == "template_fields":
            names = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
            yield from (
                _difference(f"argument {name}", before.get(name), after.get(name)) or f"argument {name} changed"
                for name in names
            )
        else:
            yield _difference(field, before, after) or f"{_WORDS.get(field, field)} changed"


def _difference(field: str, before: Any, after: Any) -> str | None:
    """`retries 1 → 3`; None if the two are equal."""
    if before == after:
        return None
    words = _WORDS.get(field, field.replace("_", " "))
    texts = _text(before), _text(after)
    return f"{words} changed" if None in texts or texts[0] == texts[1] else f"{words} {texts[0]} → {texts[1]}"


def _text(value: Any) -> str | None:
    """A value on one line; None if it is too long for that."""
    if value is None or value == "" or value == () or value == {}:
        return "none"
    if isinstance(value, tuple) and all(isinstance(one, str) for one in value):
        value = ", ".join(value)
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    text = text.strip('"') if not isinstance(value, str) else text
    return text if len(text) <= _LONGEST and "\n" not in text else None


def _listed(words: Iterable[str]) -> str:
    return "; ".join(words)
