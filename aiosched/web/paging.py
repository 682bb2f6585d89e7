"""Lists in pages: each answers with the cursor of the next one, so that no list costs more than its page.

A cursor is opaque: the sort key of the page's last entry, as base64 of JSON. It stays valid while rows come
and go.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from fastapi import Query
from pydantic import BaseModel

from aiosched.web.problems import Problem

T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=1000, description="entries in a page")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the page before")]


class Page(BaseModel, Generic[T]):
    """One page. `next_cursor` is null on the last one."""

    items: list[T]
    next_cursor: str | None = None


def encode_cursor(*key: Any) -> str:
    """A cursor for the sort key of a page's last entry (numbers, text, instants)."""
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


K = TypeVar("K")


def decode_cursor(cursor: str | None, shape: type[K]) -> K | None:
    """The key inside a cursor, as a tuple of type `shape` such as `tuple[int, str]`; None without a cursor.

    Raises Problem 400 for one that this API did not make.
    """
    if cursor is None:
        return None
    try:
        document = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return msgspec.json.decode(document, type=shape)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise Problem(400, "bad-cursor", "This cursor is not one of ours: begin again without it.") from None
