"""Pools: their slots, who holds them and who waits."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import BaseModel, Field

from aiosched.db import pools
from aiosched.web.access import Person, Role, allow
from aiosched.web.api.models import Resource
from aiosched.web.gateway import TheGateway
from aiosched.web.paging import Cursor, Limit, Page, decode_cursor, encode_cursor

router = APIRouter(tags=["Pools"])

PoolName = Annotated[str, Path(min_length=1, max_length=250, pattern=r"^[^\x00]+$")]


class Pool(Resource):
    """A pool. `slots` -1 is without limit (then `open` is null), 0 lets nothing run."""

    name: str
    slots: int
    used: int
    open: int | None
    include_deferred: bool
    description: str | None


class PoolWish(BaseModel):
    """A pool as it should be; what is null stays as it is."""

    slots: Annotated[int, Field(ge=-1, lt=2**31)]
    include_deferred: bool | None = None
    description: Annotated[str | None, Field(max_length=1000, pattern=r"^[^\x00]*$")] = None
    reason: Annotated[str | None, Field(max_length=500, pattern=r"^[^\x00]*$")] = None


@router.get("/pools")
@allow(Role.VIEWER)
async def list_pools(gateway: TheGateway, limit: Limit = 100, cursor: Cursor = None) -> Page[Pool]:
    """Pools by name."""
    after = decode_cursor(cursor, tuple[str])
    rows = await pools.list_pools(gateway.db, after=after[0] if after else "", limit=limit + 1)
    more = encode_cursor(rows[limit - 1].name) if len(rows) > limit else None
    return Page(items=[Pool.model_validate(row) for row in rows[:limit]], next_cursor=more)


@router.get("/pools/{name}")
@allow(Role.VIEWER)
async def get_pool(gateway: TheGateway, name: PoolName) -> Pool:
    """One pool."""
    return Pool.model_validate(await pools.get_pool(gateway.db, name))


@router.put("/pools/{name}")
@allow(Role.ADMIN)
async def set_pool(gateway: TheGateway, person: Person, name: PoolName, wish: PoolWish) -> Pool:
    """Make a pool or change it; doing it twice is doing it once."""
    change = await pools.set_pool(
        gateway.db,
        name,
        wish.slots,
        include_deferred=wish.include_deferred,
        description=wish.description,
        requested_by=person.requested_by,
        reason=wish.reason,
    )
    return Pool.model_validate(change.after)


@router.delete("/pools/{name}", status_code=204)
@allow(Role.ADMIN)
async def delete_pool(gateway: TheGateway, person: Person, name: PoolName) -> Response:
    """Remove a pool that nobody uses."""
    await pools.delete_pool(gateway.db, name, requested_by=person.requested_by)
    return Response(status_code=204)
