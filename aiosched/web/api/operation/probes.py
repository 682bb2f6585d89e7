"""`/livez`, `/readyz`, `/health` and `/metrics`; the status code is the result.

Everybody who reaches the port gets the status. Details and metrics are for users, for programs with `metrics.token`,
and, if `metrics.public` says so, metrics for everybody. An answer is kept for a second.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from aiosched.web.api.base.models import Instant, PartStatus, Resource
from aiosched.web.auth.access import Authenticator, Role, allow
from aiosched.web.auth.accounts import Accounts
from aiosched.web.server import exposition
from aiosched.web.server.problems import Problem
from aiosched.web.views import health
from aiosched.web.views.health import Status

_LOOK_SECONDS: Final = 0.3  # for who asks: a probe is answered within 2 s, with the time that the parts may take

router: APIRouter = APIRouter(tags=["Health"])


class SchedulerStatus(Resource):
    """One scheduler of the fleet."""

    name: str
    hostname: str
    status: str
    lease_age: float
    partitions: int
    started_at: Instant


class HealthReport(BaseModel):
    """The status of the whole system; its parts only for those who are logged in or send `metrics.token`."""

    status: Status
    components: dict[str, PartStatus] | None
    schedulers: list[SchedulerStatus] | None


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
    request: Request,
    scheduler: Annotated[bool, Query(description="whether a live scheduler is required, too")] = True,
) -> Response:
    """The database is reachable, its schema is current, and a scheduler holds its lease; else 503."""
    found: health.Health = await request.app.state.health.get()
    needed = ("database", "schedulers") if scheduler else ("database",)
    ready = all(found.parts[name].status in (Status.HEALTHY, Status.DEGRADED) for name in needed)
    return await _answer(request, found, 200 if ready else 503)


@router.get(
    "/health",
    response_model=HealthReport,
    responses={503: {"model": HealthReport, "description": "Something is broken"}},
)
@allow(Role.PUBLIC)
async def whole_health(request: Request) -> Response:
    """The status of the whole, and of every component and scheduler; 503 if one of them is unhealthy."""
    found: health.Health = await request.app.state.health.get()
    return await _answer(request, found, 503 if found.status is Status.UNHEALTHY else 200)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
@allow(Role.PUBLIC)
async def metrics(request: Request) -> Response:
    """The metrics of the whole fleet, in Prometheus' text format. Needs `metrics.token`, a login or a user's token,
    unless `metrics.public` is set."""
    is_public = request.app.state.request_client.settings.metrics.public
    if not is_public and not _has_metrics_token(request) and not await _is_user(request):
        raise Problem(
            401,
            "login-needed",
            "Metrics need Authorization: Bearer with metrics.token or the token of a user; metrics.public = true opens "
            "them to everybody.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return Response(await request.app.state.exposition.get(), media_type=exposition.CONTENT_TYPE)


def _has_metrics_token(request: Request) -> bool:
    token = request.app.state.request_client.settings.metrics.token or ""
    kind, _, sent = request.headers.get("authorization", "").partition(" ")
    return token != "" and kind.lower() == "bearer" and hmac.compare_digest(_bytes(sent.strip()), _bytes(token))


async def _is_user(request: Request) -> bool:
    """Raises Problem for credentials that are wrong."""
    authenticator: Authenticator = request.app.state.authenticator
    person = await authenticator(request)
    return person is not None and person.role >= Role.VIEWER  # everywhere: details name what all teams have


async def _sees_details(request: Request, found: health.Health) -> bool:
    """Whether the answer of a probe has details: it is no error if nobody can be looked up now."""
    if _has_metrics_token(request):
        return True
    if isinstance(request.app.state.authenticator, Accounts) and found.parts["database"].status is Status.UNHEALTHY:
        return False
    looking = asyncio.create_task(_is_user(request))
    await asyncio.wait({looking}, timeout=_LOOK_SECONDS)
    if not looking.done():
        request.app.state.watch.leave(looking)
        return False
    try:
        return looking.result()
    except (Problem, *health.DATABASE_FAILURES):
        return False


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


async def _answer(request: Request, found: health.Health, status: int) -> Response:
    shown = await _sees_details(request, found)
    report = HealthReport(
        status=found.status,
        components={name: PartStatus.model_validate(part) for name, part in found.parts.items()} if shown else None,
        schedulers=[SchedulerStatus.model_validate(row) for row in found.schedulers] if shown else None,
    )
    body: dict[str, Any] = report.model_dump(mode="json")
    return JSONResponse(body, status)
