"""The runs of a DAG by their dates: the logical date, or `run_after` where there is none. No decisions here.

A backfill creates runs late that belong to early dates, so the order of dates is not the order of keys.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, select, tuple_, union_all

from aiosched.db.queries.queries import RUN_COLUMNS, RunRow, fetch
from aiosched.db.schema.schema import dag_run
from aiosched.db.server.engine import Database


@dataclass(frozen=True, slots=True)
class DatedRuns:
    """Which runs of a DAG are selected; empty fields do not filter."""

    dag_id: str
    states: Collection[str] = ()
    run_types: Collection[str] = ()


def date_of(run: RunRow) -> datetime:
    """By which a run is put in order."""
    return run.logical_date or run.run_after


def _latest(
    wanted: DatedRuns, at: ColumnElement[Any], has_date: ColumnElement[bool], before: Any, limit: int
) -> Select[Any]:
    query = select(dag_run.c.id, at.label("at")).where(dag_run.c.dag_id == wanted.dag_id, has_date)
    if wanted.states:
        query = query.where(dag_run.c.state.in_(sorted(wanted.states)))
    if wanted.run_types:
        query = query.where(dag_run.c.run_type.in_(sorted(wanted.run_types)))
    if before is not None:
        query = query.where(at <= before[0], tuple_(at, dag_run.c.id) < tuple_(*before))
    return query.order_by(at.desc(), dag_run.c.id.desc()).limit(limit)


def dated_runs(wanted: DatedRuns, *, before: tuple[datetime, int] | None, limit: int) -> Select[Any]:
    """The statement of `runs_by_date`. Each half ends after `limit` rows.

    Indexes: uq_dag_run_dag_id_logical_date, ix_dag_run_undated.
    """
    dated = _latest(wanted, dag_run.c.logical_date, dag_run.c.logical_date.is_not(None), before, limit)
    undated = _latest(wanted, dag_run.c.run_after, dag_run.c.logical_date.is_(None), before, limit)
    both = union_all(dated.subquery().select(), undated.subquery().select()).subquery()
    ids = select(both.c.id, both.c.at).order_by(both.c.at.desc(), both.c.id.desc()).limit(limit).subquery()
    return RUN_COLUMNS.join(ids, ids.c.id == dag_run.c.id).order_by(ids.c.at.desc(), ids.c.id.desc())


async def runs_by_date(
    db: Database, wanted: DatedRuns, *, before: tuple[datetime, int] | None = None, limit: int
) -> list[RunRow]:
    """The runs with the latest dates, the latest first, before the (date, key) `before`."""
    return [RunRow(**row._mapping) for row in await fetch(db, dated_runs(wanted, before=before, limit=limit))]
