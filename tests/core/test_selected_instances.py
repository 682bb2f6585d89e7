"""Which instances of mapped tasks a request selects. Source: the semantics reference, section 28.1."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, GroupSpec, LiteralLength, MappingSpec
from aiosched.core.requests.requests import Clear
from aiosched.core.requests.selection import select
from aiosched.core.run.board import Instance
from aiosched.core.values.states import TaskState as S
from aiosched.errors import Refused
from tests.core.graph_builders import task


def test_what_depends_on_one_map_index_is_reached_from_it() -> None:
    """`collect` is not mapped, so it depends on each `reload`; in the group only the same index depends on it."""
    each, inside = MappingSpec(inputs=(LiteralLength(3),)), {"group_id": "g"}
    tasks = (
        task("reload", mapping=each), task("collect", "reload"),
        task("g.a", **inside), task("g.b", "g.a", **inside), task("end", "collect", "g.b"),
    )  # fmt: skip
    compiled = Graph(DagSpec(dag_id="d", tasks=tasks, groups=(GroupSpec(group_id="g", mapping=each),)))
    rows = [Instance(place, n, S.FAILED) for place in (0, 2, 3) for n in range(3)]
    rows += [Instance(1, state=S.UPSTREAM_FAILED), Instance(4, state=S.UPSTREAM_FAILED)]

    def selected(*task_ids: str, **options: Any) -> list[tuple[str, int]]:
        request = Clear(task_ids=task_ids, downstream=True, **options)
        found = select({1: compiled}, 1, request).of(1, rows)
        return sorted((compiled.task_ids[one.task], one.map_index) for one in found)

    assert selected("reload", map_index=1) == [("collect", -1), ("end", -1), ("reload", 1)]
    assert selected("reload[1]") == selected("reload", map_index=1)
    assert selected("g.a[2]") == [("end", -1), ("g.a", 2), ("g.b", 2)]
    assert selected("g.b[0]", "collect") == [("collect", -1), ("end", -1), ("g.b", 0)]
    assert selected("reload[7]") == []
    with pytest.raises(Refused, match=r"reload\[1\] is the instance 1, but the map index 2 was given"):
        selected("reload[1]", map_index=2)
