"""Backfills: runs of past dates, created by the scheduler under a limit of their own."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from aiosched.core.creation.backfills import Rerun
from aiosched.core.requests.requests import BackfillCancel, BackfillCreate, BackfillPause, BackfillResume
from aiosched.db.queries import backfill_queries, queries
from aiosched.db.queries.backfill_queries import BackfillRow
from aiosched.errors import NotFound
from aiosched.web.api.base.models import (
    Because,
    Body,
    GivenInstant,
    Instant,
    JsonObject,
    Reason,
    Resource,
    Stored,
    Text,
)
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.sight import Sight, TheSight
from aiosched.web.requests.answers import ACCEPTED, answered
from aiosched.web.requests.request_client import RequestClient, TheRequestClient

router = APIRouter(tags=["Backfills"])

Number = Annotated[int, Path(ge=1, lt=2**63)]


class BackfillResource(Resource):
    """A backfill and the number of its runs in each state. Dates are inclusive."""

    id: int
    dag_id: str
    from_date: Instant
    to_date: Instant
    rerun: Stored[Rerun]
    max_active_runs: int
    backwards: bool
    state: Literal["running", "paused", "completed", "cancelled"]
    created_at: Instant
    completed_at: Instant | None
    total: int
    running: int
    finished: int
    failed: int


class NewBackfill(Body):
    """Past dates to run, both inclusive. `rerun` says which existing runs run again."""

    dag_id: Text
    from_date: GivenInstant
    to_date: GivenInstant
    rerun: Rerun = Rerun.MISSING
    max_active_runs: Annotated[int, Field(ge=1, le=10_000)] = 10
    backwards: bool = False
    conf: JsonObject = {}
    dry_run: bool = False
    reason: Reason = None


class PlannedDate(BaseModel):
    """What happens to a date: its run is created, run again, or left alone."""

    logical_date: str
    fate: str


class BackfillAnswer(BaseModel):
    """A new backfill (null for a dry run), and what happens to each date."""

    id: int | None
    dates: list[PlannedDate]


@router.get("/backfills")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_backfills(
    request_client: TheRequestClient,
    sight: TheSight,
    dag_id: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
    limit: Limit = 25,
    cursor: Cursor = None,
) -> Page[BackfillResource]:
    """Backfills, newest first."""
    before = decode_cursor(cursor, int)
    rows = await backfill_queries.list_backfills(
        request_client.db, dag_id=dag_id, before=before, limit=limit + 1, seen=sight.dags
    )
    return page_of(BackfillResource, rows, limit, lambda row: row.id)


@router.get("/backfills/{number}")
@allow(Role.VIEWER, RoleScope.SEEN)
async def get_backfill(request_client: TheRequestClient, sight: TheSight, number: Number) -> BackfillResource:
    """One backfill with its progress."""
    return BackfillResource.model_validate(await _find(request_client, sight, number))


async def _find(request_client: RequestClient, sight: Sight, number: int) -> BackfillRow:
    row = await backfill_queries.get_backfill(request_client.db, number)
    if not sight.sees(row.dag_id):
        raise NotFound(f"There is no backfill {number}; see `aiosched backfill list`.")
    return row


@router.post("/backfills", status_code=201, response_model=BackfillAnswer, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.SEEN)
async def create_backfill(
    request: Request, request_client: TheRequestClient, sight: TheSight, body: NewBackfill
) -> Response:
    """Create the runs of past dates; `dry_run` only shows which."""
    await sight.check_dag(body.dag_id, Role.OPERATOR)
    await queries.get_dag(request_client.db, body.dag_id)
    names = {"dag_id", "from_date", "to_date", "reason"}
    create = BackfillCreate(**body.model_dump(exclude=names), first=body.from_date, final=body.to_date)
    if create.dry_run:
        seen = BackfillAnswer.model_validate(await request_client.preview(create, body.dag_id))
        return JSONResponse(seen.model_dump(mode="json"))
    answer = await request_client.ask(create, body.dag_id, by=sight.person, reason=body.reason)
    return answered(request, answer, BackfillAnswer.model_validate, status=201)


async def _change(
    request: Request,
    request_client: RequestClient,
    sight: Sight,
    verb: BackfillPause | BackfillResume | BackfillCancel,
    because: Because | None,
) -> Response:
    row = await _find(request_client, sight, verb.id)
    await sight.check_dag(row.dag_id, Role.OPERATOR)
    answer = await request_client.ask(verb, row.dag_id, by=sight.person, reason=because.reason if because else None)
    after = await backfill_queries.get_backfill(request_client.db, verb.id)
    return answered(request, answer, lambda _: BackfillResource.model_validate(after))


@router.post("/backfills/{number}/pause", response_model=BackfillResource, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.SEEN)
async def pause(
    request: Request, request_client: TheRequestClient, sight: TheSight, number: Number, because: Because | None = None
) -> Response:
    """Pause a backfill: it starts no further runs."""
    return await _change(request, request_client, sight, BackfillPause(id=number), because)


@router.post("/backfills/{number}/resume", response_model=BackfillResource, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.SEEN)
async def resume(
    request: Request, request_client: TheRequestClient, sight: TheSight, number: Number, because: Because | None = None
) -> Response:
    """Resume a paused backfill."""
    return await _change(request, request_client, sight, BackfillResume(id=number), because)


@router.post("/backfills/{number}/cancel", response_model=BackfillResource, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.SEEN)
async def cancel(
    request: Request, request_client: TheRequestClient, sight: TheSight, number: Number, because: Because | None = None
) -> Response:
    """Cancel a backfill: its queued runs fail, its running runs continue."""
    return await _change(request, request_client, sight, BackfillCancel(id=number), because)
