"""What depends on what across DAGs: by assets, triggered runs and sensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, StringConstraints

from aiosched.core.assets.freshness import Freshness
from aiosched.core.graph.dependency_graph import (
    DependencyEdge,
    DependencyNode,
    Direction,
    EdgeKind,
    NodeKind,
    ends,
)
from aiosched.core.values.matching import words_of
from aiosched.db.finding import names
from aiosched.db.queries import dependency_queries
from aiosched.db.queries.asset_queries import list_assets
from aiosched.db.server.connection import DatabaseConnection
from aiosched.errors import NotFound
from aiosched.web.api.base.models import Instant
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible, Visible
from aiosched.web.requests.request_client import RequestClient, TheRequestClient

router: APIRouter = APIRouter(tags=["Assets"])

MOST_EDGES: Final = 2_000
_Around = Annotated[str, StringConstraints(max_length=1_600, pattern=r"^(dag|asset):[^\x00]+$")]
_Typed = Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00]*$")]


class DependencyItem(BaseModel):
    """A DAG with the state of its newest run, an asset with its freshness, or a DAG that is unknown until a task
    runs. A DAG that does not exist (any more) has `exists` false."""

    id: str
    kind: NodeKind
    name: str
    exists: bool = True
    is_paused: bool | None = None
    state: str | None = None
    run_id: str | None = None
    freshness: Freshness | None = None
    expected_by: Instant | None = None
    last_event_at: Instant | None = None


class DependencyLink(BaseModel):
    """The node `target` depends on the node `source`, because of these tasks; a schedule has none."""

    source: str
    target: str
    kind: EdgeKind
    task_ids: list[str]


class DependencyGraph(BaseModel):
    """Nodes and edges; `is_complete` is false if there are more than were asked for."""

    nodes: list[DependencyItem]
    edges: list[DependencyLink]
    is_complete: bool


@router.get("/dependencies")
@allow(Role.VIEWER, RoleScope.SEEN)
async def dependencies(
    request_client: TheRequestClient,
    visible: TheVisible,
    around: Annotated[
        _Around | None, Query(description="`dag:ID` or `asset:NAME`: only what is upstream or downstream of it")
    ] = None,
    direction: Annotated[Direction, Query(description="which way to go from there")] = Direction.BOTH,
    search: Annotated[_Typed, Query(description="words in names of DAGs and assets: those and their neighbours")] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_EDGES, description="of edges")] = 500,
) -> DependencyGraph:
    """The graph of DAGs and assets. An edge goes from what is needed to what needs it."""
    async with request_client.db.acquire() as conn:
        if around is not None:
            start = DependencyNode.parse(around)
            await _check_start(request_client, visible, start)
            edges, is_complete = await dependency_queries.walk(conn, start, direction, limit=limit, seen=visible.dags)
            nodes = [start, *ends(edges)]
        else:
            found = await _named(conn, words, visible) if (words := words_of(search)) else None
            if found is None:
                edges = await dependency_queries.first_edges(conn, limit=limit + 1, seen=visible.dags)
            else:
                edges = await dependency_queries.edges_of(conn, found, limit=limit + 1, seen=visible.dags)
            edges, is_complete = edges[:limit], len(edges) <= limit
            nodes = ends(edges)
    graph = await _graph(request_client, dict.fromkeys(nodes), edges, is_complete=is_complete)
    if around is not None and not edges and not graph.nodes[0].exists:
        raise NotFound(f"There is no DAG {graph.nodes[0].name!r}, and none depends on it.")
    return graph


async def _check_start(request_client: RequestClient, visible: Visible, start: DependencyNode) -> None:
    if start.kind is NodeKind.DAG:
        await visible.check_dag(start.name, Role.VIEWER)
    elif not await list_assets(
        request_client.db, names=[start.name], now=request_client.clock.now(), seen=visible.dags
    ):
        raise NotFound("There is no such asset among those of DAGs that you may see.")


async def _named(conn: DatabaseConnection, words: tuple[str, ...], visible: Visible) -> list[DependencyNode]:
    dags = await names.find_dags(conn, words, seen=visible.dags)
    assets = await names.find_assets(conn, words, seen=visible.dags)
    return [
        *(DependencyNode(NodeKind.DAG, found.dag_id) for found in dags),
        *(DependencyNode(NodeKind.ASSET, name) for name, _ in assets),
    ]


async def _graph(
    request_client: RequestClient,
    nodes: Iterable[DependencyNode],
    edges: Iterable[DependencyEdge],
    *,
    is_complete: bool,
) -> DependencyGraph:
    nodes = list(nodes)
    async with request_client.db.acquire() as conn:
        dags = await dependency_queries.dag_states(conn, [n.name for n in nodes if n.kind is NodeKind.DAG])
    wanted = [n.name for n in nodes if n.kind is NodeKind.ASSET]
    rows = await list_assets(request_client.db, names=wanted, now=request_client.clock.now()) if wanted else []
    assets = {row.name: row for row in rows}
    items = []
    for node in nodes:
        item = DependencyItem(id=node.id, kind=node.kind, name=node.name)
        if node.kind is NodeKind.DAG:
            item.exists = node.name in dags
        if dag := dags.get(node.name) if node.kind is NodeKind.DAG else None:
            item.is_paused, item.state, item.run_id = dag.is_paused, dag.state, dag.run_id
        if asset := assets.get(node.name) if node.kind is NodeKind.ASSET else None:
            item.freshness, item.expected_by = asset.freshness, asset.expected_by
            item.last_event_at = asset.last_event_at
        if node.kind is NodeKind.UNKNOWN:
            item.name = ""
        items.append(item)
    return DependencyGraph(nodes=items, edges=_links(edges), is_complete=is_complete)


def _links(edges: Iterable[DependencyEdge]) -> list[DependencyLink]:
    """One link for all tasks that say the same."""
    found: dict[tuple[str, str, EdgeKind], list[str]] = {}
    for edge in edges:
        tasks = found.setdefault((edge.source.id, edge.target.id, edge.kind), [])
        if edge.task_id and edge.task_id not in tasks:
            tasks.append(edge.task_id)
    return [DependencyLink(source=s, target=t, kind=kind, task_ids=ids) for (s, t, kind), ids in found.items()]
