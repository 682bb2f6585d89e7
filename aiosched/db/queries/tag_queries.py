"""Queries on the tags of DAGs, for people. Read only."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select

from aiosched.db.access.only_seen import only_seen
from aiosched.db.access.visibility import Seen
from aiosched.db.queries.queries import fetch
from aiosched.db.schema.schema import dag
from aiosched.db.server.engine import Database


@dataclass(frozen=True, slots=True)
class TagRow:
    """A tag and the number of DAGs with it, stale ones excluded."""

    tag: str
    dags: int


async def list_tags(
    db: Database, *, after: str | None = None, limit: int | None = None, seen: Seen = None
) -> list[TagRow]:
    """The tags of DAGs that are not stale, by name, after the tag `after`."""
    tagged = select(func.unnest(dag.c.tags).label("tag")).where(~dag.c.is_stale)
    tags = only_seen(tagged, dag.c.dag_id, seen).subquery()
    query = select(tags.c.tag, func.count()).where(tags.c.tag.is_not(None))
    query = query.group_by(tags.c.tag).order_by(tags.c.tag).limit(limit)
    if after is not None:
        query = query.where(tags.c.tag > after)
    return [TagRow(row[0], row[1]) for row in await fetch(db, query)]
