"""The assets and the other DAGs at the edges of a DAG's graph: what its tasks and its schedule refer to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from aiosched.core.graph.dependencies import dag_dependencies
from aiosched.core.graph.dependency_graph import DependencyEdge, DependencyNode, NodeKind, asset_edge, dag_edge
from aiosched.core.graph.spec import DagSpec, asset_references

_UNKNOWN: Final = "unknown DAG"


class Neighbours(NamedTuple):
    """The nodes by id, and edges between them and tasks; ids of nodes have a colon, those of tasks have none."""

    nodes: dict[str, DependencyNode]
    edges: tuple[tuple[str, str], ...]
    uris: frozenset[str] = frozenset()  # of assets that the DAG knows by these only

    def name(self, node: str) -> str | None:
        """The name of what a node stands for; None if the file does not say it."""
        found = self.nodes[node]
        return None if found.kind is NodeKind.UNKNOWN or found.name in self.uris else found.name

    def label(self, node: str) -> str:
        """The text of a node's box."""
        return self.nodes[node].name if self.nodes[node].kind is not NodeKind.UNKNOWN else _UNKNOWN


NO_NEIGHBOURS: Final = Neighbours({}, ())


def neighbours_of(spec: DagSpec) -> Neighbours:
    """What the DAG refers to. Its schedule leads to the tasks without upstream tasks; aliases are left out."""
    roots = [task.task_id for task in spec.tasks if not task.upstream]
    nodes: dict[str, DependencyNode] = {}
    edges: dict[tuple[str, str], None] = {}
    for edge in _edges(spec):
        leads_away = edge.source == DependencyNode(NodeKind.DAG, spec.dag_id)
        other = edge.target if leads_away else edge.source
        node = f"{other.id}:before" if not leads_away else other.id  # one on each side, so that there are no cycles
        nodes[node] = other
        for task_id in [edge.task_id] if edge.task_id else roots:
            edges[(task_id, node) if leads_away else (node, task_id)] = None
    uris = frozenset(mention.name for mention in asset_references(spec) if mention.kind == "uri")
    return Neighbours(nodes, tuple(edges), uris)


def _edges(spec: DagSpec) -> Iterator[DependencyEdge]:
    for mention in asset_references(spec):
        if mention.kind != "alias":
            yield asset_edge(spec.dag_id, mention.role, mention.task_id, mention.name)
    for found in dag_dependencies(spec):
        yield dag_edge(spec.dag_id, found.kind, found.task_id, found.other_dag_id)
