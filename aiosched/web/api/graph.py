"""The graph of a DAG's tasks: the place of each box, and its state in a run."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from aiosched.core.graph.dependency_graph import DependencyNode, NodeKind
from aiosched.core.graph.spec import DagSpec, decode_spec, display_names, encode_spec
from aiosched.core.values.states import FINISHED
from aiosched.db.queries import queries, run_queries
from aiosched.db.queries.run_queries import TryPeriod
from aiosched.db.queries.version_queries import get_version
from aiosched.web.api.base.models import Name
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.server.etags import RARELY
from aiosched.web.views.graph_neighbours import NO_NEIGHBOURS, Neighbours, neighbours_of
from aiosched.web.views.layout import Box, Layout, lay_out
from aiosched.web.views.state_counts import Counts, groups_around, read_counts, with_groups

router: APIRouter = APIRouter(tags=["DAGs"])


class GraphNode(BaseModel):
    """A box: a task, a group (a folded group stands for all its tasks), or with `neighbours` an asset or another DAG,
    whose `refers_to` is its name (null: the file does not say it). `label` is its display name, or its id without that
    of the group around it; `counts` are its states in the requested run.
    """

    id: str
    label: str
    kind: Literal["task", "group", "asset", "dag"]
    parent: str | None
    x: float
    y: float
    width: float
    height: float
    is_folded: bool
    is_mapped: bool
    operator: str | None
    trigger_rule: str | None
    counts: dict[str, int] | None = None
    refers_to: str | None = None


class GraphEdge(BaseModel):
    """A line between two boxes."""

    source: str
    target: str
    label: str | None
    points: list[tuple[float, float]]


class DagGraph(BaseModel):
    """The boxes (groups before their members), the lines, and the ids on the critical path of the requested run."""

    version: int
    width: float
    height: float
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    critical_path: list[str]


# Layouts of large DAGs take a quarter of a second, which no other request waits for.
_one_thread: Final = ThreadPoolExecutor(1, thread_name_prefix="graph")


@router.get("/dags/{dag_id}/graph", dependencies=[RARELY])
@allow(Role.VIEWER, RoleScope.DAG)
async def graph(
    request_client: TheRequestClient,
    dag_id: Name,
    version: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
    run: Annotated[
        str | None, Query(max_length=250, pattern=r"^[^\x00]+$", description="show the states of this run")
    ] = None,
    fold: Annotated[list[str] | None, Query(max_length=500, description="groups to fold")] = None,
    neighbours: Annotated[bool, Query(description="also the assets and other DAGs that it refers to")] = False,
) -> DagGraph:
    """The graph of a DAG's tasks; with `run`, in the version and with the states of that run."""
    row = None if run is None else await queries.find_run(request_client.db, dag_id, run)
    found = await get_version(request_client.db, dag_id, version if row is None else row.version)
    spec = found.spec
    folded = frozenset(fold or ()) & {group.group_id for group in spec.groups}
    layout = await asyncio.get_running_loop().run_in_executor(
        _one_thread, _placed, encode_spec(spec), folded, neighbours
    )
    counts: Counts = {}
    path: list[str] = []
    if row is not None:
        counts = with_groups((await read_counts(request_client.db, [row]))[row.key], groups_around(spec))
        path = critical_path(spec, await run_queries.read_segments(request_client.db, row.key, limit=20_000))
    around = neighbours_of(spec) if neighbours else NO_NEIGHBOURS
    return _graph(spec, layout, found.number, counts, path, around)


@functools.lru_cache(maxsize=32)
def _placed(document: bytes, folded: frozenset[str], neighbours: bool) -> Layout:
    spec = decode_spec(document)
    around = neighbours_of(spec) if neighbours else NO_NEIGHBOURS
    groups = {group.group_id: group.parent_id for group in spec.groups}
    tasks = {task.task_id: task.group_id if task.group_id in groups else None for task in spec.tasks}
    edges = [(up, task.task_id) for task in spec.tasks for up in task.upstream]
    labels = {each: _label(each, group) for each, group in (*tasks.items(), *groups.items())} | display_names(spec)
    labels |= {each: around.label(each) for each in around.nodes}
    tasks |= dict.fromkeys(around.nodes)
    edges += around.edges
    return lay_out(tasks, edges, groups, labels=labels, folded=folded)


def _label(each: str, group: str | None) -> str:
    return each.removeprefix(f"{group}.") if group else each


def _graph(
    spec: DagSpec, layout: Layout, version: int, counts: Counts, path: list[str], neighbours: Neighbours
) -> DagGraph:
    tasks = {task.task_id: task for task in spec.tasks}
    groups = {group.group_id: group for group in spec.groups}
    names = display_names(spec)
    nodes: list[dict[str, Any]] = []
    for box in layout.boxes:
        task, group = tasks.get(box.id), groups.get(box.id)
        mapping = group.mapping if group is not None else task.mapping if task is not None else None
        neighbour = neighbours.nodes.get(box.id)
        around = group.parent_id if group is not None else task.group_id if task is not None else None
        nodes.append(
            {
                "id": box.id,
                "label": neighbours.label(box.id) if neighbour else names.get(box.id) or _label(box.id, around),
                "kind": _kind(box, neighbour),
                "parent": box.parent,
                "x": round(box.x, 1),
                "y": round(box.y, 1),
                "width": round(box.width, 1),
                "height": round(box.height, 1),
                "is_folded": box.is_folded,
                "is_mapped": mapping is not None,
                "operator": None if task is None else task.operator,
                "trigger_rule": None if task is None else task.trigger_rule,
                "counts": dict(counts[box.id]) if counts.get(box.id) else None,
                "refers_to": None if neighbour is None else neighbours.name(box.id),
            }
        )
    edges = [
        GraphEdge(
            source=line.source,
            target=line.target,
            label=spec.edge_labels.get(f"{line.source}>{line.target}"),
            points=[(round(x, 1), round(y, 1)) for x, y in line.points],
        )
        for line in layout.lines
    ]
    return DagGraph(
        version=version,
        width=layout.width,
        height=layout.height,
        nodes=[GraphNode.model_validate(node) for node in nodes],
        edges=edges,
        critical_path=path,
    )


def _kind(box: Box, neighbour: DependencyNode | None) -> str:
    if neighbour is not None:
        return "asset" if neighbour.kind is NodeKind.ASSET else "dag"
    return "group" if box.is_group else "task"


def critical_path(spec: DagSpec, segments: Sequence[TryPeriod]) -> list[str]:
    """The tasks that determined the end of a run, in order: found from the one that ended last, back through its
    dependencies."""
    ends: dict[int, datetime] = {}
    for segment in segments:
        is_known = 0 <= segment.task_index < len(spec.tasks)
        if segment.end_date is not None and segment.state in FINISHED and is_known:
            latest = ends.get(segment.task_index)
            ends[segment.task_index] = segment.end_date if latest is None else max(latest, segment.end_date)
    index = {task.task_id: i for i, task in enumerate(spec.tasks)}
    if not ends:
        return []
    each: int | None = max(ends, key=lambda i: ends[i])
    path: list[str] = []
    while each is not None:
        path.append(spec.tasks[each].task_id)
        before = [index[up] for up in spec.tasks[each].upstream if index[up] in ends]
        each = max(before, key=lambda i: ends[i], default=None)
    return path[::-1]
