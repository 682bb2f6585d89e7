"""Queries on assets and their events, for people and tasks. No decisions here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiosched.core.values.json_bounds import shown_object
from aiosched.db.access.sight import Seen, SightedStatement
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, did_you_mean


@dataclass(frozen=True, slots=True)
class AssetRow:
    """An asset, its producers and consumers (DAG ids, sorted), and its newest event."""

    name: str
    uri: str
    is_active: bool
    producers: list[str]
    consumers: list[str]
    last_event_at: datetime | None
    extra: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of an asset. The source is None if a person emitted it."""

    id: int
    name: str
    uri: str
    timestamp: datetime
    extra: dict[str, Any]
    alias: str | None
    dag_id: str | None
    run_id: str | None
    task_id: str | None
    map_index: int | None
    partition_key: str | None


# Consumers by name, URI or alias, as in QUEUE_EVENTS.
# Indexes: uq_asset_name, ix_asset_alias_asset_id, ix_asset_reference_name_role, ix_asset_event_asset_id_timestamp.
ASSETS: Final = SightedStatement.of(
    """
    SELECT a.name, a.uri, a.is_active, a.extra, r.producers, r.consumers,
           (SELECT max(timestamp) FROM asset_event AS e WHERE e.asset_id = a.id) AS last_event_at
      FROM asset AS a
     CROSS JOIN LATERAL (SELECT ARRAY(SELECT alias FROM asset_alias WHERE asset_id = a.id) AS names) AS l
     CROSS JOIN LATERAL (
           SELECT array_agg(DISTINCT dag_id ORDER BY dag_id) FILTER (WHERE role = 'outlet') AS producers,
                  array_agg(DISTINCT dag_id ORDER BY dag_id) FILTER (WHERE role = 'schedule') AS consumers
             FROM asset_reference
            WHERE name = ANY (ARRAY[a.name, a.uri] || l.names)
              AND CASE kind WHEN 'uri' THEN name = a.uri WHEN 'alias' THEN name = ANY (l.names) ELSE name = a.name END
     ) AS r
     WHERE ($1::text IS NULL OR a.name = $1) AND ($2::text IS NULL OR a.name > $2) [seen]
     ORDER BY a.name LIMIT $3
""",
    "(r.producers && ?::text[] OR r.consumers && ?::text[])",
)


async def list_assets(
    db: Database, *, name: str | None = None, after: str | None = None, limit: int | None = None, seen: Seen = None
) -> list[AssetRow]:
    """Assets by name, including inactive ones, after the one named `after`; or only the one with that `name`.

    Only those that DAGs that are `seen` produce or wait for; other DAGs are not named.
    """
    async with db.acquire() as conn:
        rows = await ASSETS.fetch(conn, name, after, limit, seen=seen)
    return [
        AssetRow(
            name=row["name"],
            uri=row["uri"],
            is_active=row["is_active"],
            producers=_among(row["producers"], seen),
            consumers=_among(row["consumers"], seen),
            last_event_at=row["last_event_at"],
            extra=shown_object(row["extra"]),
        )
        for row in rows
    ]


def _among(dag_ids: Collection[str] | None, seen: Seen) -> list[str]:
    return [dag_id for dag_id in dag_ids or () if seen is None or dag_id in seen]


async def get_asset(db: Database, name: str, *, seen: Seen = None) -> AssetRow:
    """One asset; raises NotFound, with suggestions for those who see all DAGs."""
    if found := await list_assets(db, name=name, seen=seen):
        return found[0]
    if seen is not None:
        raise NotFound("There is no such asset among those of DAGs that you may see.")
    async with db.acquire() as conn:
        names = [row[0] for row in await conn.fetch("SELECT name FROM asset")]
    raise NotFound(f"There is no asset {name!r}.{did_you_mean(name, names)}")


_EVENT: Final = """
    SELECT e.id, a.name, a.uri, e.timestamp, e.extra, e.alias, e.source_dag_id AS dag_id, r.run_id,
           v.spec -> 'tasks' -> e.source_task_index ->> 'task_id' AS task_id, e.source_map_index AS map_index,
           e.partition_key
      FROM asset_event AS e
      JOIN asset AS a ON a.id = e.asset_id
      LEFT JOIN dag_run AS r ON r.id = e.source_run_id
      LEFT JOIN dag_version AS v ON v.id = r.version_id
"""

# Index: ix_asset_event_asset_id_timestamp, backwards.
EVENTS_OF: Final = f"""
    SELECT * FROM (
        {_EVENT}
         WHERE ($1::text IS NULL OR a.name = $1) AND ($2::text IS NULL OR a.uri = $2)
           AND ($3::text IS NULL OR (e.alias = $3 AND a.id IN (SELECT asset_id FROM asset_alias WHERE alias = $3)))
           AND ($5::timestamptz IS NULL OR (e.timestamp, e.id) < ($5, $6::bigint))
         ORDER BY e.timestamp DESC, e.id DESC LIMIT $4
    ) AS newest ORDER BY timestamp, id
"""


async def events_of(
    conn: DatabaseConnection,
    *,
    name: str | None = None,
    uri: str | None = None,
    alias: str | None = None,
    before: tuple[datetime, int] | None = None,
    limit: int,
) -> list[EventRow]:
    """The newest `limit` events of the asset with that name or URI, or that an alias led to; oldest first.

    `before`: only events before the one with that timestamp and id.
    """
    return [_event(row) for row in await conn.fetch(EVENTS_OF, name, uri, alias, limit, *(before or (None, None)))]


MOST_EVENTS: Final = 10_000  # of one run

# Index: ix_asset_consumption_run_id.
EVENTS_OF_RUN: Final = f"""
    SELECT * FROM (
        {_EVENT}
          JOIN asset_consumption AS c ON c.event_id = e.id
         WHERE c.run_id = $1 ORDER BY e.timestamp DESC, e.id DESC LIMIT $2
    ) AS newest ORDER BY timestamp, id
"""


async def events_of_run(conn: DatabaseConnection, run: int) -> tuple[list[EventRow], bool]:
    """The newest `MOST_EVENTS` events that made an asset-triggered run, oldest first; and whether there are more."""
    rows = await conn.fetch(EVENTS_OF_RUN, run, MOST_EVENTS + 1)
    return [_event(row) for row in rows[-MOST_EVENTS:]], len(rows) > MOST_EVENTS


def _event(row: Any) -> EventRow:
    values = dict(row)
    return EventRow(**{**values, "extra": shown_object(values["extra"])})


NAMES_AT: Final = "SELECT uri, min(name) AS name FROM asset WHERE uri = ANY($1::text[]) AND is_active GROUP BY uri"


async def names_at(conn: DatabaseConnection, uris: Collection[str]) -> dict[str, str]:
    """The names of the active assets with these URIs; other URIs are absent."""
    return {row["uri"]: row["name"] for row in await conn.fetch(NAMES_AT, sorted(uris))}
