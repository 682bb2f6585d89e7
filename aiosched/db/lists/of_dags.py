"""Filters that all lists have in common: one of some values, none of others, and which DAGs a list is about."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, false, or_

from aiosched.db.schema.schema import dag

Values = Collection[str]


@dataclass(frozen=True, slots=True)
class Without:
    """What a list leaves out: what has one of these values. Each list has some of these filters."""

    dag_ids: Values = ()
    owners: Values = ()
    teams: Values = ()
    tags: Values = ()
    states: Values = ()  # of DAGs: those of their newest runs
    statuses: Values = ()  # of DAGs
    run_types: Values = ()
    operators: Values = ()
    pools: Values = ()


NOTHING = Without()


@dataclass(frozen=True, slots=True)
class OfDags:
    """The DAGs that a list is about: of one of the owners and of the teams, with all `tags`; empty fields do not
    filter, but for ids: None are all."""

    dag_ids: Values | None = None
    owners: Values = ()
    teams: Values = ()
    tags: Values = ()

    @property
    def dag_id(self) -> str | None:
        """The only DAG that the list can have, if it is named."""
        return next(iter(self.dag_ids)) if self.dag_ids is not None and len(self.dag_ids) == 1 else None


ALL_DAGS = OfDags()


def among(column: ColumnElement[str], wanted: Values, unwanted: Values) -> list[ColumnElement[bool]]:
    """The conditions for a column that is one of `wanted` (none: anything), and none of `unwanted`."""
    found: list[ColumnElement[bool]] = [column.in_(sorted(wanted))] if wanted else []
    if unwanted:
        found.append(or_(column.is_(None), column.not_in(sorted(unwanted))))
    return found


def ids_among(column: ColumnElement[str], of: OfDags, without: Without) -> list[ColumnElement[bool]]:
    """The conditions for the id of a DAG."""
    if of.dag_ids is not None and not of.dag_ids:
        return [false()]
    return among(column, of.dag_ids or (), without.dag_ids)


def dag_conditions(of: OfDags, without: Without) -> list[ColumnElement[bool]]:
    """The conditions for what a DAG has besides its id: owner, team and tags."""
    found = [*among(dag.c.owner, of.owners, without.owners), *among(dag.c.team, of.teams, without.teams)]
    if of.tags:
        found.append(dag.c.tags.contains(sorted(of.tags)))
    if without.tags:
        found.append(~dag.c.tags.overlap(sorted(without.tags)))
    return found
