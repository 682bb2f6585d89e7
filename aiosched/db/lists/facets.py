"""Facets: how many entries of a list have each value of a filter, counted in a bounded sample of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import CTE, ColumnElement, Select, Subquery, Text, cast, func, literal, null, select, union_all

from aiosched.db.queries.queries import fetch
from aiosched.db.server.engine import Database

_VALUES: Final = 50  # of one filter, the most frequent ones


@dataclass(frozen=True, slots=True)
class FacetCount:
    """How many entries of a list have a value of a filter; None: those without one."""

    facet: str
    value: str | None
    number: int


@dataclass(frozen=True, slots=True)
class Facets:
    """For each filter how many entries have which value; for states entries in any state are counted.

    `complete`: all entries of the list are counted, not only the first ones.
    """

    counts: Sequence[FacetCount]
    complete: bool


def counted(facet: str, sample: CTE, value: ColumnElement[Any], *conditions: ColumnElement[bool]) -> Select[Any]:
    """How many of the sample have each value."""
    found = value.label("value")
    query = select(found, func.count().label("number")).select_from(sample).where(*conditions)
    return most_frequent(facet, query.group_by(found))


def most_frequent(facet: str, query: Select[Any]) -> Select[Any]:
    """The facet of a query for values and their numbers."""
    found = query.subquery()
    first = select(found).order_by(found.c.number.desc(), found.c.value).limit(_VALUES).subquery()
    name: ColumnElement[Any] = literal(facet).label("facet")
    return select(name, first.c.value, first.c.number)


def size_of(sample: CTE | Subquery) -> Select[Any]:
    """The number of entries in the sample, as a facet without a name."""
    columns: list[ColumnElement[Any]] = [literal("").label("facet"), cast(null(), Text).label("value")]
    return select(*columns, func.count().label("number")).select_from(sample)


async def read_facets(db: Database, parts: Sequence[Select[Any]], most: int) -> Facets:
    """The facets of the parts, with `size_of` among them; the sample has room for one entry more than `most`."""
    rows = await fetch(db, select(union_all(*parts).subquery()))
    size = next(row.number for row in rows if not row.facet)
    return Facets([FacetCount(row.facet, row.value, int(row.number)) for row in rows if row.facet], size <= most)
