"""Which runs a list shows: what lists of runs and of task instances have in common.

A list is ordered by an instant of the run, and paged by it and the run's key. Owners and tags are those of the DAG
as it is now. Source: docs/decisions/0047-lists-search-a-bounded-part.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Select,
    and_,
    any_,
    bindparam,
    cast,
    func,
    or_,
    select,
    true,
    tuple_,
    union,
)

from aiosched.core.timetables.days import DayOrInstant
from aiosched.db.access.only_seen import only_seen
from aiosched.db.access.visibility import Seen
from aiosched.db.lists.of_dags import ALL_DAGS, NOTHING, OfDags, Without, among, dag_conditions, ids_among
from aiosched.db.names.days import span_of
from aiosched.db.queries.queries import fetch, like
from aiosched.db.schema.schema import dag, dag_run, dag_version, metadata
from aiosched.db.server.engine import Database

RunOrder = Literal["-run_after", "run_after", "-end_date", "end_date"]
RunKey = tuple[datetime, int]  # the instant by which a list is ordered, and the run's key

_KEYS: Final = ARRAY(BigInteger)
_FEW_DAGS: Final = 2_000
_MOST_EVENTS: Final = 10_000  # of an asset, the newest, whose runs are found


@dataclass(frozen=True, slots=True)
class WantedRuns:
    """Which runs are selected; empty fields do not filter.

    `since` and `until` filter by `run_after`, `ended_since` and `ended_until` by the end, `logical_since` and
    `logical_until` by the logical date; those that end something are exclusive as instants, and as days have the whole
    day, in the time zone of the only DAG (UTC without one).
    The duration of a run that has not ended is that until now.
    """

    dags: OfDags = ALL_DAGS
    states: Collection[str] = ()
    run_types: Collection[str] = ()
    search: str | None = None  # part of the run id
    since: DayOrInstant | None = None
    until: DayOrInstant | None = None
    ended_since: DayOrInstant | None = None
    ended_until: DayOrInstant | None = None
    logical_since: DayOrInstant | None = None
    logical_until: DayOrInstant | None = None
    min_seconds: float | None = None
    max_seconds: float | None = None
    reason: str | None = None  # why a run failed
    version: int | None = None
    asset: str | None = None  # that it updated, or that triggered it
    keys: Sequence[int] | None = None  # those of the asset, once it is `resolved`
    conf: Collection[tuple[str, str]] = ()  # keys of its conf, or paths with dots, and their values as text
    without: Without = NOTHING


def failed_since(since: datetime) -> WantedRuns:
    """The runs that have failed since then."""
    return WantedRuns(states=("failed",), ended_since=since)


async def resolved(db: Database, wanted: WantedRuns) -> WantedRuns:
    """The same wish with instants in place of days, with the runs of its asset, and with the ids of the DAGs of its
    owners, teams and tags, if these are few: no run needs a look-up then."""
    spans: dict[str, Any] = {}
    for names in ("since", "until"), ("ended_since", "ended_until"), ("logical_since", "logical_until"):
        since, until = (getattr(wanted, name) for name in names)
        spans |= zip(names, await span_of(db, wanted.dags.dag_id, since, until), strict=True)
    wanted = replace(wanted, **spans)
    if wanted.asset is not None:
        wanted = replace(wanted, keys=[row[0] for row in await fetch(db, _runs_of_asset(wanted.asset))])
    if not dag_conditions(wanted.dags, wanted.without):
        return wanted
    found = [row.dag_id for row in await fetch(db, _dags(wanted).limit(_FEW_DAGS + 1))]
    if len(found) > _FEW_DAGS:
        return wanted
    without = replace(wanted.without, dag_ids=(), owners=(), teams=(), tags=())
    return replace(wanted, dags=OfDags(dag_ids=tuple(found)), without=without)


def chosen_runs(query: Select[Any], wanted: WantedRuns, seen: Seen) -> Select[Any]:
    """The query for the runs that are wanted (and `resolved`) and `seen`, in any state."""
    query = only_seen(query, dag_run.c.dag_id, seen).where(*ids_among(dag_run.c.dag_id, wanted.dags, wanted.without))
    if dag_conditions(wanted.dags, wanted.without):
        query = query.where(dag_run.c.dag_id.in_(_dags(wanted)))
    query = query.where(*among(dag_run.c.run_type, wanted.run_types, wanted.without.run_types))
    if wanted.search:
        query = query.where(dag_run.c.run_id.like(like(f"*{wanted.search}*"), escape="\\"))
    if wanted.reason is not None:
        query = query.where(dag_run.c.reason == wanted.reason)
    if wanted.version is not None:
        query = query.where(dag_run.c.version_id.in_(_versions(wanted)))
    if wanted.keys is not None:
        query = query.where(dag_run.c.id == any_(cast(bindparam(None, wanted.keys, _KEYS), _KEYS)))
    for key, value in wanted.conf:
        places = {(key,), tuple(key.split("."))}
        query = query.where(or_(*(func.json_extract_path_text(dag_run.c.conf, *each) == value for each in places)))
    for column, first, final in (
        (dag_run.c.run_after, wanted.since, wanted.until),
        (dag_run.c.end_date, wanted.ended_since, wanted.ended_until),
        (dag_run.c.logical_date, wanted.logical_since, wanted.logical_until),
    ):
        if first is not None:
            query = query.where(column >= first)
        if final is not None:
            query = query.where(column < final)
    return lasting(query, dag_run.c.start_date, dag_run.c.end_date, wanted.min_seconds, wanted.max_seconds)


def _dags(wanted: WantedRuns) -> Select[Any]:
    conditions = ids_among(dag.c.dag_id, wanted.dags, wanted.without)
    return select(dag.c.dag_id).where(*conditions, *dag_conditions(wanted.dags, wanted.without))


def _versions(wanted: WantedRuns) -> Select[Any]:
    conditions = ids_among(dag_version.c.dag_id, wanted.dags, wanted.without)
    return select(dag_version.c.id).where(dag_version.c.number == wanted.version, *conditions)


def _runs_of_asset(name: str) -> Select[Any]:
    """The keys of the runs that updated an asset, or that it triggered. Index: ix_asset_event_asset_id_timestamp."""
    asset, event, consumption = (metadata.tables[f"asset{part}"] for part in ("", "_event", "_consumption"))
    newest = (
        select(event.c.id, event.c.source_run_id)
        .where(event.c.asset_id.in_(select(asset.c.id).where(asset.c.name == name)))
        .order_by(event.c.timestamp.desc())
        .limit(_MOST_EVENTS)
        .cte("newest")
    )
    consumed = select(consumption.c.run_id).where(consumption.c.event_id.in_(select(newest.c.id)))
    updated = select(newest.c.source_run_id).where(newest.c.source_run_id.is_not(None))
    return select(union(updated, consumed).subquery())


def lasting(
    query: Select[Any],
    start: ColumnElement[Any],
    end: ColumnElement[Any],
    least: float | None,
    most: float | None,
) -> Select[Any]:
    """The query for what took at least and at most so many seconds, from `start` to `end` or until now."""
    took = func.coalesce(end, func.now()) - start
    if least is not None:
        query = query.where(took >= timedelta(seconds=least))
    if most is not None:
        query = query.where(took <= timedelta(seconds=most))
    return query


def is_in_state(wanted: WantedRuns) -> ColumnElement[bool]:
    """Whether a run is in one of the wanted states."""
    return and_(true(), *among(dag_run.c.state, wanted.states, wanted.without.states))


def ordered(query: Select[Any], order: RunOrder, after: RunKey | None) -> Select[Any]:
    """The query in that order, after the run with the key `after`. By the end, it has runs that have ended only."""
    column = dag_run.c[order.removeprefix("-")]
    key = tuple_(column, dag_run.c.id)
    if order.startswith("-"):
        query = query.order_by(column.desc(), dag_run.c.id.desc())
        query = query if after is None else query.where(key < tuple_(*after))
    else:
        query = query.order_by(column, dag_run.c.id)
        query = query if after is None else query.where(key > tuple_(*after))
    return query.where(column.is_not(None)) if column is dag_run.c.end_date else query
