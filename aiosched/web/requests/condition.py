"""`If-None-Match: *` and `If-Match: *`: changes that only create, or only change what exists (RFC 9110, 13.1)."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Header

from aiosched.db.names.existing import Existing


async def _condition(
    if_none_match: Annotated[Literal["*"] | None, Header(description="only create: 409 if it exists already")] = None,
    if_match: Annotated[Literal["*"] | None, Header(description="only change: 404 if it does not exist")] = None,
) -> Existing:
    if if_none_match:
        return Existing.FAIL
    return Existing.REQUIRE if if_match else Existing.OVERWRITE


TheCondition = Annotated[Existing, Depends(_condition)]
