"""Lists of DAGs: filtered, in one of several orders, and counted. Read only, paged.

The ids of a page are read first, then its rows: the newest run of every DAG is looked up only for an order or a filter
that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypedDict, Unpack

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, true, tuple_

from aiosched.db.access.only_seen import only_seen
from aiosched.db.access.visibility import Seen
from aiosched.db.queries.queries import NEWEST_RUN, NEXT_RUN_AFTER, DagListRow, dag_row, fetch, like, select_dags
from aiosched.db.schema.schema import dag, dag_quarantine
from aiosched.db.server.engine import Database

DagOrder = Literal[
    "dag_id", "-dag_id", "next_run", "-next_run", "last_run", "-last_run", "last_state", "-last_state",
    "owner", "-owner",
]  # fmt: skip
LATE_AFTER: Final = timedelta(seconds=60)  # a DAG is late when its next run has been due for so long
DagKey = tuple[str, datetime | str | None]  # the id, and what the list is ordered by besides

_NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
_LONG_AGO: Final = datetime(1, 1, 2, tzinfo=UTC)


class DagFilters(TypedDict, total=False):
    """Which DAGs are selected; what is missing or empty does not filter.

    `pattern` is a glob, `search` a part of id or description; stale DAGs only with `stale` or as `status`; `tags` must
    all match; `last_state` is that of the newest run; `late_before`: active, and the next run was due before that.
    """

    pattern: str | None
    search: str | None
    stale: bool
    tags: Collection[str]
    status: str | None
    owner: str | None
    last_state: str | None
    dag_ids: Collection[str]
    late_before: datetime | None


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


async def count_owners(db: Database, *, seen: Seen = None) -> dict[str, int]:
    """The owners of DAGs that are not stale, by name, with their numbers of DAGs."""
    query = only_seen(select(dag.c.owner, func.count()), dag.c.dag_id, seen)
    query = query.where(~dag.c.is_stale, dag.c.owner.is_not(None)).group_by(dag.c.owner).order_by(dag.c.owner)
    return {row[0]: row[1] for row in await fetch(db, query.limit(1000))}


def _chosen(query: Select[Any], seen: Seen, filters: DagFilters, *, needs_run: bool = False) -> Select[Any]:
    query = only_seen(query, dag.c.dag_id, seen)
    status, last_state = filters.get("status"), filters.get("last_state")
    tables: Any = dag
    if status is not None:
        held = and_(dag_quarantine.c.dag_id == dag.c.dag_id, dag_quarantine.c.tried_at.is_(None))
        tables, query = tables.outerjoin(dag_quarantine, held), query.where(_STATUS_FILTERS[status])
    if needs_run or last_state is not None:
        tables = tables.outerjoin(NEWEST_RUN, true())
    if last_state is not None:
        query = query.where(NEWEST_RUN.c.state.is_(None) if last_state == "none" else NEWEST_RUN.c.state == last_state)
    if search := filters.get("search"):
        words = like(f"*{search}*")
        query = query.where(or_(dag.c.dag_id.ilike(words, escape="\\"), dag.c.description.ilike(words, escape="\\")))
    if (pattern := filters.get("pattern")) is not None:
        query = query.where(dag.c.dag_id.like(like(pattern), escape="\\"))
    if not filters.get("stale") and status not in ("stale", "quarantine"):
        query = query.where(or_(~dag.c.is_stale, dag.c.has_import_errors))  # who broke a file looks for its DAGs
    if tags := filters.get("tags"):
        query = query.where(dag.c.tags.contains(sorted(tags)))
    if (owner := filters.get("owner")) is not None:
        query = query.where(dag.c.owner == owner)
    if (late_before := filters.get("late_before")) is not None:
        query = query.where(~dag.c.is_paused, ~dag.c.has_import_errors, dag.c.next_dagrun_create_after < late_before)
    if dag_ids := filters.get("dag_ids"):
        query = query.where(dag.c.dag_id.in_(sorted(dag_ids)))
    return query.select_from(tables)


_IS_DECIDED: Final = dag_quarantine.c.dag_id.is_(None)
_STATUS_FILTERS: Final = {
    "quarantine": ~_IS_DECIDED,
    "error": and_(_IS_DECIDED, dag.c.has_import_errors),
    "stale": and_(_IS_DECIDED, ~dag.c.has_import_errors, dag.c.is_stale),
    "paused": and_(_IS_DECIDED, ~dag.c.has_import_errors, ~dag.c.is_stale, dag.c.is_paused),
    "active": and_(_IS_DECIDED, ~dag.c.has_import_errors, ~dag.c.is_stale, ~dag.c.is_paused),
}  # as DagListRow.status
