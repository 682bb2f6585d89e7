"""The last runs of DAGs as bars, and their statistics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from aiosched.core.values.states import RunState
from aiosched.db.queries import run_queries
from aiosched.web.api.base.models import Instant, Stored, Text
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["DAGs"])


class RunBar(BaseModel):
    """One of the last runs."""

    run_id: str
    state: Stored[RunState]
    run_after: Instant
    seconds: float | None


class Statistics(BaseModel):
    """The last runs of a DAG (at most 30, oldest first), their success rate, and their usual durations in seconds."""

    dag_id: str
    last_runs: list[RunBar]
    success_rate: float | None
    p50: float | None
    p95: float | None


class StatisticsList(BaseModel):
    """Statistics of several DAGs."""

    items: list[Statistics]


@router.get("/dag-statistics", response_model=StatisticsList)
@allow(Role.VIEWER, RoleScope.SEEN)
async def statistics(
    request_client: TheRequestClient,
    visible: TheVisible,
    dag_id: Annotated[list[Text], Query(min_length=1, max_length=200)],
) -> Response:
    """The last runs of DAGs and their statistics."""
    known = visible.among(dict.fromkeys(dag_id))
    if not known:
        return JSONResponse({"items": []})
    document = await run_queries.last_runs(request_client.db, known)
    return Response(document, media_type="application/json")
