"""Facets: how many entries of a list have each value of a filter, counted in a bounded sample of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import CTE, ColumnElement, Select, Subquery, Text, case, cast, func, literal, null, select, union_all

from aiosched.core.why.error_groups import searchable
from aiosched.db.queries.queries import fetch
from aiosched.db.server.engine import Database

_VALUES: Final = 50  # of one filter, the most frequent ones
_ALIKE: Final = "reasons"  # errors that differ in numbers and ids
_COMPARED: Final = 200  # characters of an error
# Ids and numbers, as `aiosched.core.why.error_groups` sees them.
_VARIABLE: Final = r"\y(?=[0-9a-f-]*\d)[0-9a-f]{8}[0-9a-f-]*\y|\d+(\.\d+)*"


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


def counted_errors(sample: CTE, text: ColumnElement[Any], *conditions: ColumnElement[bool]) -> Select[Any]:
    """How many of the sample have each error; texts that differ only in numbers and ids are counted together."""
    same = func.regexp_replace(func.left(text, _COMPARED), _VARIABLE, "#", "gi")
    facet = case((func.min(text) == func.max(text), "reason"), else_=_ALIKE).label("facet")
    query = select(facet, func.min(text).label("value"), func.count().label("number")).select_from(sample)
    found = query.where(*conditions, text.is_not(None)).group_by(same).subquery()
    first = select(found).order_by(found.c.number.desc(), found.c.value).limit(_VALUES).subquery()
    return select(first)


def size_of(sample: CTE | Subquery) -> Select[Any]:
    """The number of entries in the sample, as a facet without a name."""
    columns: list[ColumnElement[Any]] = [literal("").label("facet"), cast(null(), Text).label("value")]
    return select(*columns, func.count().label("number")).select_from(sample)


async def read_facets(db: Database, parts: Sequence[Select[Any]], most: int) -> Facets:
    """The facets of the parts, with `size_of` among them; the sample has room for one entry more than `most`.

    Errors that are counted together have the longest part of their text that all of them have.
    """
    rows = await fetch(db, select(union_all(*parts).subquery()))
    size = next(row.number for row in rows if not row.facet)
    counts: Counter[tuple[str, str | None]] = Counter()
    for row in rows:
        of = ("reason", searchable(row.value)) if row.facet == _ALIKE else (row.facet, row.value)
        counts[of] += int(row.number)
    return Facets([FacetCount(*of, number) for of, number in counts.items() if of[0]], size <= most)
