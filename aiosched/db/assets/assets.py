"""Statements on asset events: storing them, queueing them for their consumers, handing them to runs.

No decisions live here (core/assets/conditions.py has them). Locks are taken after those of the hot transaction and in
one order everywhere: rows of `dag` by id, assets by name, queue rows by (DAG id, asset). Each event changes its queue
row under the row's lock, so a transaction that has locked it sees all events that it represents.

Source: the semantics reference, section 15.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from aiosched.core.assets.conditions import NO_GROUP, AssetId, AssetReference, QueuedAsset
from aiosched.db.schema.tables import ASSET_REFERENCE
from aiosched.db.server.connection import DatabaseConnection

# -- what parsing stores ------------------------------------------------------------------------

# What a mention leaves out (extra, a group, or a URI other than the name) keeps the value given by another mention.
PUT_ASSETS: Final = """
    INSERT INTO asset AS a (name, uri, extra, group_name)
    SELECT name, uri, extra::json, group_name
      FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS n (name, uri, extra, group_name) ORDER BY name
    ON CONFLICT (name) DO UPDATE
       SET is_active = true,
           uri = CASE WHEN excluded.uri = excluded.name THEN a.uri ELSE excluded.uri END,
           extra = CASE WHEN excluded.extra::text = '{}' THEN a.extra ELSE excluded.extra END,
           group_name = CASE WHEN excluded.group_name = 'asset' THEN a.group_name ELSE excluded.group_name END
     WHERE NOT a.is_active OR excluded.uri NOT IN (a.uri, excluded.name)
        OR excluded.extra::text NOT IN (a.extra::text, '{}') OR excluded.group_name NOT IN (a.group_name, 'asset')
"""
# Their earlier mentions are deleted; `asset_scheduled_at` is when a DAG was first scheduled on its assets, NULL if it
# is not (any longer).
DROP_REFERENCES: Final = """
    WITH given AS (SELECT * FROM unnest($1::text[], $2::bool[]) AS n (dag_id, scheduled)),
    gone AS (DELETE FROM asset_reference AS r USING given WHERE r.dag_id = given.dag_id)
    UPDATE dag AS d
       SET asset_scheduled_at = CASE WHEN given.scheduled THEN coalesce(d.asset_scheduled_at, $3) END
      FROM given
     WHERE d.dag_id = given.dag_id AND (d.asset_scheduled_at IS NOT NULL) <> given.scheduled
"""
# Whether the runs of DAGs are of partitions; returns those for which this has changed.
NOTE_PARTITIONED: Final = """
    UPDATE dag AS d SET is_partitioned = n.partitioned FROM unnest($1::text[], $2::bool[]) AS n (dag_id, partitioned)
     WHERE d.dag_id = n.dag_id AND d.is_partitioned <> n.partitioned
    RETURNING d.dag_id
"""
FORGET_KEYS: Final = (
    "DELETE FROM asset_key_event WHERE dag_id = ANY($1::text[])",
    "DELETE FROM asset_partition WHERE dag_id = ANY($1::text[])",
    "DELETE FROM asset_queue WHERE dag_id = ANY($1::text[])",
)
_MENTION: Final = ("dag_id", "role", "kind", "name", "uri", "task_id", "watchers", "fresh_within", "is_check")
PUT_REFERENCES: Final = f"{ASSET_REFERENCE.insert(_MENTION)} ON CONFLICT DO NOTHING"


async def store_references(
    conn: DatabaseConnection, references: Mapping[str, Sequence[AssetReference]], *, now: datetime
) -> None:
    """Replace the mentions of these DAGs (by id; their rows are locked); their assets exist and are active."""
    if not references:
        return
    dag_ids = sorted(references)
    scheduled = [any(r.role == "schedule" for r in references[dag_id]) for dag_id in dag_ids]
    await conn.execute(DROP_REFERENCES, dag_ids, scheduled, now)
    partitioned = [any(r.partitioned for r in references[dag_id]) for dag_id in dag_ids]
    if changed := [row["dag_id"] for row in await conn.fetch(NOTE_PARTITIONED, dag_ids, partitioned)]:
        for statement in FORGET_KEYS:  # and what is queued by the rules of before
            await conn.execute(statement, changed)
    assets: dict[str, tuple[str, str, str]] = {}
    for mention in (r for dag_id in dag_ids for r in references[dag_id] if r.kind == "asset"):
        uri, extra, group = assets.get(mention.name, (mention.name, "{}", NO_GROUP))
        if mention.extra:
            extra = msgspec.json.encode(mention.extra, order="sorted").decode()
        uri = uri if mention.uri == mention.name else mention.uri
        assets[mention.name] = uri, extra, group if mention.group == NO_GROUP else mention.group
    if assets:
        await conn.execute(PUT_ASSETS, list(assets), *map(list, zip(*assets.values(), strict=True)))
    rows = [
        (
            dag_id,
            r.role,
            r.kind,
            r.name,
            r.uri,
            r.task_id,
            msgspec.json.encode(r.watchers).decode() if r.watchers else None,
            r.fresh_within,
            r.is_check,
        )
        for dag_id in dag_ids
        for r in references[dag_id]
    ]
    if rows:
        await conn.execute(PUT_REFERENCES, *map(list, zip(*rows, strict=True)))


async def forget_references(conn: DatabaseConnection, dag_ids: Collection[str]) -> None:
    """Delete the mentions of DAGs that have become stale."""
    if dag_ids:
        await conn.execute(DROP_REFERENCES, sorted(dag_ids), [False] * len(dag_ids), None)


# Another asset with the same URI, or another URI for the same asset. Index: ix_asset_reference_name_role.
CLASHES: Final = """
    SELECT DISTINCT n.dag_id, n.name, n.uri, r.dag_id AS other, r.uri AS other_uri
      FROM unnest($1::text[], $2::text[], $3::text[]) AS n (dag_id, name, uri)
      JOIN asset_reference AS r ON r.name = n.name AND r.kind = 'asset' AND r.dag_id <> n.dag_id
     WHERE n.uri <> n.name AND r.uri NOT IN (n.uri, r.name)
     ORDER BY n.dag_id, n.name, other
"""


class Clash(NamedTuple):
    """Two DAGs contradict each other about the location of an asset."""

    dag_id: str
    name: str
    uri: str
    other: str
    other_uri: str


async def clashes(conn: DatabaseConnection, references: Mapping[str, Sequence[AssetReference]]) -> list[Clash]:
    """The contradictions of these DAGs with the stored mentions of others."""
    rows = [(dag_id, r.name, r.uri) for dag_id, all_ in references.items() for r in all_ if r.kind == "asset"]
    if not rows:
        return []
    return [Clash(*row) for row in await conn.fetch(CLASHES, *map(list, zip(*rows, strict=True)))]


# An asset is active while a DAG mentions it, or an alias that resolved to it. Updated in both directions, so that the
# next sweep corrects one that missed a parse.
SWEEP: Final = """
    UPDATE asset AS a SET is_active = now.used
      FROM (
        SELECT id, EXISTS (SELECT FROM asset_reference AS r WHERE r.name = a.name AND r.kind IN ('asset', 'name'))
                OR EXISTS (SELECT FROM asset_reference AS r WHERE r.name = a.uri AND r.kind = 'uri')
                OR EXISTS (SELECT FROM asset_alias AS l JOIN asset_reference AS r ON r.name = l.alias
                            WHERE l.asset_id = a.id AND r.kind = 'alias') AS used
          FROM asset AS a
      ) AS now
     WHERE a.id = now.id AND a.is_active <> now.used
    RETURNING a.name, a.is_active
"""


async def sweep(conn: DatabaseConnection) -> dict[str, bool]:
    """Make assets that no DAG mentions inactive (15.1); returns those that changed, and whether they are active now."""
    return {row["name"]: row["is_active"] for row in await conn.fetch(SWEEP)}


# -- events -------------------------------------------------------------------------------------


class NewAssetEvent(NamedTuple):
    """An event to store. `extra` is a JSON object; the source is None for an event that a user emits."""

    name: str
    uri: str
    extra: str
    alias: str | None
    timestamp: datetime
    dag_id: str | None = None
    run_id: int | None = None
    task_index: int | None = None
    map_index: int | None = None
    partition_key: str | None = None
    partition_date: datetime | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of storing events."""

    partitions: frozenset[int]  # of the consumers that they were queued for
    refused: tuple[str, ...]  # names of assets that are inactive or do not exist


ADD_ALIASED: Final = """
    WITH made AS (
        INSERT INTO asset AS a (name, uri)
        SELECT DISTINCT ON (name) name, uri FROM unnest($1::text[], $2::text[]) AS n (name, uri) ORDER BY name
        ON CONFLICT (name) DO UPDATE SET is_active = true
        RETURNING id, name
    )
    INSERT INTO asset_alias (alias, asset_id)
    SELECT DISTINCT n.alias, made.id FROM unnest($3::text[], $1::text[]) AS n (alias, name) JOIN made USING (name)
     ORDER BY 1, 2
    ON CONFLICT DO NOTHING
"""

ADD_EVENTS: Final = """
    INSERT INTO asset_event (asset_id, timestamp, source_dag_id, source_run_id, source_task_index, source_map_index,
                             alias, extra, partition_key, partition_date)
    SELECT a.id, n.timestamp, n.dag_id, n.run_id, n.task_index, n.map_index, n.alias, n.extra::json, n.partition_key,
           n.partition_date
      FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::bigint[], $5::int[], $6::int[], $7::text[],
                  $8::text[], $9::text[], $10::timestamptz[])
           WITH ORDINALITY AS n (name, timestamp, dag_id, run_id, task_index, map_index, alias, extra, partition_key,
                                 partition_date, position)
      JOIN asset AS a ON a.name = n.name AND a.is_active
     ORDER BY n.position
    RETURNING id, asset_id, timestamp, partition_key
"""

# The DAGs that are scheduled on the asset of an event `e`. Paused and stale DAGs are left out. Index:
# ix_asset_reference_name_role.
_CONSUMERS: Final = """
      JOIN asset AS a ON a.id = e.asset_id
     CROSS JOIN LATERAL (
        SELECT dag_id FROM asset_reference
         WHERE role = 'schedule' AND kind IN ('asset', 'name') AND name = a.name
         UNION
        SELECT dag_id FROM asset_reference WHERE role = 'schedule' AND kind = 'uri' AND name = a.uri
         UNION
        SELECT r.dag_id FROM asset_alias AS l JOIN asset_reference AS r ON r.name = l.alias
         WHERE l.asset_id = a.id AND r.role = 'schedule' AND r.kind = 'alias'
     ) AS consumer
      JOIN dag AS d ON d.dag_id = consumer.dag_id AND NOT d.is_paused AND NOT d.is_stale
"""

# One row for each DAG and asset, however many events. An event with a partition key makes only runs of partitions.
QUEUE_EVENTS: Final = f"""
    INSERT INTO asset_queue AS q (dag_id, asset_id, partition, first_at, newest_at)
    SELECT d.dag_id, e.asset_id, d.partition, min(e.timestamp), max(e.timestamp)
      FROM unnest($1::bigint[], $2::timestamptz[]) AS e (asset_id, timestamp) {_CONSUMERS} AND NOT d.is_partitioned
     GROUP BY d.dag_id, e.asset_id, d.partition
     ORDER BY d.dag_id, e.asset_id
    ON CONFLICT (dag_id, asset_id) DO UPDATE
       SET first_at = least(q.first_at, excluded.first_at), newest_at = greatest(q.newest_at, excluded.newest_at)
    RETURNING partition
"""

# Events with a partition key, for the DAGs whose runs are of partitions; their owners map them (db/assets).
QUEUE_KEYS: Final = f"""
    INSERT INTO asset_key_event (dag_id, event_id, partition)
    SELECT d.dag_id, e.event_id, d.partition
      FROM unnest($1::bigint[], $2::bigint[]) AS e (event_id, asset_id) {_CONSUMERS} AND d.is_partitioned
     ORDER BY d.dag_id, e.event_id
    RETURNING partition
"""

INACTIVE: Final = """
    SELECT n.name FROM unnest($1::text[]) AS n (name)
     WHERE NOT EXISTS (SELECT FROM asset AS a WHERE a.name = n.name AND a.is_active)
"""


async def record_events(conn: DatabaseConnection, events: Sequence[NewAssetEvent]) -> Recorded:
    """Store events and queue them for the DAGs that are scheduled on their assets. Call it in a transaction.

    An asset that is added through an alias exists and is active from now on. Events of other assets that no DAG
    mentions are refused.
    """
    aliased = [event for event in events if event.alias is not None]
    if aliased:
        await conn.execute(ADD_ALIASED, *([getattr(e, name) for e in aliased] for name in ("name", "uri", "alias")))
    refused = await inactive_assets(conn, {event.name for event in events})
    columns = (
        "name", "timestamp", "dag_id", "run_id", "task_index", "map_index", "alias", "extra", "partition_key",
        "partition_date",
    )  # fmt: skip
    stored = await conn.fetch(ADD_EVENTS, *([getattr(e, name) for e in events] for name in columns))
    queued = []
    if whole := [row for row in stored if row["partition_key"] is None]:
        queued += await conn.fetch(QUEUE_EVENTS, *([row[name] for row in whole] for name in ("asset_id", "timestamp")))
    if keyed := [row for row in stored if row["partition_key"] is not None]:
        queued += await conn.fetch(QUEUE_KEYS, *([row[name] for row in keyed] for name in ("id", "asset_id")))
    return Recorded(frozenset(row["partition"] for row in queued), tuple(refused))


async def inactive_assets(conn: DatabaseConnection, names: Collection[str]) -> list[str]:
    """Those of `names` that are not assets, or that no DAG mentions; sorted."""
    return sorted(row["name"] for row in await conn.fetch(INACTIVE, sorted(names)))


# -- runs ---------------------------------------------------------------------------------------

_QUEUE: Final = """
    SELECT q.dag_id, q.asset_id, a.name, a.uri, q.newest_at
      FROM asset_queue AS q JOIN asset AS a ON a.id = q.asset_id
"""
# Index: ix_asset_queue_partition.
READ_QUEUE: Final = f"{_QUEUE} WHERE q.partition = ANY($1::smallint[])"
# Waits for events that are just being queued, so that everything that a row represents is read here.
LOCK_QUEUE: Final = f"{_QUEUE} WHERE q.dag_id = ANY($1::text[]) ORDER BY q.dag_id, q.asset_id FOR UPDATE OF q"

Queue = dict[str, list[QueuedAsset]]  # by DAG id


async def read_queue(conn: DatabaseConnection, partitions: Iterable[int]) -> Queue:
    """The queue rows for the DAGs of these partitions."""
    return _queue(await conn.fetch(READ_QUEUE, sorted(partitions)))


async def lock_queue(conn: DatabaseConnection, dag_ids: Iterable[str]) -> Queue:
    """The queue rows for these DAGs, locked until the transaction ends."""
    return _queue(await conn.fetch(LOCK_QUEUE, sorted(dag_ids)))


def _queue(rows: Iterable[Mapping[str, object]]) -> Queue:
    found: dict[str, list[QueuedAsset]] = {}
    for dag_id, asset_id, name, uri, newest_at in (row.values() for row in rows):
        found.setdefault(dag_id, []).append(QueuedAsset(asset_id, AssetId(name, uri), newest_at))  # type: ignore
    return found


ALIAS_TARGETS: Final = """
    SELECT l.alias, a.name FROM asset_alias AS l JOIN asset AS a ON a.id = l.asset_id WHERE l.alias = ANY($1::text[])
"""


async def alias_targets(conn: DatabaseConnection, aliases: Collection[str]) -> dict[str, set[str]]:
    """The names of the assets that these aliases have resolved to; aliases that resolved to none are absent."""
    found: dict[str, set[str]] = {}
    if aliases:
        for row in await conn.fetch(ALIAS_TARGETS, sorted(aliases)):
            found.setdefault(row["alias"], set()).add(row["name"])
    return found


class Watermark(NamedTuple):
    """The instant from which events of a DAG's assets belong to its next asset run."""

    scheduled_at: datetime | None
    last_run_after: datetime | None


LOCK_WATERMARKS: Final = """
    SELECT dag_id, asset_scheduled_at, last_asset_run_after FROM dag
     WHERE dag_id = ANY($1::text[]) ORDER BY dag_id FOR NO KEY UPDATE
"""


async def lock_watermarks(conn: DatabaseConnection, dag_ids: Iterable[str]) -> dict[str, Watermark]:
    """The watermarks of these DAGs, whose rows stay locked: before any lock on a version, as in parsing."""
    rows = await conn.fetch(LOCK_WATERMARKS, sorted(dag_ids))
    return {row["dag_id"]: Watermark(row["asset_scheduled_at"], row["last_asset_run_after"]) for row in rows}


class NewConsumer(NamedTuple):
    """A run and the events that belong to it: later than `after` (None: all), not later than `until`."""

    dag_id: str
    run_id: int
    after: datetime | None
    until: datetime


# Besides those of the window: events whose queue row is older than it, because they were committed late. An event
# counts once per DAG. Index: ix_asset_event_asset_id_timestamp.
CONSUME: Final = """
    INSERT INTO asset_consumption (dag_id, event_id, run_id)
    SELECT n.dag_id, e.id, n.run_id
      FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::timestamptz[]) AS n (dag_id, run_id, after, until)
     CROSS JOIN LATERAL (
        SELECT a.id FROM asset_reference AS r JOIN asset AS a ON a.name = r.name
         WHERE r.dag_id = n.dag_id AND r.role = 'schedule' AND r.kind IN ('asset', 'name')
         UNION
        SELECT a.id FROM asset_reference AS r JOIN asset AS a ON a.uri = r.name
         WHERE r.dag_id = n.dag_id AND r.role = 'schedule' AND r.kind = 'uri'
         UNION
        SELECT l.asset_id FROM asset_reference AS r JOIN asset_alias AS l ON l.alias = r.name
         WHERE r.dag_id = n.dag_id AND r.role = 'schedule' AND r.kind = 'alias'
         UNION
        SELECT asset_id FROM asset_queue AS q WHERE q.dag_id = n.dag_id
     ) AS mine
      LEFT JOIN asset_queue AS q ON q.dag_id = n.dag_id AND q.asset_id = mine.id
      JOIN asset_event AS e ON e.asset_id = mine.id AND e.timestamp <= n.until AND e.partition_key IS NULL
       AND e.timestamp >= least(coalesce(n.after + interval '1 microsecond', '-infinity'), q.first_at)
     WHERE NOT EXISTS (SELECT FROM asset_consumption AS c WHERE c.dag_id = n.dag_id AND c.event_id = e.id)
"""
NOTE_RUNS: Final = """
    UPDATE dag AS d SET last_asset_run_after = n.until
      FROM unnest($1::text[], $2::timestamptz[]) AS n (dag_id, until) WHERE d.dag_id = n.dag_id
"""
DROP_QUEUE: Final = """
    DELETE FROM asset_queue AS q
     USING unnest($1::text[], $2::bigint[]) AS n (dag_id, asset_id)
     WHERE q.dag_id = n.dag_id AND q.asset_id = n.asset_id
"""


async def consume(conn: DatabaseConnection, consumers: Sequence[NewConsumer]) -> None:
    """Assign events to runs, while the queue rows are locked and still exist."""
    columns = list(map(list, zip(*consumers, strict=True)))
    await conn.execute(CONSUME, *columns)
    await conn.execute(NOTE_RUNS, columns[0], columns[3])


async def drop_queue(conn: DatabaseConnection, queue: Queue) -> None:
    """Delete these rows, which are locked, and no others: later ones cause the next run."""
    rows = [(dag_id, row.asset_id) for dag_id, rows in queue.items() for row in rows]
    if rows:
        await conn.execute(DROP_QUEUE, *map(list, zip(*rows, strict=True)))


ASSET_STATES: Final = "SELECT name, is_active FROM asset"


async def asset_states(conn: DatabaseConnection) -> dict[str, bool]:
    """Every asset by name, and whether it is active."""
    return {row["name"]: row["is_active"] for row in await conn.fetch(ASSET_STATES)}
