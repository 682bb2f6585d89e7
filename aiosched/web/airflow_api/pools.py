"""`/pools`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from aiosched.db.names.existing import IfExists
from aiosched.db.people import pools
from aiosched.web.airflow_api.paging import MOST, OrderBy, PageLimit, PageOffset, check_size, ordered, page
from aiosched.web.airflow_api.shapes import pool_shape
from aiosched.web.api.base.models import Body
from aiosched.web.api.operation.pools import PoolName
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.owned import check_editable, check_seen, seen_page
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter()

PoolText = Annotated[str | None, Field(max_length=1000, pattern=r"^[^\x00]*$")]


class PoolBody(Body):
    """A pool to create."""

    name: Annotated[str, Field(min_length=1, max_length=250, pattern=r"^[^\x00]+$")]
    slots: Annotated[int, Field(ge=-1, lt=2**31)]
    description: PoolText = None
    include_deferred: bool = False
    team_name: None = None  # another value is refused: teams are set by /api/v1


class PoolPatch(Body):
    """What to change about a pool."""

    name: str | None = None
    pool: str | None = None
    slots: Annotated[int | None, Field(ge=-1, lt=2**31)] = None
    description: PoolText = None
    include_deferred: bool | None = None
    team_name: None = None


@router.get("/pools")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_pools(
    request_client: TheRequestClient,
    visible: TheVisible,
    limit: PageLimit = 50,
    offset: PageOffset = 0,
    order_by: OrderBy = None,
) -> dict[str, Any]:
    """Pools."""

    async def read(after: str, limit: int) -> Sequence[pools.Pool]:
        return await pools.list_pools(request_client.db, after=after, limit=limit)

    rows = await seen_page(request_client.db, visible, "pool", read, lambda row: row.name, limit=MOST + 1)
    check_size(rows)
    keys = {"id": lambda row: row.name, "name": lambda row: row.name, "pool": lambda row: row.name}
    return page("pools", ordered(rows, order_by, keys), limit, offset, pool_shape)


@router.post("/pools", status_code=201)
@allow(Role.EDITOR, RoleScope.SEEN)
async def post_pool(request_client: TheRequestClient, visible: TheVisible, body: PoolBody) -> dict[str, Any]:
    """Create a pool; 409 if there is one."""
    await check_editable(request_client.db, visible, "pool", body.name, is_new=True)
    change = await pools.set_pool(
        request_client.db,
        body.name,
        body.slots,
        include_deferred=body.include_deferred,
        description=body.description,
        existing=IfExists.FAIL,
        requested_by=visible.person.requested_by,
    )
    return pool_shape(change.after)


@router.get("/pools/{name:path}")
@allow(Role.VIEWER, RoleScope.SEEN)
async def get_pool(request_client: TheRequestClient, visible: TheVisible, name: PoolName) -> dict[str, Any]:
    """One pool."""
    await check_seen(request_client.db, visible, "pool", name)
    return pool_shape(await pools.get_pool(request_client.db, name))


@router.patch("/pools/{name:path}")
@allow(Role.EDITOR, RoleScope.SEEN)
async def patch_pool(
    request_client: TheRequestClient, visible: TheVisible, name: PoolName, body: PoolPatch
) -> dict[str, Any]:
    """Change a pool: the fields that are sent, the others stay."""
    await check_editable(request_client.db, visible, "pool", name)
    old = await pools.get_pool(request_client.db, name)
    change = await pools.set_pool(
        request_client.db,
        name,
        old.slots if body.slots is None else body.slots,
        include_deferred=body.include_deferred,
        description=body.description,
        requested_by=visible.person.requested_by,
    )
    return pool_shape(change.after)


@router.delete("/pools/{name:path}", status_code=204)
@allow(Role.EDITOR, RoleScope.SEEN)
async def delete_pool(request_client: TheRequestClient, visible: TheVisible, name: PoolName) -> Response:
    """Delete a pool."""
    await check_editable(request_client.db, visible, "pool", name)
    await pools.delete_pool(request_client.db, name, requested_by=visible.person.requested_by)
    return Response(status_code=204)
