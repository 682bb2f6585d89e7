"""Statements on what was rendered: the template fields of tries, and labels of mapped instances. No decisions here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from aiosched.core.graph.instances import MapLabel, RenderedFields
from aiosched.core.values.messages import AttemptKey
from aiosched.db.schema.tables import MAP_LABEL, RENDERED_FIELDS
from aiosched.db.server.connection import Connections, DatabaseConnection

# A try that is called again (after a deferral, or a reschedule) is rendered again: the last values count. Index:
# primary key.
STORE_RENDERED: Final = RENDERED_FIELDS.upsert(RenderedFields._fields)


async def store_rendered(conn: DatabaseConnection, rendered: Sequence[RenderedFields]) -> None:
    """Store the fields of tries, in the transaction that stores their start or their end."""
    last = {row[:4]: row for row in rendered}
    await conn.execute(STORE_RENDERED, *map(list, zip(*last.values(), strict=True)))


# Each call of a try renders its label again: the last one counts. Index: primary key.
STORE_LABELS: Final = MAP_LABEL.upsert(MapLabel._fields)


async def store_labels(conn: DatabaseConnection, labels: Sequence[MapLabel]) -> None:
    """Store the labels of mapped instances, in the transaction that stores their end."""
    last = {row[:3]: row for row in labels}
    await conn.execute(STORE_LABELS, *map(list, zip(*last.values(), strict=True)))


# Index: primary key.
FIND_RENDERED: Final = f"""
    SELECT r.run_id, r.task_index, r.map_index, r.try_number, r.fields::text
      FROM {RENDERED_FIELDS.batch(RENDERED_FIELDS.key, name="a")}
      JOIN rendered_fields AS r USING ({", ".join(RENDERED_FIELDS.key)})
"""


async def find_rendered(db: Connections, tries: Sequence[AttemptKey]) -> dict[AttemptKey, dict[str, Any]]:
    """The fields by name of those of the tries that have stored ones; rows that are no JSON object count as missing."""
    if not tries:
        return {}
    rows = await db.fetch(FIND_RENDERED, *map(list, zip(*tries, strict=True)))
    found = {AttemptKey(*key): msgspec.json.decode(fields) for *key, fields in rows}
    return {key: fields for key, fields in found.items() if isinstance(fields, dict)}


# The runs of which something is stored, each found by one step in the index; all but the newest $2 of each DAG go, the
# oldest $3 of them first. Index: primary keys.
FORGET_RENDERED: Final = """
    WITH RECURSIVE stored (run_id) AS (
        (SELECT run_id FROM rendered_fields ORDER BY run_id LIMIT 1)
         UNION ALL
        SELECT (SELECT r.run_id FROM rendered_fields AS r WHERE r.run_id > stored.run_id ORDER BY r.run_id LIMIT 1)
          FROM stored WHERE stored.run_id IS NOT NULL
    ), ranked AS (
        SELECT run.id, row_number() OVER (PARTITION BY run.dag_id ORDER BY run.id DESC) AS place
          FROM stored JOIN dag_run AS run ON run.id = stored.run_id
         WHERE greatest(run.partition, -1 - run.partition) = ANY($1::smallint[])
    )
    DELETE FROM rendered_fields
     WHERE run_id IN (SELECT id FROM ranked WHERE place > $2 ORDER BY id LIMIT $3)
"""


async def forget_rendered(conn: DatabaseConnection, partitions: Sequence[int], *, keep: int, runs: int) -> int:
    """Delete what is stored of at most `runs` runs that are not among the newest `keep` of their DAG that have some.

    Returns how many rows were deleted. Only DAGs of `partitions`.
    """
    status = await conn.execute(FORGET_RENDERED, list(partitions), keep, runs)
    return int(status.rpartition(" ")[2])
