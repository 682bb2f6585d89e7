"""Queries on assets and their events, for people and tasks. No decisions here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiosched.core.assets.freshness import DueInstants, Freshness, freshness, limit_of
from aiosched.core.values.json_bounds import shown_object
from aiosched.db.access.sight import Seen, SightedStatement
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, did_you_mean


@dataclass(frozen=True, slots=True)
class AssetRow:
    """An asset, its producers and consumers (DAG ids, sorted), its newest event with its source, and its freshness.

    `fresh_within` is in seconds. The source is None if a person emitted the event, or if its DAG is not seen.
    """

    name: str
    uri: str
    is_active: bool
    producers: list[str]
    consumers: list[str]
    last_event_at: datetime | None
    extra: dict[str, Any]
    freshness: Freshness = Freshness.UNKNOWN
    expected_by: datetime | None = None
    fresh_within: float | None = None
    last_dag_id: str | None = None
    last_run_id: str | None = None
    last_task_id: str | None = None


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


# Consumers by name, URI or alias, as in QUEUE_EVENTS. Of several limits the shortest counts.
# Indexes: uq_asset_name, ix_asset_alias_asset_id, ix_asset_reference_name_role, ix_asset_event_asset_id_timestamp,
# the primary keys of dag_run and version_task.
_ASSETS: Final = """
    SELECT a.name, a.uri, a.is_active, a.extra, r.producers, r.consumers, r.fresh_within, e.last_event_at,
           e.last_dag_id, e.last_run_id, e.last_task_id
      FROM asset AS a
     CROSS JOIN LATERAL (SELECT ARRAY(SELECT alias FROM asset_alias WHERE asset_id = a.id) AS names) AS l
     CROSS JOIN LATERAL (
           SELECT array_agg(DISTINCT dag_id ORDER BY dag_id) FILTER (WHERE role = 'outlet') AS producers,
                  array_agg(DISTINCT dag_id ORDER BY dag_id) FILTER (WHERE role = 'schedule') AS consumers,
                  min(fresh_within) AS fresh_within
             FROM asset_reference
            WHERE name = ANY (ARRAY[a.name, a.uri] || l.names)
              AND CASE kind WHEN 'uri' THEN name = a.uri WHEN 'alias' THEN name = ANY (l.names) ELSE name = a.name END
     ) AS r
      LEFT JOIN LATERAL (
           SELECT n.timestamp AS last_event_at, n.source_dag_id AS last_dag_id, run.run_id AS last_run_id,
                  t.task_id AS last_task_id
             FROM (SELECT * FROM asset_event WHERE asset_id = a.id ORDER BY timestamp DESC, id DESC LIMIT 1) AS n
             LEFT JOIN dag_run AS run ON run.id = n.source_run_id
             LEFT JOIN version_task AS t ON t.version_id = run.version_id AND t.task_index = n.source_task_index
     ) AS e ON true
     WHERE [which] AND ($2::text IS NULL OR a.name > $2) [seen]
     ORDER BY a.name LIMIT $3
"""
_SIDE_SEEN: Final = "(r.producers && ?::text[] OR r.consumers && ?::text[])"
ASSETS: Final = SightedStatement.of(_ASSETS.replace("[which]", "$1::text[] IS NULL"), _SIDE_SEEN)
NAMED_ASSETS: Final = SightedStatement.of(_ASSETS.replace("[which]", "a.name = ANY ($1::text[])"), _SIDE_SEEN)


async def list_assets(
    db: Database,
    *,
    now: datetime,
    names: Collection[str] | None = None,
    after: str | None = None,
    limit: int | None = None,
    seen: Seen = None,
) -> list[AssetRow]:
    """Assets by name with their freshness at `now`, including inactive ones, after the one named `after`; or only
    those with these `names`.

    Only those that DAGs that are `seen` produce or wait for; other DAGs are not named, but their schedules count.
    """
    async with db.acquire() as conn:
        statement = ASSETS if names is None else NAMED_ASSETS
        rows = await statement.fetch(conn, None if names is None else sorted(names), after, limit, seen=seen)
        due = await read_due_instants(conn, {dag_id for row in rows for dag_id in row["producers"] or ()})
    return [_asset(row, due, now, seen) for row in rows]


def _asset(row: Any, due: Mapping[str, DueInstants], now: datetime, seen: Seen) -> AssetRow:
    within = limit_of(row["fresh_within"])
    status = freshness(
        now=now,
        last_event=row["last_event_at"],
        fresh_within=within,
        schedules=[due[dag_id] for dag_id in row["producers"] or () if dag_id in due],
    )
    source = {key: row[key] for key in ("last_dag_id", "last_run_id", "last_task_id")}
    return AssetRow(
        name=row["name"],
        uri=row["uri"],
        is_active=row["is_active"],
        producers=_among(row["producers"], seen),
        consumers=_among(row["consumers"], seen),
        last_event_at=row["last_event_at"],
        extra=shown_object(row["extra"]),
        freshness=status.state,
        expected_by=status.expected_by,
        fresh_within=None if within is None else within.total_seconds(),
        **(source if seen is None or row["last_dag_id"] in seen else {}),
    )


MOST_LOOKED_AT: Final = 2_000  # assets for one page of a list with a filter


async def find_assets_by_freshness(
    db: Database, wanted: Freshness, *, now: datetime, after: str | None, limit: int, seen: Seen = None
) -> tuple[list[AssetRow], str | None]:
    """The next assets with that freshness, at most `limit`, and the name to continue after (None: these are all).

    Looks at `MOST_LOOKED_AT` assets, so there may be more to come after few or none.
    """
    found: list[AssetRow] = []
    looked_at = 0
    while looked_at < MOST_LOOKED_AT:
        rows = await list_assets(db, now=now, after=after, limit=500, seen=seen)
        for row in rows:
            after = row.name
            if row.freshness is wanted:
                found.append(row)
                if len(found) > limit:
                    return found[:limit], found[limit - 1].name
        if len(rows) < 500:
            return found, None
        looked_at += len(rows)
    return found, after


# The next run, and the last two scheduled ones among the newest. Index: ix_dag_run_dag_id_run_after_id.
DUE_INSTANTS: Final = """
    SELECT d.dag_id, d.next_dagrun_create_after AS next,
           ARRAY(SELECT run_after
                   FROM (SELECT run_after, run_type FROM dag_run WHERE dag_id = d.dag_id
                          ORDER BY run_after DESC, id DESC LIMIT 20) AS newest
                  WHERE run_type = 'scheduled' ORDER BY run_after DESC LIMIT 2) AS last
      FROM dag AS d WHERE d.dag_id = ANY($1::text[]) AND NOT d.is_paused AND NOT d.is_stale
"""


async def read_due_instants(conn: DatabaseConnection, dag_ids: Collection[str]) -> dict[str, DueInstants]:
    """When the last scheduled runs of these DAGs were due and the next one will be; nothing of paused ones."""
    rows = await conn.fetch(DUE_INSTANTS, sorted(dag_ids)) if dag_ids else []
    return {row["dag_id"]: [*reversed(row["last"]), *([row["next"]] if row["next"] else ())] for row in rows}


def _among(dag_ids: Collection[str] | None, seen: Seen) -> list[str]:
    return [dag_id for dag_id in dag_ids or () if seen is None or dag_id in seen]


async def get_asset(db: Database, name: str, *, now: datetime, seen: Seen = None) -> AssetRow:
    """One asset, with its freshness at `now`; raises NotFound, with suggestions for those who see all DAGs."""
    if found := await list_assets(db, names=[name], now=now, seen=seen):
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
