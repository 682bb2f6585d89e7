"""Statements on partitions of assets: events with keys, the keys of runs that they lead to, and creating these runs.

No decisions live here (core/creation/partitions.py has them). Only the owner of a DAG changes its rows of
`asset_partition`; events are added by whoever stores them. Source: the semantics reference, section 37.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from aiosched.core.assets.conditions import AssetId
from aiosched.db.server.connection import DatabaseConnection, Queryable


class KeyEvent(NamedTuple):
    """An event with a partition key that waits to be mapped for a DAG."""

    dag_id: str
    event_id: int
    asset: AssetId
    key: str
    date: datetime | None
    at: datetime


# What was mapped or refused by another schedule (condition or mapper) waits to be mapped again, except for keys that
# have had their run: those events count as consumed. Index: uq_asset_partition_dag_id_partition_key.
TAKE_BACK: Final = """
    WITH given AS (SELECT * FROM unnest($1::text[], $2::text[]) AS n (dag_id, mapping)),
    old AS (
        DELETE FROM asset_partition AS p USING given
         WHERE p.dag_id = given.dag_id AND p.mapping <> given.mapping RETURNING p.id, p.dag_id, p.partition
    )
    INSERT INTO asset_key_event (dag_id, event_id, partition)
    SELECT DISTINCT old.dag_id, e.event_id, old.partition
      FROM old JOIN asset_partition_event AS e ON e.asset_partition_id = old.id
    ON CONFLICT (dag_id, event_id) DO NOTHING
"""
REFUSED_BY_OTHERS: Final = """
    UPDATE asset_key_event AS e SET refused = NULL, mapping = NULL
      FROM unnest($1::text[], $2::text[]) AS n (dag_id, mapping)
     WHERE e.dag_id = n.dag_id AND e.refused IS NOT NULL AND e.mapping <> n.mapping
"""


async def take_back(conn: DatabaseConnection, mappings: Mapping[str, str]) -> None:
    """Have everything mapped again that schedules other than these have mapped; `mappings` are digests by DAG id."""
    given = list(mappings), list(mappings.values())
    await conn.execute(TAKE_BACK, *given)
    await conn.execute(REFUSED_BY_OTHERS, *given)


# Index: uq_asset_partition_dag_id_partition_key and the primary key.
ARE_TO_MAP: Final = """
    SELECT EXISTS (
        SELECT FROM unnest($1::text[], $2::text[]) AS n (dag_id, mapping)
         WHERE EXISTS (SELECT FROM asset_partition AS p WHERE p.dag_id = n.dag_id AND p.mapping <> n.mapping)
            OR EXISTS (SELECT FROM asset_key_event AS k
                        WHERE k.dag_id = n.dag_id AND (k.refused IS NULL OR k.mapping <> n.mapping)))
"""


async def are_to_map(conn: Queryable, mappings: Mapping[str, str]) -> bool:
    """Whether events wait to be mapped, for the first time or again; `mappings` are digests by DAG id."""
    return bool(await conn.fetchval(ARE_TO_MAP, list(mappings), list(mappings.values())))


# An event that is stored while the schedule of its consumer changes can leave one behind.
DROP_KEYS_WITHOUT_USE: Final = """
    DELETE FROM asset_key_event AS k
     WHERE NOT EXISTS (SELECT FROM dag AS d WHERE d.dag_id = k.dag_id AND d.is_partitioned)
"""


async def drop_keys_without_use(conn: DatabaseConnection) -> None:
    """Delete events that wait to be mapped for DAGs whose schedules have no partitions (any longer)."""
    await conn.execute(DROP_KEYS_WITHOUT_USE)


# Indexes: ix_asset_key_event_waiting and ix_asset_partition_due (partial).
DAGS_WITH_WORK: Final = """
    SELECT dag_id FROM asset_key_event WHERE partition = ANY($1::smallint[]) AND refused IS NULL
     UNION
    SELECT dag_id FROM asset_partition WHERE partition = ANY($1::smallint[]) AND due_at IS NOT NULL
"""


async def dags_with_work(conn: DatabaseConnection, partitions: Iterable[int]) -> set[str]:
    """The DAGs of these partitions with events to be mapped or keys that are due, also while they are paused."""
    return {row["dag_id"] for row in await conn.fetch(DAGS_WITH_WORK, sorted(partitions))}


# Index: ix_asset_key_event_waiting (partial), in its order.
KEY_EVENTS: Final = """
    SELECT k.dag_id, k.event_id, a.name, a.uri, e.partition_key, e.partition_date, e.timestamp
      FROM asset_key_event AS k
      JOIN asset_event AS e ON e.id = k.event_id
      JOIN asset AS a ON a.id = e.asset_id
     WHERE k.partition = ANY($1::smallint[]) AND k.refused IS NULL AND k.dag_id = ANY($2::text[])
     ORDER BY k.event_id, k.dag_id LIMIT $3
"""


async def key_events(
    conn: DatabaseConnection, partitions: Iterable[int], dag_ids: Collection[str], *, limit: int
) -> list[KeyEvent]:
    """The oldest events that wait to be mapped for these DAGs."""
    rows = await conn.fetch(KEY_EVENTS, sorted(partitions), sorted(dag_ids), limit)
    return [
        KeyEvent(
            row["dag_id"],
            row["event_id"],
            AssetId(row["name"], row["uri"]),
            row["partition_key"],
            row["partition_date"],
            row["timestamp"],
        )
        for row in rows
    ]


MARK_REFUSED: Final = """
    UPDATE asset_key_event AS k SET refused = n.refused, mapping = n.mapping
      FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[]) AS n (dag_id, event_id, refused, mapping)
     WHERE k.dag_id = n.dag_id AND k.event_id = n.event_id
"""


async def mark_refused(conn: DatabaseConnection, refused: Sequence[tuple[str, int, str, str]]) -> None:
    """Note why no run follows from events: (DAG id, event, reason, digest of the schedule)."""
    if refused:
        await conn.execute(MARK_REFUSED, *map(list, zip(*refused, strict=True)))


# The date that a pending key carries is NULL where its events contradict each other.
PUT_PARTITIONS: Final = """
    INSERT INTO asset_partition AS p (dag_id, partition_key, partition, mapping, partition_date, newest_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::smallint[], $4::text[], $5::timestamptz[], $6::timestamptz[])
     ORDER BY 1, 2
    ON CONFLICT (dag_id, partition_key) DO UPDATE
       SET newest_at = greatest(p.newest_at, excluded.newest_at),
           partition_date = CASE WHEN p.partition_date IS DISTINCT FROM excluded.partition_date
                                  AND p.partition_date IS NOT NULL AND excluded.partition_date IS NOT NULL THEN NULL
                                 ELSE coalesce(p.partition_date, excluded.partition_date) END
    RETURNING id, dag_id, partition_key
"""
PUT_EVENTS: Final = """
    INSERT INTO asset_partition_event (asset_partition_id, event_id)
    SELECT DISTINCT * FROM unnest($1::bigint[], $2::bigint[]) AS n (asset_partition_id, event_id)
    ON CONFLICT DO NOTHING
"""
# Events that have been mapped: they wait no longer.
TAKE_EVENTS: Final = """
    DELETE FROM asset_key_event AS k USING unnest($1::text[], $2::bigint[]) AS n (dag_id, event_id)
     WHERE k.dag_id = n.dag_id AND k.event_id = n.event_id AND k.refused IS NULL
"""
# The runs that events have led to already: a key is not made again by an event that is mapped for the second time.
HAD_RUNS: Final = """
    SELECT c.dag_id, c.event_id, r.partition_key
      FROM unnest($1::text[], $2::bigint[]) AS n (dag_id, event_id)
      JOIN asset_consumption AS c ON c.dag_id = n.dag_id AND c.event_id = n.event_id
      JOIN dag_run AS r ON r.id = c.run_id AND r.partition_key IS NOT NULL
"""


class MappedEvent(NamedTuple):
    """An event and a key of a run that it belongs to."""

    event: KeyEvent
    key: str
    partition: int
    mapping: str
    date: datetime | None


async def put_events(
    conn: DatabaseConnection, taken: Sequence[KeyEvent], mapped: Sequence[MappedEvent]
) -> dict[tuple[str, str], int]:
    """Add events to pending keys; returns the ids of these, by DAG id and key. `taken` are no longer to be mapped."""
    names = [one.dag_id for one in taken], [one.event_id for one in taken]
    had = {(row["dag_id"], row["event_id"], row["partition_key"]) for row in await conn.fetch(HAD_RUNS, *names)}
    await conn.execute(TAKE_EVENTS, *names)
    fresh = [one for one in mapped if (one.event.dag_id, one.event.event_id, one.key) not in had]
    if not fresh:
        return {}
    pending: dict[tuple[str, str], list[MappedEvent]] = {}
    for one in fresh:
        pending.setdefault((one.event.dag_id, one.key), []).append(one)
    rows = [
        (*name, ones[0].partition, ones[0].mapping, _agreed(ones), max(one.event.at for one in ones))
        for name, ones in pending.items()
    ]
    stored = await conn.fetch(PUT_PARTITIONS, *map(list, zip(*rows, strict=True)))
    ids = {(row["dag_id"], row["partition_key"]): row["id"] for row in stored}
    places = [(ids[one.event.dag_id, one.key], one.event.event_id) for one in fresh]
    await conn.execute(PUT_EVENTS, *map(list, zip(*places, strict=True)))
    return ids


def _agreed(events: Iterable[MappedEvent]) -> datetime | None:
    dates = {one.date for one in events if one.date is not None}
    return dates.pop() if len(dates) == 1 else None


# -- pending keys -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PendingPartition:
    """A key of a run with what has arrived for it."""

    id: int
    dag_id: str
    key: str
    date: datetime | None
    newest_at: datetime
    arrived: dict[AssetId, Collection[str]]


_PENDING: Final = """
    SELECT p.id, p.dag_id, p.partition_key, p.partition_date, p.newest_at, a.name, a.uri,
           array_agg(DISTINCT e.partition_key) AS keys
      FROM asset_partition AS p
      JOIN asset_partition_event AS l ON l.asset_partition_id = p.id
      JOIN asset_event AS e ON e.id = l.event_id
      JOIN asset AS a ON a.id = e.asset_id
"""
_GROUPED: Final = "GROUP BY p.id, p.dag_id, p.partition_key, p.partition_date, p.newest_at, a.name, a.uri"
# Index: the primary keys.
READ_PENDING: Final = f"{_PENDING} WHERE p.id = ANY($1::bigint[]) {_GROUPED} ORDER BY p.newest_at, p.id"
# Index: uq_asset_partition_dag_id_partition_key.
PENDING_OF_DAG: Final = f"""
    {_PENDING}
     WHERE p.id IN (SELECT id FROM asset_partition WHERE dag_id = $1 AND due_at IS NULL
                     ORDER BY newest_at DESC, id DESC LIMIT $2)
    {_GROUPED} ORDER BY p.newest_at DESC, p.id DESC
"""


async def read_pending(conn: DatabaseConnection, ids: Collection[int]) -> list[PendingPartition]:
    """These pending keys, those with the oldest events first."""
    return _pending(await conn.fetch(READ_PENDING, sorted(ids))) if ids else []


async def pending_of_dag(conn: DatabaseConnection, dag_id: str, *, limit: int) -> list[PendingPartition]:
    """The pending keys of a DAG that are not due, those with the newest events first."""
    return _pending(await conn.fetch(PENDING_OF_DAG, dag_id, limit))


def _pending(rows: Iterable[Any]) -> list[PendingPartition]:
    found: dict[int, PendingPartition] = {}
    for row in rows:
        one = found.setdefault(
            row["id"],
            PendingPartition(
                row["id"], row["dag_id"], row["partition_key"], row["partition_date"], row["newest_at"], {}
            ),
        )
        one.arrived[AssetId(row["name"], row["uri"])] = row["keys"]
    return list(found.values())


MARK_DUE: Final = "UPDATE asset_partition SET due_at = newest_at WHERE id = ANY($1::bigint[])"


async def mark_due(conn: DatabaseConnection, ids: Collection[int]) -> None:
    """The condition of these pending keys is met."""
    if ids:
        await conn.execute(MARK_DUE, sorted(ids))


# Index: ix_asset_partition_due (partial).
DUE: Final = """
    SELECT d.dag_id, p.id
      FROM unnest($1::text[], $2::smallint[], $3::int[]) AS d (dag_id, partition, room)
     CROSS JOIN LATERAL (
        SELECT id FROM asset_partition
         WHERE partition = d.partition AND dag_id = d.dag_id AND due_at IS NOT NULL ORDER BY due_at, id LIMIT d.room
     ) AS p
"""


async def due_partitions(conn: DatabaseConnection, rooms: Mapping[str, tuple[int, int]]) -> dict[str, list[int]]:
    """The ids of pending keys that are due, oldest first, by DAG id; `rooms`: partition and most runs of each DAG."""
    found: dict[str, list[int]] = {}
    if rooms:
        partitions, room = zip(*rooms.values(), strict=True)
        for row in await conn.fetch(DUE, list(rooms), list(partitions), list(room)):
            found.setdefault(row["dag_id"], []).append(row["id"])
    return found


# Index: uq_asset_partition_dag_id_partition_key.
COUNT_DUE: Final = "SELECT count(*) FROM asset_partition WHERE dag_id = $1 AND due_at IS NOT NULL"


async def count_due(conn: DatabaseConnection, dag_id: str) -> int:
    """How many pending keys of the DAG are due."""
    return int(await conn.fetchval(COUNT_DUE, dag_id))


CONSUME_PARTITIONS: Final = """
    INSERT INTO asset_consumption (dag_id, event_id, run_id)
    SELECT p.dag_id, l.event_id, n.run_id
      FROM unnest($1::bigint[], $2::bigint[]) AS n (id, run_id)
      JOIN asset_partition AS p ON p.id = n.id
      JOIN asset_partition_event AS l ON l.asset_partition_id = p.id
    ON CONFLICT DO NOTHING
"""
DROP_PARTITIONS: Final = "DELETE FROM asset_partition WHERE id = ANY($1::bigint[])"


async def consume_partitions(conn: DatabaseConnection, runs: Sequence[tuple[int, int]]) -> None:
    """Give the events of pending keys to their runs, as (id of the pending key, key of the run)."""
    if runs:
        await conn.execute(CONSUME_PARTITIONS, *map(list, zip(*runs, strict=True)))
        await conn.execute(DROP_PARTITIONS, [one for one, _ in runs])


# Index: the primary key.
REFUSED_OF_DAG: Final = """
    SELECT count(*) OVER () AS number, refused FROM asset_key_event
     WHERE dag_id = $1 AND refused IS NOT NULL ORDER BY event_id DESC LIMIT 1
"""


async def refused_of_dag(conn: DatabaseConnection, dag_id: str) -> tuple[int, str | None]:
    """How many events led to no run, and why the newest one did not."""
    row = await conn.fetchrow(REFUSED_OF_DAG, dag_id)
    return (0, None) if row is None else (row["number"], row["refused"])
