"""Which runs a list shows: what lists of runs and of task instances have in common.

A list is ordered by an instant of the run, and paged by it and the run's key. Owners and tags are those of the DAG
as it is now. Source: docs/decisions/0047-lists-search-a-bounded-part.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Select, func, select, tuple_

from aiosched.core.timetables.days import DayOrInstant
from aiosched.db.access.only_seen import only_seen
from aiosched.db.access.visibility import Seen
from aiosched.db.names.days import span_of
from aiosched.db.queries.queries import fetch, like
from aiosched.db.schema.schema import dag, dag_run
from aiosched.db.server.engine import Database

RunOrder = Literal["-run_after", "run_after", "-end_date", "end_date"]
RunKey = tuple[datetime, int]  # the instant by which a list is ordered, and the run's key

_FEW_DAGS: Final = 2_000


@dataclass(frozen=True, slots=True)
class WantedRuns:
    """Which runs are selected; empty fields do not filter.

    `since` and `until` filter by `run_after`, `ended_since` and `ended_until` by the end; the latter ones are
    exclusive as instants, and as days have the whole day, in the time zone of `dag_id` (UTC without one). All `tags`
    must match.
    The duration of a run that has not ended is that until now.
    """

    dag_id: str | None = None
    dag_ids: Collection[str] | None = None
    states: Collection[str] = ()
    run_types: Collection[str] = ()
    search: str | None = None  # part of the run id
    since: DayOrInstant | None = None
    until: DayOrInstant | None = None
    ended_since: DayOrInstant | None = None
    ended_until: DayOrInstant | None = None
    owner: str | None = None
    tags: Collection[str] = ()
    min_seconds: float | None = None
    max_seconds: float | None = None
    reason: str | None = None  # why a run failed


def failed_since(since: datetime) -> WantedRuns:
    """The runs that have failed since then."""
    return WantedRuns(states=("failed",), ended_since=since)


async def resolved(db: Database, wanted: WantedRuns) -> WantedRuns:
    """The same wish with instants in place of days, and with the ids of the DAGs of its owner and tags, if these are
    few: no run needs a look-up then."""
    since, until = await span_of(db, wanted.dag_id, wanted.since, wanted.until)
    ended_since, ended_until = await span_of(db, wanted.dag_id, wanted.ended_since, wanted.ended_until)
    wanted = replace(wanted, since=since, until=until, ended_since=ended_since, ended_until=ended_until)
    if wanted.owner is None and not wanted.tags:
        return wanted
    found = [row.dag_id for row in await fetch(db, _dags(wanted).limit(_FEW_DAGS + 1))]
    return wanted if len(found) > _FEW_DAGS else replace(wanted, owner=None, tags=(), dag_ids=tuple(found))


def chosen_runs(query: Select[Any], wanted: WantedRuns, seen: Seen) -> Select[Any]:
    """The query for the runs that are wanted (and `resolved`) and `seen`, in any state."""
    query = only_seen(only_seen(query, dag_run.c.dag_id, seen), dag_run.c.dag_id, wanted.dag_ids)
    if wanted.dag_id is not None:
        query = query.where(dag_run.c.dag_id == wanted.dag_id)
    if wanted.owner is not None or wanted.tags:
        query = query.where(dag_run.c.dag_id.in_(_dags(wanted)))
    if wanted.run_types:
        query = query.where(dag_run.c.run_type.in_(sorted(wanted.run_types)))
    if wanted.search:
        query = query.where(dag_run.c.run_id.like(like(f"*{wanted.search}*"), escape="\\"))
    if wanted.reason is not None:
        query = query.where(dag_run.c.reason == wanted.reason)
    for column, first, final in (
        (dag_run.c.run_after, wanted.since, wanted.until),
        (dag_run.c.end_date, wanted.ended_since, wanted.ended_until),
    ):
        if first is not None:
            query = query.where(column >= first)
        if final is not None:
            query = query.where(column < final)
    return lasting(query, dag_run.c.start_date, dag_run.c.end_date, wanted.min_seconds, wanted.max_seconds)


def _dags(wanted: WantedRuns) -> Select[Any]:
    query = select(dag.c.dag_id)
    if wanted.owner is not None:
        query = query.where(dag.c.owner == wanted.owner)
    return query.where(dag.c.tags.contains(sorted(wanted.tags))) if wanted.tags else query


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


def in_state(query: Select[Any], states: Collection[str]) -> Select[Any]:
    """The query for runs in one of the states; of any, if there are none."""
    return query.where(dag_run.c.state.in_(sorted(states))) if states else query


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
