"""The graph of what depends on what across DAGs: DAGs and assets, and the edges between them.

An edge goes from what is needed to what needs it: from a task's DAG to the assets that it produces, from an asset to
the DAGs that are scheduled on it or read it, from a DAG to those that it triggers or that wait for it.
Reading the edges: db/queries/dependency_queries.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from aiosched.core.graph.dependencies import DependencyKind


class NodeKind(StrEnum):
    """What a node is."""

    DAG = "dag"
    ASSET = "asset"
    UNKNOWN = "unknown"  # a DAG that is known only when a task runs


class EdgeKind(StrEnum):
    """Why one thing needs another."""

    PRODUCES = "produces"
    SCHEDULED_ON = "scheduled_on"
    READS = "reads"
    TRIGGERS = "triggers"
    WAITS_FOR = "waits_for"


class Direction(StrEnum):
    """Which way to follow the edges."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"
    BOTH = "both"


class DependencyNode(NamedTuple):
    """A DAG or an asset by its name; of an unknown DAG the name is made up."""

    kind: NodeKind
    name: str

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> DependencyNode:
        """The node with that id; raises ValueError."""
        kind, _, name = text.partition(":")
        return cls(NodeKind(kind), name)


class DependencyEdge(NamedTuple):
    """`target` needs `source`; `task_id` is the task that says so, empty for a schedule."""

    source: DependencyNode
    target: DependencyNode
    kind: EdgeKind
    task_id: str


_ASSET_KINDS: Final = {
    "outlet": EdgeKind.PRODUCES,
    "schedule": EdgeKind.SCHEDULED_ON,
    "inlet": EdgeKind.READS,
}


def asset_edge(dag_id: str, role: str, task_id: str, asset: str) -> DependencyEdge:
    """The edge of a DAG's mention of an asset, as outlet, inlet or in its schedule."""
    kind = _ASSET_KINDS[role]
    dag, other = DependencyNode(NodeKind.DAG, dag_id), DependencyNode(NodeKind.ASSET, asset)
    source, target = (dag, other) if kind is EdgeKind.PRODUCES else (other, dag)
    return DependencyEdge(source, target, kind, task_id)


def dag_edge(dag_id: str, kind: str, task_id: str, other_dag_id: str) -> DependencyEdge:
    """The edge of a task that refers to another DAG (empty: an unknown one)."""
    dag = DependencyNode(NodeKind.DAG, dag_id)
    if other_dag_id:
        other = DependencyNode(NodeKind.DAG, other_dag_id)
    else:
        other = DependencyNode(NodeKind.UNKNOWN, f"{kind}:{dag_id}")
    if kind == DependencyKind.TRIGGERS:
        return DependencyEdge(dag, other, EdgeKind.TRIGGERS, task_id)
    source, target = (dag, other) if kind == DependencyKind.MARKS else (other, dag)
    return DependencyEdge(source, target, EdgeKind.WAITS_FOR, task_id)


def followed(
    edges: Iterable[DependencyEdge], nodes: Collection[DependencyNode], direction: Direction
) -> list[DependencyEdge]:
    """The edges that lead on from `nodes`, one step in a direction (not both)."""
    if direction is Direction.DOWNSTREAM:
        return [edge for edge in edges if edge.source in nodes]
    return [edge for edge in edges if edge.target in nodes]


def ends(edges: Iterable[DependencyEdge]) -> list[DependencyNode]:
    """The nodes of edges, each once, in the order of the edges."""
    return list(dict.fromkeys(node for edge in edges for node in (edge.source, edge.target)))
