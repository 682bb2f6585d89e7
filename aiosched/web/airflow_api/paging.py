"""Pages by number, as Airflow's API has them: `limit`, `offset`, `order_by` and `total_entries`.

They need the whole list, so at most MOST entries are considered; beyond that the caller has to filter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

from fastapi import Query

from aiosched.web.server.problems import Problem

T = TypeVar("T")

MOST: Final = 10_000

PageLimit = Annotated[int, Query(ge=0, le=1000)]
PageOffset = Annotated[int, Query(ge=0, le=MOST)]
OrderBy = Annotated[list[str] | None, Query(max_length=10)]


def check_size(rows: Sequence[Any]) -> None:
    """Raise Problem 400 for a list that is too long to be numbered."""
    if len(rows) > MOST:
        raise Problem(400, "too-many", f"More than {MOST:,} entries match: narrow the request with its filters.")


def ordered(rows: Sequence[T], order_by: Sequence[str] | None, keys: Mapping[str, Callable[[T], Any]]) -> list[T]:
    """`rows` by the attributes named, `-` for descending; rows without a value come last. Raises Problem 400."""
    found = list(rows)
    for name in reversed(order_by or ()):
        attribute = name.removeprefix("-")
        if attribute not in keys:
            raise Problem(400, "bad-order", f"order_by={name} is not possible; known are {', '.join(sorted(keys))}.")
        key = keys[attribute]
        present = [row for row in found if key(row) is not None]
        missing = [row for row in found if key(row) is None]
        found = [*sorted(present, key=key, reverse=name.startswith("-")), *missing]
    return found


def page(name: str, rows: Sequence[T], limit: int, offset: int, shape: Callable[[T], Any]) -> dict[str, Any]:
    """One page of `rows` under `name`, with the number of all of them."""
    return {name: [shape(row) for row in rows[offset : offset + limit]], "total_entries": len(rows)}
