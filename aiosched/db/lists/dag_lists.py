"""Lists of DAGs: filtered, in one of several orders, and counted. Read only, paged.

The ids of a page are read first, then its rows: the newest run of every DAG is looked up only for an order or a filter
that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypedDict, Unpack

from sqlalchemy import ColumnElement, Select, and_, case, false, func, literal, or_, select, true, tuple_

from aiosched.db.access.only_seen import only_seen
from aiosched.db.access.visibility import Seen
from aiosched.db.lists.facets import Facets, counted, most_frequent, read_facets, size_of
from aiosched.db.lists.of_dags import ALL_DAGS, NOTHING, OfDags, Without, among, dag_conditions, ids_among
from aiosched.db.queries.queries import NEWEST_RUN, NEXT_RUN_AFTER, DagListRow, dag_row, fetch, like, select_dags
from aiosched.db.schema.schema import dag, dag_quarantine
from aiosched.db.server.engine import Database

DagOrder = Literal[
    "dag_id", "-dag_id", "next_run", "-next_run", "last_run", "-last_run", "last_state", "-last_state",
    "owner", "-owner",
]  # fmt: skip
LATE_AFTER: Final = timedelta(seconds=60)  # a DAG is late when its next run has been due for so long
DagKey = tuple[str, datetime | str | None]  # the id, and what the list is ordered by besides

MOST_SAMPLED: Final = 3_000  # DAGs of which the values are counted, the first of the list
_NO_RUN: Final = "none"
_NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
_LONG_AGO: Final = datetime(1, 1, 2, tzinfo=UTC)


class DagFilters(TypedDict, total=False):
    """Which DAGs are selected; what is missing or empty does not filter.

    `pattern` is a glob, `search` a part of id, display name or description; stale DAGs only with `stale` or as one of
    `statuses`; `last_states` are those of newest runs, "none": no run. A DAG is "late" if it is active, and its next
    run was due before `late_before`.
    """

    of: OfDags
    pattern: str | None
    search: str | None
    stale: bool
    statuses: Collection[str]
    last_states: Collection[str]
    late_before: datetime | None
    without: Without


@dataclass(frozen=True, slots=True)
class _SortKey:
    """What a list is ordered by before the id: in SQL, and of a row."""

    column: ColumnElement[Any]
    of: Callable[[DagListRow], datetime | str]
    instant: bool = False
    needs_run: bool = False


_KEYS: Final = {
    "next_run": _SortKey(func.coalesce(NEXT_RUN_AFTER, _NEVER), lambda row: row.next_run_after or _NEVER, instant=True),
    "last_run": _SortKey(
        func.coalesce(NEWEST_RUN.c.run_after, _LONG_AGO),
        lambda row: row.last_run_after or _LONG_AGO,
        instant=True,
        needs_run=True,
    ),
    "last_state": _SortKey(func.coalesce(NEWEST_RUN.c.state, ""), lambda row: row.last_run_state or "", needs_run=True),
    "owner": _SortKey(func.coalesce(dag.c.owner, ""), lambda row: row.owner or ""),
}


def key_of(row: DagListRow, order: DagOrder) -> DagKey:
    """After which the next page of a list begins."""
    found = _KEYS.get(order.removeprefix("-"))
    return row.dag_id, None if found is None else found.of(row)


def read_key(stored: tuple[str, str | None] | None, order: DagOrder) -> DagKey | None:
    """A key that was text meanwhile; raises ValueError if it is none of this order."""
    if stored is None:
        return None
    found, (dag_id, value) = _KEYS.get(order.removeprefix("-")), stored
    if found is None:
        return dag_id, None
    if value is None:
        raise ValueError("the key has no value")
    if not found.instant:
        return dag_id, value
    instant = datetime.fromisoformat(value)
    return dag_id, instant.astimezone(UTC)


async def list_dags(
    db: Database,
    *,
    order: DagOrder = "dag_id",
    after: DagKey | None = None,
    limit: int = 100,
    seen: Seen = None,
    **filters: Unpack[DagFilters],
) -> list[DagListRow]:
    """DAGs by id or in another `order`, after the one with the key `after`; only those that are `seen`."""
    key = _KEYS.get(order.removeprefix("-"))
    query = _chosen(select(dag.c.dag_id), seen, filters, needs_run=key is not None and key.needs_run)
    columns = [dag.c.dag_id] if key is None else [key.column, dag.c.dag_id]
    if after is not None:
        values = after[:1] if key is None else (after[1], after[0])
        here, there = tuple_(*columns), tuple_(*values)
        query = query.where(here < there if order.startswith("-") else here > there)
    query = query.order_by(*(each.desc() if order.startswith("-") else each for each in columns)).limit(limit)
    ids = [row.dag_id for row in await fetch(db, query)]
    rows = {row.dag_id: dag_row(row) for row in await fetch(db, select_dags().where(dag.c.dag_id.in_(ids)))}
    return [rows[dag_id] for dag_id in ids if dag_id in rows]


async def count_dags(db: Database, *, seen: Seen = None, **filters: Unpack[DagFilters]) -> int:
    """How many DAGs there are in the list."""
    (row,) = await fetch(db, _chosen(select(func.count()), seen, filters))
    return int(row[0])


async def dag_facets(
    db: Database, *, seen: Seen = None, most: int = MOST_SAMPLED, **filters: Unpack[DagFilters]
) -> Facets:
    """How many of the first `most` DAGs of the list have each status, last state, owner, team and tag."""
    last_state = func.coalesce(NEWEST_RUN.c.state, _NO_RUN).label("last_state")
    columns = select(dag.c.dag_id, _STATUS.label("status"), last_state, dag.c.owner, dag.c.team, dag.c.tags)
    is_late = _status_filter("late", filters.get("late_before")).label("is_late")
    chosen = _chosen(columns.add_columns(is_late), seen, filters, needs_run=True, needs_status=True)
    sample = chosen.order_by(dag.c.dag_id).limit(most + 1).cte("sample")
    tag = func.unnest(sample.c.tags).table_valued("value").render_derived("tag_values")
    number = func.count().label("number")
    is_late_too: list[ColumnElement[Any]] = [literal("late").label("value"), number]
    late = select(*is_late_too).where(sample.c.is_late).having(func.count() > 0)
    parts = [
        *(counted(name, sample, sample.c[name]) for name in ("dag_id", "status", "last_state", "owner", "team")),
        most_frequent("status", late),
        most_frequent("tag", select(tag.c.value, number).select_from(sample.join(tag, true())).group_by(tag.c.value)),
        size_of(sample),
    ]
    return await read_facets(db, parts, most)


def _chosen(
    query: Select[Any], seen: Seen, filters: DagFilters, *, needs_run: bool = False, needs_status: bool = False
) -> Select[Any]:
    of, without = filters.get("of", ALL_DAGS), filters.get("without", NOTHING)
    statuses, last_states = filters.get("statuses", ()), filters.get("last_states", ())
    query = only_seen(query, dag.c.dag_id, seen).where(*ids_among(dag.c.dag_id, of, without))
    tables: Any = dag
    if statuses or without.statuses or needs_status:
        held = and_(dag_quarantine.c.dag_id == dag.c.dag_id, dag_quarantine.c.tried_at.is_(None))
        tables = tables.outerjoin(dag_quarantine, held)
        late_before = filters.get("late_before")
        if statuses:
            query = query.where(or_(*(_status_filter(each, late_before) for each in statuses)))
        query = query.where(*(~func.coalesce(_status_filter(each, late_before), false()) for each in without.statuses))
    if needs_run or last_states or without.states:
        tables = tables.outerjoin(NEWEST_RUN, true())
        query = query.where(*among(func.coalesce(NEWEST_RUN.c.state, _NO_RUN), last_states, without.states))
    if search := filters.get("search"):
        words = like(f"*{search}*")
        told = (dag.c.dag_id, dag.c.display_name, dag.c.description)
        query = query.where(or_(*(each.ilike(words, escape="\\") for each in told)))
    if (pattern := filters.get("pattern")) is not None:
        query = query.where(dag.c.dag_id.like(like(pattern), escape="\\"))
    if not filters.get("stale") and {"stale", "quarantine"}.isdisjoint(statuses):
        query = query.where(or_(~dag.c.is_stale, dag.c.has_import_errors))  # who broke a file looks for its DAGs
    return query.where(*dag_conditions(of, without)).select_from(tables)


_IS_DECIDED: Final = dag_quarantine.c.dag_id.is_(None)
_STATUS_FILTERS: Final = {
    "quarantine": ~_IS_DECIDED,
    "error": and_(_IS_DECIDED, dag.c.has_import_errors),
    "stale": and_(_IS_DECIDED, ~dag.c.has_import_errors, dag.c.is_stale),
    "paused": and_(_IS_DECIDED, ~dag.c.has_import_errors, ~dag.c.is_stale, dag.c.is_paused),
    "active": and_(_IS_DECIDED, ~dag.c.has_import_errors, ~dag.c.is_stale, ~dag.c.is_paused),
}  # as DagListRow.status
_STATUS: Final = case(*((condition, name) for name, condition in _STATUS_FILTERS.items()))


def _status_filter(status: str, late_before: datetime | None) -> ColumnElement[bool]:
    if status != "late":
        return _STATUS_FILTERS[status]
    return and_(~dag.c.is_paused, ~dag.c.has_import_errors, dag.c.next_dagrun_create_after < late_before)


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
