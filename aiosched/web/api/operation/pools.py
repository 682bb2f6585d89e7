"""Pools: their slots, and which tasks hold them or wait for them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import BaseModel, Field

from aiosched.db.people import pools
from aiosched.db.queries import pool_queries
from aiosched.db.queries.pool_queries import PoolUser
from aiosched.web.api.base.models import Body, Etag, Instant, Resource
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, encode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.condition import TheCondition, TheVersion
from aiosched.web.requests.owned import check_editable, check_seen, seen_page
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.requests.seen_starving import seen_starving

router: APIRouter = APIRouter(tags=["Pools"])

_MOST_HOLDERS: Final = 200
_MOST_COUNTED: Final = 10_000

PoolName = Annotated[str, Path(min_length=1, max_length=250, pattern=r"^[^\x00]+$")]


class PoolResource(Resource):
    """A pool. `slots` is -1 for no limit (then `open` is null); 0 lets nothing run.

    `rate` is the most attempts that start per period, such as `100/min`.
    """

    name: str
    slots: int
    used: int
    open: int | None
    include_deferred: bool
    description: str | None
    team: str | None
    rate: str | None
    etag: Etag


class PoolUpdate(Body):
    """The values to set; null leaves a value unchanged, and an empty team or rate is none.

    A rate is a number of starts and a period in s, min, h or day: `100/min`, `5/30s`.
    """

    slots: Annotated[int, Field(ge=-1, lt=2**31)]
    include_deferred: bool | None = None
    description: Annotated[str | None, Field(max_length=1000, pattern=r"^[^\x00]*$")] = None
    team: Annotated[str | None, Field(max_length=250, pattern=r"^[^\x00]*$")] = None
    rate: Annotated[str | None, Field(max_length=50, pattern=r"^[^\x00]*$")] = None
    reason: Annotated[str | None, Field(max_length=500, pattern=r"^[^\x00]*$")] = None


class StarvingResource(Resource):
    """A pool or an executor that tasks wait for, as of the schedulers' last heartbeats: `words` say why, and how many
    they are. `exists`: it is a pool of the list."""

    kind: str
    name: str
    exists: bool
    words: str


class PoolList(Page[PoolResource]):
    """A page of pools. The first one has what is `starving`: pools that are full while tasks wait, and pools and
    executors that can never give a slot to tasks that wait for one."""

    starving: list[StarvingResource] = []


@router.get("/pools")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_pools(
    request_client: TheRequestClient, visible: TheVisible, limit: Limit = 100, cursor: Cursor = None
) -> PoolList:
    """Pools by name."""
    after, db = decode_cursor(cursor, str) or "", request_client.db

    async def read(after: str, limit: int) -> list[pools.Pool]:
        return await pools.list_pools(db, after=after, limit=limit)

    rows = await seen_page(db, visible, "pool", read, lambda pool: pool.name, after=after, limit=limit + 1)
    page = page_of(PoolResource, rows, limit, lambda row: row.name)
    starving = await seen_starving(db, visible) if cursor is None else []
    return PoolList(
        items=page.items,
        next_cursor=page.next_cursor,
        starving=[StarvingResource.model_validate(one) for one in starving],
    )


class SlotUser(Resource):
    """A task instance that holds slots of a pool or waits for them, since when and for how many seconds."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    state: str
    slots: int
    weight: int
    since: Instant | None
    seconds: float | None


class Queue(BaseModel):
    """The tasks that hold slots (longest first, at most 200), and those that wait (in the order of service).

    The order is that of each scheduler; limits of a DAG can let a task overtake. Only the first page has the holders.
    `waiting` is how many wait in all; 10,000 means at least that many.
    """

    holders: list[SlotUser]
    waiting: int
    items: list[SlotUser]
    next_cursor: str | None


@router.get("/pools/{name:path}/queue")
@allow(Role.VIEWER, RoleScope.SEEN)
async def pool_queue(
    request_client: TheRequestClient, visible: TheVisible, name: PoolName, limit: Limit = 100, cursor: Cursor = None
) -> Queue:
    """The tasks that hold slots of a pool, and those that wait for them."""
    after = decode_cursor(cursor, tuple[int, datetime, int, int, int])
    await check_seen(request_client.db, visible, "pool", name)
    pool = await pools.get_pool(request_client.db, name)
    members = await pool_queries.pool_members(request_client.db, name)
    holders: list[PoolUser] = []
    if after is None:
        holders = await pool_queries.pool_holders(
            request_client.db, members, include_deferred=pool.include_deferred, limit=_MOST_HOLDERS, seen=visible.dags
        )
    waiting = await pool_queries.pool_waiting(
        request_client.db, members, after=after, limit=limit + 1, seen=visible.dags
    )
    number = len(waiting)
    if number > limit or after is not None:
        number = await pool_queries.number_waiting(request_client.db, members, most=_MOST_COUNTED, seen=visible.dags)
    now = request_client.clock.now()
    return Queue(
        holders=[_shown(user, now) for user in holders],
        waiting=number,
        items=[_shown(user, now) for user in waiting[:limit]],
        next_cursor=encode_cursor(waiting[limit - 1].place) if len(waiting) > limit else None,
    )


def _shown(user: PoolUser, now: datetime) -> SlotUser:
    seconds = None if user.since is None else max((now - user.since).total_seconds(), 0.0)
    return SlotUser.model_validate({**{n: getattr(user, n) for n in user.__dataclass_fields__}, "seconds": seconds})


@router.get("/pools/{name:path}")
@allow(Role.VIEWER, RoleScope.SEEN)
async def get_pool(request_client: TheRequestClient, visible: TheVisible, name: PoolName) -> PoolResource:
    """One pool."""
    await check_seen(request_client.db, visible, "pool", name)
    return PoolResource.model_validate(await pools.get_pool(request_client.db, name))


@router.put("/pools/{name:path}")
@allow(Role.EDITOR, RoleScope.SEEN)
async def set_pool(
    request_client: TheRequestClient, visible: TheVisible, name: PoolName, body: PoolUpdate, existing: TheCondition
) -> PoolResource:
    """Create or change a pool; idempotent."""
    await check_editable(request_client.db, visible, "pool", name, is_new=True, team=body.team)
    change = await pools.set_pool(
        request_client.db,
        name,
        body.slots,
        include_deferred=body.include_deferred,
        description=body.description,
        team=body.team,
        rate=body.rate,
        existing=existing,
        requested_by=visible.person.requested_by,
        reason=body.reason,
    )
    return PoolResource.model_validate(change.after)


@router.delete("/pools/{name:path}", status_code=204)
@allow(Role.EDITOR, RoleScope.SEEN)
async def delete_pool(
    request_client: TheRequestClient, visible: TheVisible, name: PoolName, existing: TheVersion
) -> Response:
    """Delete a pool that no task uses."""
    await check_editable(request_client.db, visible, "pool", name)
    await pools.delete_pool(request_client.db, name, existing=existing, requested_by=visible.person.requested_by)
    return Response(status_code=204)
