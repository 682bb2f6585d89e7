"""Queries on assets and their events, for people and tasks. No decisions here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from aiosched.core.assets.conditions import NO_GROUP
from aiosched.core.assets.freshness import Freshness, ScheduledRun, freshness, last_due, limit_of
from aiosched.core.timetables import AnyTimetable, DataInterval, Restriction, upcoming
from aiosched.core.values.asset_checks import CheckStatus
from aiosched.core.values.json_bounds import shown_object
from aiosched.db.access.visibility import ScopedStatement, Seen
from aiosched.db.queries.check_queries import worst_checks
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, did_you_mean


@dataclass(frozen=True, slots=True)
class AssetRow:
    """An asset, its producers and consumers (DAG ids, sorted), its newest event with its source, and its freshness.

    `owners` and `description` are what its `extra` says, else the owners of its producers, and the description of the
    DAG that is of the asset alone (`@asset`). `fresh_within` is in seconds. The source is None if a person emitted the
    event, or if its DAG is not seen. `check` is the worst of what its checks said last.
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
    group: str = NO_GROUP
    owners: tuple[str, ...] = ()
    description: str | None = None
    check: CheckStatus | None = None


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


# Until when the data of `run` is; NULL if it says nothing, as a date in the future that somebody has chosen. (A
# timetable may make runs ahead of their intervals.)
_UNTIL: Final = """
    CASE WHEN run.run_type = 'scheduled' OR coalesce(run.data_interval_end, run.logical_date) <= [came]
         THEN coalesce(run.data_interval_end, run.logical_date) END
""".strip()

# Consumers by name, URI or alias, as in QUEUE_EVENTS. Of several limits the shortest counts. Beside the newest event
# the one about the newest data, among the last hundred: a run of long ago that runs again makes nothing new.
# Indexes: uq_asset_name, ix_asset_alias_asset_id, ix_asset_reference_name_role, ix_asset_event_asset_id_timestamp,
# the primary keys of dag_run and version_task.
_ASSETS: Final = """
    SELECT a.id, a.name, a.uri, a.is_active, a.extra, a.group_name, r.producers, r.consumers, r.fresh_within,
           e.last_event_at, e.last_dag_id, e.last_run_id, e.last_task_id, f.newest_data_at
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
      LEFT JOIN LATERAL (
           SELECT n.timestamp AS newest_data_at
             FROM (SELECT * FROM asset_event WHERE asset_id = a.id AND r.fresh_within IS NOT NULL
                    ORDER BY timestamp DESC, id DESC LIMIT 100) AS n
             LEFT JOIN dag_run AS run ON run.id = n.source_run_id
            ORDER BY coalesce([until], n.timestamp) DESC, n.timestamp DESC LIMIT 1
     ) AS f ON true
     WHERE [which] AND ($2::text IS NULL OR a.name > $2)
       AND ($4::text IS NULL OR r.producers && $5::text[]
            OR strpos(lower(concat_ws(' ', a.name, a.uri, a.group_name, a.extra::text)), lower($4)) > 0)
       AND ($6::text IS NULL OR a.group_name = $6) [seen]
     ORDER BY a.name LIMIT $3
""".replace("[until]", _UNTIL.replace("[came]", "n.timestamp"))
_SIDE_SEEN: Final = "(r.producers && ?::text[] OR r.consumers && ?::text[])"
ASSETS: Final = ScopedStatement.of(_ASSETS.replace("[which]", "$1::text[] IS NULL"), _SIDE_SEEN)
NAMED_ASSETS: Final = ScopedStatement.of(_ASSETS.replace("[which]", "a.name = ANY ($1::text[])"), _SIDE_SEEN)


async def list_assets(
    db: Database,
    *,
    now: datetime,
    names: Collection[str] | None = None,
    after: str | None = None,
    limit: int | None = None,
    q: str | None = None,
    group: str | None = None,
    seen: Seen = None,
) -> list[AssetRow]:
    """Assets by name with their freshness at `now`, including inactive ones, after the one named `after`; or only
    those with these `names`, of a `group`, or with `q` in their name, URI, group, extra or the owner of a producer.

    Only those that DAGs that are `seen` produce or wait for; other DAGs are not named, but their schedules count.
    """
    async with db.acquire() as conn:
        statement = ASSETS if names is None else NAMED_ASSETS
        owned = _among([row["dag_id"] for row in await conn.fetch(OWNED_BY, q)], seen) if q else []
        values = None if names is None else sorted(names), after, limit, q or None, owned, group
        rows = await statement.fetch(conn, *values, seen=seen)
        producers = await _producers(conn, {dag_id for row in rows for dag_id in _among(row["producers"], seen)})
        runs = await read_scheduled_runs(conn, {dag_id for row in rows for dag_id in row["producers"] or ()})
        pairs = [(row["id"], dag_id) for row in rows for dag_id in row["producers"] or () if dag_id in runs]
        given = await read_given(conn, pairs, runs)
        checks = await worst_checks(conn, [row["name"] for row in rows], seen=seen)
    found = (_asset(row, runs, given, producers, now, seen) for row in rows)
    return [replace(asset, check=checks.get(asset.name)) for asset in found]


# Few rows; the first one by the primary key.
PRODUCERS: Final = "SELECT dag_id, owner, description FROM dag WHERE dag_id = ANY($1::text[])"
OWNED_BY: Final = "SELECT dag_id FROM dag WHERE strpos(lower(owner), lower($1)) > 0"


async def _producers(conn: DatabaseConnection, dag_ids: Collection[str]) -> dict[str, tuple[str, str | None]]:
    """The owner and the description of DAGs."""
    rows = await conn.fetch(PRODUCERS, sorted(dag_ids)) if dag_ids else []
    return {row["dag_id"]: (row["owner"], row["description"]) for row in rows}


def _owners(extra: Mapping[str, Any], producers: Iterable[tuple[str, str | None]]) -> tuple[str, ...]:
    said = extra.get("owners", extra.get("owner"))
    if isinstance(said, str):
        said = said.split(",")
    if isinstance(said, list) and said and all(isinstance(one, str) for one in said):
        return tuple(one.strip() for one in said)
    return tuple(sorted({owner for owner, _ in producers if owner}))


def _description(name: str, extra: Mapping[str, Any], producers: Mapping[str, tuple[str, str | None]]) -> str | None:
    said = extra.get("description")
    if isinstance(said, str) and said.strip():
        return said
    return producers[name][1] if list(producers) == [name] else None


def _asset(
    row: Any,
    runs: Mapping[str, Sequence[ScheduledRun]],
    given: Mapping[tuple[int, str], datetime],
    known: Mapping[str, tuple[str, str | None]],
    now: datetime,
    seen: Seen,
) -> AssetRow:
    within = limit_of(row["fresh_within"])
    scheduled = [dag_id for dag_id in row["producers"] or () if dag_id in runs]
    status = freshness(
        now=now,
        last_event=row["last_event_at"] if within is None else row["newest_data_at"],
        fresh_within=within,
        schedules=[[run.due for run in runs[dag_id]] for dag_id in scheduled],
        given=[last_due(runs[dag_id], given.get((row["id"], dag_id))) for dag_id in scheduled],
    )
    extra = shown_object(row["extra"])
    producers = {dag_id: known[dag_id] for dag_id in _among(row["producers"], seen) if dag_id in known}
    source = {key: row[key] for key in ("last_dag_id", "last_run_id", "last_task_id")}
    return AssetRow(
        name=row["name"],
        uri=row["uri"],
        is_active=row["is_active"],
        producers=_among(row["producers"], seen),
        consumers=_among(row["consumers"], seen),
        last_event_at=row["last_event_at"],
        extra=extra,
        group=row["group_name"],
        owners=_owners(extra, producers.values()),
        description=_description(row["name"], extra, producers),
        freshness=status.state,
        expected_by=status.expected_by,
        fresh_within=None if within is None else within.total_seconds(),
        **(source if seen is None or row["last_dag_id"] in seen else {}),
    )


MOST_LOOKED_AT: Final = 2_000  # assets for one page of a list with a filter


async def find_assets_by_freshness(
    db: Database,
    wanted: Freshness,
    *,
    now: datetime,
    after: str | None,
    limit: int,
    q: str | None = None,
    group: str | None = None,
    seen: Seen = None,
) -> tuple[list[AssetRow], str | None]:
    """The next assets with that freshness, at most `limit`, and the name to continue after (None: these are all).

    Looks at `MOST_LOOKED_AT` assets, so there may be more to come after few or none.
    """
    found: list[AssetRow] = []
    looked_at = 0
    while looked_at < MOST_LOOKED_AT:
        rows = await list_assets(db, now=now, after=after, limit=500, q=q, group=group, seen=seen)
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


# The next run, and the last two scheduled ones among the newest, newest first. Index: ix_dag_run_dag_id_run_after_id.
SCHEDULED_RUNS: Final = """
    SELECT d.dag_id, d.next_dagrun_create_after AS next_due, d.next_dagrun AS next_date,
           d.next_dagrun_data_interval_start AS next_start, d.next_dagrun_data_interval_end AS next_end,
           array_remove(array_agg(r.until ORDER BY r.run_after DESC), NULL) AS untils,
           array_remove(array_agg(r.run_after ORDER BY r.run_after DESC), NULL) AS dues,
           (SELECT spec ->> 'timetable' FROM dag_version WHERE id = d.version_id) AS timetable,
           (SELECT spec ->> 'end_date' FROM dag_version WHERE id = d.version_id) AS end_date
      FROM dag AS d
      LEFT JOIN LATERAL (
           SELECT coalesce(data_interval_end, logical_date, run_after) AS until, run_after
             FROM (SELECT * FROM dag_run WHERE dag_id = d.dag_id ORDER BY run_after DESC, id DESC LIMIT 20) AS newest
            WHERE run_type = 'scheduled' ORDER BY run_after DESC LIMIT 2
     ) AS r ON true
     WHERE d.dag_id = ANY($1::text[]) AND NOT d.is_paused AND NOT d.is_stale GROUP BY d.dag_id
"""


async def read_scheduled_runs(conn: DatabaseConnection, dag_ids: Collection[str]) -> dict[str, list[ScheduledRun]]:
    """The last two scheduled runs of these DAGs and the next two, oldest first; nothing of paused ones."""
    rows = await conn.fetch(SCHEDULED_RUNS, sorted(dag_ids)) if dag_ids else []
    found: dict[str, list[ScheduledRun]] = {}
    for row in rows:
        runs = [ScheduledRun(*run) for run in zip(row["untils"], row["dues"], strict=True)][::-1]
        if row["next_due"] is not None:
            runs.append(ScheduledRun(row["next_end"] or row["next_date"] or row["next_due"], row["next_due"]))
            if row["next_start"] is not None and row["timetable"] is not None:
                interval = DataInterval(row["next_start"], row["next_end"])
                after = _run_after(row["timetable"], row["end_date"], interval, row["next_due"])
                runs += () if after is None else (after,)
        found[row["dag_id"]] = runs
    return found


@lru_cache(maxsize=10_000)
def _run_after(timetable: str, end_date: str | None, last: DataInterval, due: datetime) -> ScheduledRun | None:
    """The run after the one with the data interval `last`; None if there is none, or nobody knows."""
    try:
        decoded = msgspec.json.decode(timetable, type=AnyTimetable)
        latest = None if end_date is None else datetime.fromisoformat(end_date)
    except (msgspec.MsgspecError, ValueError):  # of another aiosched
        return None
    restriction = Restriction(None, latest, catchup=True)
    run = next((one.run for one in upcoming(decoded, restriction=restriction, now=due, n=1, last=last)), None)
    return None if run is None or run.run_after <= due else ScheduledRun(run.interval.end, run.run_after)


# What the newest data is that each producer has given, since its last scheduled run but one was due.
# Index: ix_asset_event_asset_id_timestamp, the primary key of dag_run.
GIVEN: Final = f"""
    SELECT w.asset_id, w.dag_id, g.until
      FROM unnest($1::bigint[], $2::text[], $3::timestamptz[]) AS w (asset_id, dag_id, since)
     CROSS JOIN LATERAL (
           SELECT max({_UNTIL.replace("[came]", "e.timestamp")}) AS until
             FROM asset_event AS e JOIN dag_run AS run ON run.id = e.source_run_id
            WHERE e.asset_id = w.asset_id AND e.timestamp >= w.since AND e.source_dag_id = w.dag_id
     ) AS g
     WHERE g.until IS NOT NULL
"""


async def read_given(
    conn: DatabaseConnection, pairs: Collection[tuple[int, str]], runs: Mapping[str, Sequence[ScheduledRun]]
) -> dict[tuple[int, str], datetime]:
    """Until when the data is that each producer (by asset and DAG) has given lately; those without are absent."""
    known = [(asset, dag_id, runs[dag_id][0].due) for asset, dag_id in pairs if runs[dag_id]]
    rows = await conn.fetch(GIVEN, *map(list, zip(*known, strict=True))) if known else []
    return {(row["asset_id"], row["dag_id"]): row["until"] for row in rows}


def _among(dag_ids: Collection[str] | None, seen: Seen) -> list[str]:
    return [dag_id for dag_id in dag_ids or () if seen is None or dag_id in seen]


async def get_asset(db: Database, name: str, *, now: datetime, seen: Seen = None) -> AssetRow:
    """One asset, with its freshness at `now`; raises NotFound, with suggestions for those who see all DAGs."""
    if found := await list_assets(db, names=[name], now=now, seen=seen):
        return found[0]
    if seen is not None:
        raise NotFound("There is no such asset among those of DAGs that you may see.")
    names = [row[0] for row in await db.fetch("SELECT name FROM asset")]
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
    conn: Queryable,
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


async def events_of_run(conn: Queryable, run: int) -> tuple[list[EventRow], bool]:
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
