"""Small builders for DAGs in tests, and a hypothesis strategy that makes any."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import strategies as st

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, GroupSpec, LiteralLength, MapInput, MappingSpec, TaskOutput, TaskSpec


def task(task_id: str, *upstream: str, **fields: Any) -> TaskSpec:
    return TaskSpec(task_id=task_id, operator="PythonOperator", upstream=tuple(sorted(upstream)), **fields)


def setup(task_id: str, *upstream: str) -> TaskSpec:
    return task(task_id, *upstream, is_setup=True)


def teardown(task_id: str, *upstream: str, **fields: Any) -> TaskSpec:
    return task(task_id, *upstream, is_teardown=True, trigger_rule="all_done_setup_success", **fields)


def graph(*tasks: TaskSpec, groups: tuple[str, ...] = ()) -> Graph:
    specs = tuple(GroupSpec(group_id=name, parent_id=name.rpartition(".")[0] or None) for name in groups)
    return Graph(DagSpec(dag_id="sales", tasks=tasks, groups=specs))


def over(*inputs: str | int | MapInput) -> MappingSpec:
    """Mapping over what tasks return (ids), over literal values (how many), or over other inputs."""
    kinds = {str: TaskOutput, int: LiteralLength}
    return MappingSpec(inputs=tuple(kinds[type(one)](one) if type(one) in kinds else one for one in inputs))  # type: ignore[operator,misc]


def mapped(task_id: str, *upstream: str, inputs: MappingSpec, **fields: Any) -> TaskSpec:
    return task(task_id, *upstream, mapping=inputs, **fields)


def in_a_mapped_group(inputs: MappingSpec | int, *tasks: TaskSpec, outside: tuple[TaskSpec, ...] = ()) -> Graph:
    """A DAG with one mapped group `g`, which `tasks` stand in."""
    mapping = over(inputs) if isinstance(inputs, int) else inputs
    inside = tuple(msgspec.structs.replace(each, group_id="g") for each in tasks)
    return Graph(DagSpec(dag_id="sales", tasks=outside + inside, groups=(GroupSpec(group_id="g", mapping=mapping),)))


def names(of: Graph, indexes: Iterable[int]) -> list[str]:
    return [of.task_ids[index] for index in sorted(indexes)]


@st.composite
def dags(draw: st.DrawFn, largest: int = 12) -> list[TaskSpec]:
    """Tasks in a shuffled order whose dependencies have no cycle."""
    size = draw(st.integers(0, largest))
    tasks = [
        task(f"t{n}", *(f"t{up}" for up in (draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else ())))
        for n in range(size)
    ]
    return draw(st.permutations(tasks))
