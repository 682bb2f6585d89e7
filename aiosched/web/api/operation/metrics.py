"""A summary of the schedulers' metrics for people; the metrics themselves are at `/metrics`."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, Request
from pydantic import BaseModel

from aiosched.db.queries.schedulers import list_schedulers
from aiosched.web.api.base.models import Resource
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.request_client import ThePrimary
from aiosched.web.views.scheduler_rates import FleetRates

router: APIRouter = APIRouter(tags=["System"])


class Quantiles(Resource):
    """The number of values, their median and their 99th percentile in seconds (null without values)."""

    count: int
    p50: float | None
    p99: float | None


class SchedulerTempo(Resource):
    """How fast a scheduler was in the last `seconds`: since this server's first sample, a few minutes ago at most.

    `task_lag`: from a task's last dependency to its start. `schedule_delay`: from the instant at which a run may start
    to its start. `commit`: duration of a commit. `loop_lag`: lag of its event loop.
    """

    incarnation: int
    name: str
    alive: bool
    seconds: float
    commits_per_second: float
    tasks_per_second: float
    tasks_per_commit: float | None
    task_lag: Quantiles
    commit: Quantiles
    schedule_delay: Quantiles
    loop_lag: Quantiles


class MetricsSummary(BaseModel):
    """Every scheduler that has published metrics."""

    schedulers: list[SchedulerTempo]


@router.get("/metrics/summary")
@allow(Role.VIEWER, RoleScope.NEUTRAL)
async def metrics_summary(request: Request, request_client: ThePrimary) -> MetricsSummary:
    """The throughput and the delays of each scheduler."""
    rows = await list_schedulers(request_client.db)
    rates = cast("FleetRates", request.app.state.rates).rates_of(rows, request_client.clock.now())
    found = [
        SchedulerTempo.model_validate(
            {"incarnation": row.incarnation, "name": row.name, "alive": row.alive}
            | {name: getattr(rates[row.incarnation], name) for name in rates[row.incarnation].__dataclass_fields__},
            from_attributes=True,
        )
        for row in rows
        if row.incarnation in rates
    ]
    return MetricsSummary(schedulers=found)
