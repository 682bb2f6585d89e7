"""Statements that store which other DAGs a DAG starts or waits for. No decisions here: core/graph/dependencies.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from aiosched.core.graph.dependencies import DagDependency
from aiosched.db.server.connection import DatabaseConnection

DROP_DEPENDENCIES: Final = "DELETE FROM dag_dependency WHERE dag_id = ANY($1::text[])"
PUT_DEPENDENCIES: Final = """
    INSERT INTO dag_dependency (dag_id, kind, task_id, other_dag_id)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
    ON CONFLICT DO NOTHING
"""


async def store_dependencies(conn: DatabaseConnection, dependencies: Mapping[str, Sequence[DagDependency]]) -> None:
    """Replace the dependencies of these DAGs (by id), whose rows are locked."""
    if not dependencies:
        return
    await conn.execute(DROP_DEPENDENCIES, sorted(dependencies))
    rows = [
        (dag_id, str(found.kind), found.task_id, found.other_dag_id)
        for dag_id in sorted(dependencies)
        for found in dependencies[dag_id]
    ]
    if rows:
        await conn.execute(PUT_DEPENDENCIES, *map(list, zip(*rows, strict=True)))
