"""Queries on what depends on what across DAGs: by assets, triggered runs and sensors. No decisions here.

Each reading is bounded. `seen`: DAGs that may be seen (None: all); of others there is no edge. The names of nodes:
core/graph/dependency_graph.py.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from aiosched.core.graph.dependency_graph import (
    DependencyEdge,
    DependencyNode,
    Direction,
    NodeKind,
    asset_edge,
    dag_edge,
    ends,
    followed,
)
from aiosched.db.access.visibility import ScopedStatement, Seen
from aiosched.db.server.connection import DatabaseConnection

MOST_STEPS: Final = 40  # from the node at which a walk begins

# The asset of each mention, by its name, URI or alias. Indexes: uq_asset_name, ix_asset_uri, the key of asset_alias.
_ASSET_OF: Final = """
     CROSS JOIN LATERAL (
           SELECT a.id, a.name FROM asset AS a WHERE r.kind IN ('asset', 'name') AND a.name = r.name
            UNION ALL
           SELECT a.id, a.name FROM asset AS a WHERE r.kind = 'uri' AND a.uri = r.name
            UNION ALL
           SELECT a.id, a.name FROM asset_alias AS l JOIN asset AS a ON a.id = l.asset_id
            WHERE r.kind = 'alias' AND l.alias = r.name
     ) AS named
"""
_MENTIONS: Final = f"""
    SELECT r.dag_id, r.role AS kind, r.task_id, named.name AS other, true AS is_asset
      FROM asset_reference AS r {_ASSET_OF}
"""
_DAGS: Final = "SELECT dag_id, kind, task_id, other_dag_id AS other, false AS is_asset FROM dag_dependency"
_BOTH_SEEN: Final = "(dag_id = ANY (?::text[]) AND (other_dag_id = '' OR other_dag_id = ANY (?::text[])))"

# The first edges in the order of the DAGs. Indexes: the primary keys.
_FIRST: Final = "(SELECT * FROM asset_reference WHERE true [seen] ORDER BY dag_id LIMIT $1) AS r"
FIRST_MENTIONS: Final = ScopedStatement.of(_MENTIONS.replace("asset_reference AS r", _FIRST))
FIRST_DAGS: Final = ScopedStatement.of(f"{_DAGS} WHERE true [seen] ORDER BY dag_id LIMIT $1", _BOTH_SEEN)
# The edges of some DAGs and assets. Indexes: the primary keys, ix_dag_dependency_other_dag_id,
# ix_asset_reference_name_role.
MENTIONS_OF_DAGS: Final = ScopedStatement.of(
    f"{_MENTIONS} WHERE r.dag_id = ANY ($1::text[]) [seen] LIMIT $2", "r.dag_id = ANY (?::text[])"
)
MENTIONS_OF_ASSETS: Final = ScopedStatement.of(
    """
    SELECT r.dag_id, r.role AS kind, r.task_id, a.name AS other, true AS is_asset
      FROM asset AS a
     CROSS JOIN LATERAL (SELECT ARRAY(SELECT alias FROM asset_alias WHERE asset_id = a.id) AS names) AS l
      JOIN asset_reference AS r ON r.name = ANY (ARRAY[a.name, a.uri] || l.names)
       AND CASE r.kind WHEN 'uri' THEN r.name = a.uri WHEN 'alias' THEN r.name = ANY (l.names) ELSE r.name = a.name END
     WHERE a.name = ANY ($1::text[]) [seen] LIMIT $2
""",
    "r.dag_id = ANY (?::text[])",
)
DAGS_OF: Final = ScopedStatement.of(
    f"{_DAGS} WHERE (dag_id = ANY ($1::text[]) OR other_dag_id = ANY ($1::text[])) [seen] LIMIT $2", _BOTH_SEEN
)


async def first_edges(conn: DatabaseConnection, *, limit: int, seen: Seen = None) -> list[DependencyEdge]:
    """At most `limit` edges of assets, and as many between DAGs, in the order of the DAGs."""
    found = [await statement.fetch(conn, limit, seen=seen) for statement in (FIRST_MENTIONS, FIRST_DAGS)]
    return [_edge(row) for rows in found for row in rows]


async def edges_of(
    conn: DatabaseConnection, nodes: Collection[DependencyNode], *, limit: int, seen: Seen = None
) -> list[DependencyEdge]:
    """The edges that begin or end at one of these nodes, at most `limit` of each sort."""
    dag_ids = sorted(node.name for node in nodes if node.kind is NodeKind.DAG and node.name)
    names = sorted(node.name for node in nodes if node.kind is NodeKind.ASSET)
    found: list[Any] = []
    if dag_ids:
        found += await MENTIONS_OF_DAGS.fetch(conn, dag_ids, limit, seen=seen)
        found += await DAGS_OF.fetch(conn, dag_ids, limit, seen=seen)
    if names:
        found += await MENTIONS_OF_ASSETS.fetch(conn, names, limit, seen=seen)
    return [_edge(row) for row in found]


async def walk(
    conn: DatabaseConnection, start: DependencyNode, direction: Direction, *, limit: int, seen: Seen = None
) -> tuple[list[DependencyEdge], bool]:
    """What is upstream of a node, downstream of it, or both, nearest first; and whether that is all."""
    found: dict[DependencyEdge, None] = {}
    is_complete = True
    ways = (Direction.UPSTREAM, Direction.DOWNSTREAM) if direction is Direction.BOTH else (direction,)
    for way in ways:
        reached, frontier = {start}, {start}
        for _ in range(MOST_STEPS):
            if not frontier or len(found) >= limit:
                break
            step = followed(await edges_of(conn, frontier, limit=limit, seen=seen), frontier, way)
            found |= dict.fromkeys(step)
            frontier = set(ends(step)) - reached
            reached |= frontier
        is_complete = is_complete and not frontier and len(found) <= limit
    return list(found)[:limit], is_complete


def _edge(row: Any) -> DependencyEdge:
    made = asset_edge if row["is_asset"] else dag_edge
    return made(row["dag_id"], row["kind"], row["task_id"], row["other"])


@dataclass(frozen=True, slots=True)
class DagOfGraph:
    """A DAG and the state of its newest run."""

    is_paused: bool
    state: str | None
    run_id: str | None


# Index: ix_dag_run_dag_id_id, once for each DAG.
DAG_STATES: Final = """
    SELECT d.dag_id, d.is_paused, r.state, r.run_id
      FROM dag AS d
      LEFT JOIN LATERAL (
           SELECT state, run_id FROM dag_run WHERE dag_run.dag_id = d.dag_id ORDER BY id DESC LIMIT 1
     ) AS r ON true
     WHERE d.dag_id = ANY ($1::text[]) AND NOT d.is_stale
"""


async def dag_states(conn: DatabaseConnection, dag_ids: Collection[str]) -> dict[str, DagOfGraph]:
    """The DAGs among `dag_ids` that exist."""
    rows = await conn.fetch(DAG_STATES, sorted(dag_ids)) if dag_ids else []
    return {row["dag_id"]: DagOfGraph(row["is_paused"], row["state"], row["run_id"]) for row in rows}
