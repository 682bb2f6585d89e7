"""Conditions of changes (RFC 9110, 13.1): only create, only change what exists, only what is still as it was read."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Depends, Header

from aiosched.db.names.existing import Existing, IfExists, IfUnchanged

_TAG: Final = r'^(\*|"[^"\x00-\x1f]{1,100}")$'
IfMatch = Annotated[
    str | None,
    Header(
        pattern=_TAG, description='only change: 404 if it does not exist; `"its etag"`: 412 if it was changed since'
    ),
]


async def _condition(
    if_none_match: Annotated[Literal["*"] | None, Header(description="only create: 409 if it exists already")] = None,
    if_match: IfMatch = None,
) -> Existing:
    if if_none_match:
        return IfExists.FAIL
    return IfExists.OVERWRITE if if_match is None else _matching(if_match)


def _matching(value: str) -> Existing:
    return IfExists.REQUIRE if value == "*" else IfUnchanged(value.strip('"'))


async def _unchanged(if_match: IfMatch = None) -> Existing:
    return IfExists.OVERWRITE if if_match is None else _matching(if_match)


TheCondition = Annotated[Existing, Depends(_condition)]
# For changes of what exists in any case.
TheVersion = Annotated[Existing, Depends(_unchanged)]
