"""`If-None-Match: *` and `If-Match: *`: changes that only create, or only change what exists (RFC 9110, 13.1)."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Header

from aiosched.db.names.existing import IfExists


async def _condition(
    if_none_match: Annotated[Literal["*"] | None, Header(description="only create: 409 if it exists already")] = None,
    if_match: Annotated[Literal["*"] | None, Header(description="only change: 404 if it does not exist")] = None,
) -> IfExists:
    if if_none_match:
        return IfExists.FAIL
    return IfExists.REQUIRE if if_match else IfExists.OVERWRITE


TheCondition = Annotated[IfExists, Depends(_condition)]
