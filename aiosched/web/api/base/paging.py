"""Lists in pages: each answers with the cursor of the next one, so that no list costs more than its page.

A cursor is opaque: the sort key of the page's last entry, as base64 of JSON. It stays valid while rows come
and go. To know whether there is a next page, an endpoint reads one row more than the page has.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from fastapi import Query
from pydantic import BaseModel

from aiosched.web.server.problems import Problem

T = TypeVar("T")
K = TypeVar("K")
M = TypeVar("M", bound=BaseModel)
R = TypeVar("R")

Limit = Annotated[int, Query(ge=1, le=1000, description="entries in a page")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the page before")]


class Page(BaseModel, Generic[T]):
    """One page. `next_cursor` is null on the last one."""

    items: list[T]
    next_cursor: str | None = None


def encode_cursor(key: Any) -> str:
    """A cursor for the sort key of a page's last entry: a number, text, an instant, or a tuple of them."""
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def decode_cursor(cursor: str | None, shape: type[K]) -> K | None:
    """The key inside a cursor, of type `shape` such as `str` or `tuple[int, str]`; None without a cursor.

    Raises Problem 400 for one that this API did not make.
    """
    if cursor is None:
        return None
    try:
        document = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        key = msgspec.json.decode(document, type=shape)
        if not all(map(_is_storable, key if isinstance(key, tuple) else (key,))):
            raise ValueError(key)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise Problem(400, "bad-cursor", "This cursor is not one of ours: begin again without it.") from None
    return key


def _is_storable(value: object) -> bool:
    """Whether PostgreSQL has such values: a list may compare with them."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return not isinstance(value, str) or "\0" not in value


def page_of(model: type[M], rows: Sequence[R], limit: int, key: Callable[[R], Any]) -> Page[M]:
    """The first `limit` of `rows` as models; a row more than these says that there is a next page.

    `key` gives the sort key of a row, which the cursor holds.
    """
    more = encode_cursor(key(rows[limit - 1])) if len(rows) > limit else None
    return Page(items=[model.model_validate(row) for row in rows[:limit]], next_cursor=more)
