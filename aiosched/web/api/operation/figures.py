"""Figures over time: of the fleet, of one scheduler, of a pool. The server chooses how finely a range is shown."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from aiosched.core.figures.ranges import LONGEST, range_before
from aiosched.db.figures.reading import fleet_points, pool_points
from aiosched.db.people.pools import get_pool
from aiosched.web.api.base.models import Instant, Resource
from aiosched.web.api.operation.pools import PoolName
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.owned import check_seen
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["System"])

_LONGEST = int(LONGEST / timedelta(hours=1))
Hours = Annotated[int, Query(ge=1, le=_LONGEST, description="length of the range, which ends now")]
SchedulerName = Annotated[
    str | None, Query(max_length=250, pattern=r"^[^\x00]*$", description="name of a scheduler; unset: all together")
]


class FigurePoint(Resource):
    """One step of a range. Durations are in seconds; means of what there was, null where it is not known.

    `lag_*` is how long tasks waited from ready to started, `parsing` the seconds of parsing a minute.
    `memory` is in bytes.
    """

    at: Instant
    schedulers: int
    ended_per_second: float | None
    lag_p50: float | None
    lag_p99: float | None
    waiting: float | None
    queued: float | None
    running: float | None
    commits_per_second: float | None
    commit_p50: float | None
    commit_p99: float | None
    loop_lag_p99: float | None
    memory: float | None
    parsing: float | None


class Figures(BaseModel):
    """A range in steps of `step` seconds. A step without a point is one in which no scheduler wrote figures."""

    since: Instant
    until: Instant
    step: int
    points: list[FigurePoint]


class PoolFigurePoint(Resource):
    """One step of a range: means of slots, used slots, queued slots and waiting task instances.

    `slots` is -1 for no limit; null, and so `open`, if nothing used the pool or waited for it.
    """

    at: Instant
    slots: float | None
    used: float | None
    open: float | None
    queued: float | None
    waiting: float | None


class PoolHistory(BaseModel):
    """A range in steps of `step` seconds. A step without a point is one in which no scheduler wrote figures."""

    since: Instant
    until: Instant
    step: int
    points: list[PoolFigurePoint]


@router.get("/figures")
@allow(Role.VIEWER, RoleScope.NEUTRAL)
async def figures(request_client: TheRequestClient, hours: Hours = 24, scheduler: SchedulerName = None) -> Figures:
    """Figures of the fleet or of one scheduler over time, at most 701 points."""
    span = range_before(request_client.clock.now(), timedelta(hours=hours))
    points = await fleet_points(request_client.db, span, scheduler=scheduler)
    return Figures(
        since=span.since,
        until=span.until,
        step=int(span.step.total_seconds()),
        points=[FigurePoint.model_validate(point) for point in points],
    )


@router.get("/pools/{name:path}/figures")
@allow(Role.VIEWER, RoleScope.SEEN)
async def pool_figures(
    request_client: TheRequestClient, visible: TheVisible, name: PoolName, hours: Hours = 24
) -> PoolHistory:
    """Figures of a pool over time, at most 701 points."""
    await check_seen(request_client.db, visible, "pool", name)
    await get_pool(request_client.db, name)
    span = range_before(request_client.clock.now(), timedelta(hours=hours))
    points = await pool_points(request_client.db, span, name)
    return PoolHistory(
        since=span.since,
        until=span.until,
        step=int(span.step.total_seconds()),
        points=[PoolFigurePoint.model_validate(point) for point in points],
    )
