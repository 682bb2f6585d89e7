"""Which other DAGs a DAG starts or waits for, from its serialized form.

A task with the template field `trigger_dag_id` starts runs of that DAG, one with `external_dag_id` waits for it. This
holds for `TriggerDagRunOperator`, `ExternalTaskSensor` and what derives from them. An `ExternalTaskMarker` says that
the other DAG depends on this one. A DAG that a template names, or that is an output of another task, is not known
before the task runs. Dependencies by assets: core/assets/conditions.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from aiosched.core.graph.spec import DagSpec, TaskSpec

_DAG_ID: Final = re.compile(r"[\w.-]+")  # no template, no text that stands for an object


class DependencyKind(StrEnum):
    """How a task refers to another DAG."""

    TRIGGERS = "triggers"
    WAITS_FOR = "waits_for"
    MARKS = "marks"  # the other DAG waits for this task


@dataclass(frozen=True, slots=True)
class DagDependency:
    """One other DAG that a task refers to; empty: it is known only when the task runs."""

    kind: DependencyKind
    task_id: str
    other_dag_id: str


def dag_dependencies(spec: DagSpec) -> tuple[DagDependency, ...]:
    """Every other DAG that the tasks refer to, each once for a task and kind."""
    return tuple(dict.fromkeys(found for task in spec.tasks for found in _of_task(task)))


def _of_task(task: TaskSpec) -> Iterator[DagDependency]:
    waits = DependencyKind.WAITS_FOR if task.marks is None else DependencyKind.MARKS
    for field, kind in (("trigger_dag_id", DependencyKind.TRIGGERS), ("external_dag_id", waits)):
        if field in task.template_fields:
            for value in _values(task.template_fields[field], is_mapped=task.mapping is not None):
                yield DagDependency(kind, task.task_id, _known(value))


def _values(value: Any, *, is_mapped: bool) -> list[Any]:
    """The values of a field: of a mapped task, those that it is mapped over."""
    return value if is_mapped and isinstance(value, list) and value else [value]


def _known(value: Any) -> str:
    return value if isinstance(value, str) and _DAG_ID.fullmatch(value) else ""
