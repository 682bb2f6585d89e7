"""Backfills: runs of past dates, created by the scheduler under a limit of their own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from aiosched.core.creation.backfills import Rerun
from aiosched.core.requests.requests import BackfillCancel, BackfillCreate, BackfillPause, BackfillResume
from aiosched.db.queries import backfill_queries, queries
from aiosched.db.queries.backfill_queries import BackfillRow
from aiosched.errors import NotFound
from aiosched.web.api.base.bodies import request_of, with_options
from aiosched.web.api.base.models import (
    Body,
    Instant,
    ReasonBody,
    Resource,
    Stored,
    Text,
)
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible, Visible
from aiosched.web.requests.answers import ACCEPTED
from aiosched.web.requests.request_client import RequestClient, TheRequestClient
from aiosched.web.requests.sending import Sender, TheSender

router: APIRouter = APIRouter(tags=["Backfills"])

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


@with_options(BackfillCreate)
class NewBackfill(Body):
    """Past dates to run, both inclusive; a date without a time is that whole day in the DAG's time zone.

    `rerun` says which existing runs run again.
    """

    dag_id: Text


class PlannedDate(BaseModel):
    """What happens to a date: its run is created, run again, or left alone."""

    logical_date: str
    fate: str


class LeftOut(BaseModel):
    """From which date on a backfill leaves dates out, and why."""

    logical_date: str
    reason: str


class BackfillAnswer(BaseModel):
    """A new backfill (null for a dry run), and what happens to each date.

    `from` and `to` are the first and the last instant that were meant, with offsets of the DAG's time zone.
    """

    model_config = ConfigDict(populate_by_name=True)

    id: int | None
    dates: list[PlannedDate]
    first: Annotated[str | None, Field(alias="from")] = None
    final: Annotated[str | None, Field(alias="to")] = None
    timezone: str | None = None
    left_out: LeftOut | None = None


@router.get("/backfills")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_backfills(
    request_client: TheRequestClient,
    visible: TheVisible,
    dag_id: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
    limit: Limit = 25,
    cursor: Cursor = None,
) -> Page[BackfillResource]:
    """Backfills, newest first."""
    before = decode_cursor(cursor, int)
    rows = await backfill_queries.list_backfills(
        request_client.db, dag_id=dag_id, before=before, limit=limit + 1, seen=visible.dags
    )
    return page_of(BackfillResource, rows, limit, lambda row: row.id)


@router.get("/backfills/{number}")
@allow(Role.VIEWER, RoleScope.SEEN)
async def get_backfill(request_client: TheRequestClient, visible: TheVisible, number: Number) -> BackfillResource:
    """One backfill with its progress."""
    return BackfillResource.model_validate(await _find(request_client, visible, number))


async def _find(request_client: RequestClient, visible: Visible, number: int) -> BackfillRow:
    row = await backfill_queries.get_backfill(request_client.db, number)
    if not visible.sees(row.dag_id):
        raise NotFound(f"There is no backfill {number}; see `aiosched backfill list`.")
    return row


@router.post("/backfills", status_code=201, response_model=BackfillAnswer, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.SEEN)
async def create_backfill(sender: TheSender, visible: TheVisible, body: NewBackfill) -> Response:
    """Create the runs of past dates; `dry_run` only shows which."""
    await visible.check_dag(body.dag_id, Role.OPERATOR)
    await queries.get_dag(sender.db, body.dag_id)
    create = request_of(BackfillCreate, body)
    if create.dry_run:
        seen = BackfillAnswer.model_validate(await sender.client.preview(create, body.dag_id))
        return JSONResponse(seen.model_dump(mode="json", by_alias=True))
    return await sender.send(create, body.dag_id, BackfillAnswer.model_validate, status=201)


async def _change(sender: Sender, visible: Visible, verb: BackfillPause | BackfillResume | BackfillCancel) -> Response:
    row = await _find(sender.client, visible, verb.id)
    await visible.check_dag(row.dag_id, Role.OPERATOR)

    async def after(_: dict[str, Any]) -> BackfillResource:
        return BackfillResource.model_validate(await backfill_queries.get_backfill(sender.db, verb.id))

    return await sender.send(verb, row.dag_id, after)


@router.post("/backfills/{number}/pause", response_model=BackfillResource, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.SEEN)
async def pause(sender: TheSender, visible: TheVisible, number: Number, because: ReasonBody | None = None) -> Response:
    """Pause a backfill: it starts no further runs."""
    return await _change(sender, visible, request_of(BackfillPause, because, id=number))


@router.post("/backfills/{number}/resume", response_model=BackfillResource, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.SEEN)
async def resume(sender: TheSender, visible: TheVisible, number: Number, because: ReasonBody | None = None) -> Response:
    """Resume a paused backfill."""
    return await _change(sender, visible, request_of(BackfillResume, because, id=number))


@router.post("/backfills/{number}/cancel", response_model=BackfillResource, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.SEEN)
async def cancel(sender: TheSender, visible: TheVisible, number: Number, because: ReasonBody | None = None) -> Response:
    """Cancel a backfill: its queued runs fail, its running runs continue."""
    return await _change(sender, visible, request_of(BackfillCancel, because, id=number))
