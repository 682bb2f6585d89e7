"""Paged lists: each page has the cursor of the next one, so that a list never costs more than one page.

A cursor is opaque: the sort key of the page's last entry, as base64 of JSON. It stays valid while rows are added and
removed. To learn whether there is a next page, an endpoint reads one row more than it returns.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from fastapi import Query
from pydantic import BaseModel

from aiosched.web.server.problems import Problem

T = TypeVar("T")
K = TypeVar("K")
M = TypeVar("M", bound=BaseModel)
R = TypeVar("R")

Limit = Annotated[int, Query(ge=1, le=1000, description="number of entries in a page")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")]


class Page(BaseModel, Generic[T]):
    """One page. `next_cursor` is null on the last one."""

    items: list[T]
    next_cursor: str | None = None


def encode_cursor(key: Any) -> str:
    """The cursor for the sort key of a page's last entry: a number, text, an instant, or a tuple of these."""
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def decode_cursor(cursor: str | None, shape: type[K]) -> K | None:
    """The sort key in a cursor, of a type `shape` such as `str` or `tuple[int, str]`; None without a cursor.

    Raises Problem 400 for a cursor that this API did not create.
    """
    if cursor is None:
        return None
    try:
        document = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        key = msgspec.json.decode(document, type=shape)
        if not all(map(_is_storable, key if isinstance(key, tuple) else (key,))):
            raise ValueError(key)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise bad_cursor() from None
    return key


def bad_cursor() -> Problem:
    """What a cursor is answered with that this API did not create."""
    return Problem(400, "bad-cursor", "This cursor is not valid: start again without one.")


def _is_storable(value: object) -> bool:
    """Whether PostgreSQL can represent the values, as a list compares rows with them."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, datetime):
        return value.tzinfo is not None
    return not isinstance(value, str) or "\0" not in value


def page_of(model: type[M], rows: Sequence[R], limit: int, key: Callable[[R], Any]) -> Page[M]:
    """The first `limit` of `rows` as models; one more row means that there is a next page.

    `key` gives the sort key of a row for the cursor.
    """
    more = encode_cursor(key(rows[limit - 1])) if len(rows) > limit else None
    return Page(items=[model.model_validate(row) for row in rows[:limit]], next_cursor=more)
