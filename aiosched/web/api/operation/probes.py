"""`/livez`, `/readyz`, `/health` and `/metrics`: open to everybody who reaches the port; the status code is the
result."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from aiosched.web.api.base.models import Instant, PartStatus, Resource
from aiosched.web.auth.access import Role, allow
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.server import exposition
from aiosched.web.views import health
from aiosched.web.views.health import Status

router = APIRouter(tags=["Health"])


class SchedulerStatus(Resource):
    """One scheduler of the fleet."""

    name: str
    hostname: str
    status: str
    lease_age: float
    partitions: int
    started_at: Instant


class HealthReport(BaseModel):
    """The status of the whole system."""

    status: Status
    components: dict[str, PartStatus]
    schedulers: list[SchedulerStatus]


@router.get("/livez")
@allow(Role.PUBLIC)
async def livez() -> dict[str, str]:
    """The event loop responds: a process that answers is alive."""
    return {"status": "alive"}


@router.get(
    "/readyz", response_model=HealthReport, responses={503: {"model": HealthReport, "description": "Not ready"}}
)
@allow(Role.PUBLIC)
async def readyz(
    request_client: TheRequestClient,
    scheduler: Annotated[bool, Query(description="whether a live scheduler is required, too")] = True,
) -> Response:
    """The database is reachable, its schema is current, and a scheduler holds its lease; else 503."""
    found = await health.examine(request_client.db)
    needed = ("database", "schedulers") if scheduler else ("database",)
    ready = all(found.parts[name].status in (Status.HEALTHY, Status.DEGRADED) for name in needed)
    return _answer(found, 200 if ready else 503)


@router.get(
    "/health",
    response_model=HealthReport,
    responses={503: {"model": HealthReport, "description": "Something is broken"}},
)
@allow(Role.PUBLIC)
async def whole_health(request_client: TheRequestClient) -> Response:
    """The status of every component and scheduler; 503 if one of them is unhealthy."""
    found = await health.examine(request_client.db)
    return _answer(found, 503 if found.status is Status.UNHEALTHY else 200)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
@allow(Role.PUBLIC)
async def metrics(request_client: TheRequestClient) -> Response:
    """The metrics of the whole fleet, in Prometheus' text format."""
    return Response(await exposition.exposition(request_client.db), media_type=exposition.CONTENT_TYPE)


def _answer(found: health.Health, status: int) -> Response:
    report = HealthReport(
        status=found.status,
        components={name: PartStatus.model_validate(part) for name, part in found.parts.items()},
        schedulers=[SchedulerStatus.model_validate(row) for row in found.schedulers],
    )
    body: dict[str, Any] = report.model_dump(mode="json")
    return JSONResponse(body, status)
