"""XComs for people. Read only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiosched.core.values.links import LINK_PREFIX, TaskLink, link_of
from aiosched.db.server.engine import Database


@dataclass(frozen=True, slots=True)
class XComListRow:
    """A value that a task pushed; `value` is its JSON, cut at the asked length.

    Of a value in remote storage it is the beginning of the JSON, and `path` says where it is, below `xcom.remote`.
    """

    key: str
    size: int
    value: str
    created_at: datetime
    path: str | None = None
    url: str | None = None  # for people


# Index: the primary key.
XCOMS: Final = """
    SELECT key,
           CASE WHEN stored ->> 'size' ~ '^[0-9]{1,15}$' THEN (stored ->> 'size')::bigint
                ELSE octet_length(value::text) END AS size,
           left(CASE WHEN stored ->> 'path' IS NULL THEN value::text
                     ELSE coalesce(value #>> '{}', '') END, $4) AS value, created_at,
           stored ->> 'path' AS path
      FROM xcom
     WHERE run_id = $1 AND task_index = $2 AND map_index = $3 AND ($5::text IS NULL OR key = $5)
       AND ($6::text IS NULL OR key > $6)
     ORDER BY key LIMIT $7
"""

# The links of operators: small values whose keys begin with a prefix. Index: the primary key.
LINKS: Final = """
    SELECT key, value::text AS value
      FROM xcom
     WHERE run_id = $1 AND task_index = $2 AND map_index = $3 AND starts_with(key, $4)
       AND octet_length(value::text) < 8192
     ORDER BY key LIMIT 50
"""


async def list_links(db: Database, instance: tuple[int, int, int]) -> list[TaskLink]:
    """The links of a task instance (run key, task index, map index), by name."""
    rows = await db.fetch(LINKS, *instance, LINK_PREFIX)
    found = (link_of(row["key"], row["value"]) for row in rows)
    return sorted(link for link in found if link is not None)


async def list_xcoms(
    db: Database,
    instance: tuple[int, int, int],
    *,
    longest: int,
    key: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> list[XComListRow]:
    """What a task instance (run key, task index, map index) pushed, by key; each value up to `longest` characters."""
    return [XComListRow(**dict(row)) for row in await db.fetch(XCOMS, *instance, longest, key, after, limit)]
