"""Schedules of DAGs that are data. Source: docs/jobs.md."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel

from aiosched.core.requests.requests import PauseSchedule, RemoveSchedule, Request, ResumeSchedule, SetSchedule
from aiosched.db.queries import queries
from aiosched.db.queries.schedule_queries import get_schedule, list_schedules
from aiosched.web.api.base.bodies import request_of, with_options
from aiosched.web.api.base.models import Body, Instant, JsonObject, Name, Reason, ReasonBody, Resource
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.answers import ACCEPTED
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.requests.sending import Sender, TheSender

router: APIRouter = APIRouter(tags=["Schedules"])


class ScheduleResource(Resource):
    """A schedule of a DAG: one of `cron` (in `timezone`), `every` (seconds) and `at`.

    `last_at` is the instant of its last run, `last_state` the state of that, or `refused` or `waiting` for the request
    for it; `error` says why it was refused, or why the schedule has stopped.
    """

    dag_id: str
    name: str
    summary: str
    cron: str | None
    every: float | None
    at: Instant | None
    timezone: str
    start: Instant | None
    end: Instant | None
    catchup: bool
    conf: JsonObject
    is_paused: bool
    last_at: Instant | None
    next_at: Instant | None
    last_state: str | None
    error: str | None


@with_options(SetSchedule, without=("name",))
class NewSchedule(Body):
    """When a schedule starts runs, and their conf: one of `cron`, `every` and `at`."""


class RemovedSchedule(BaseModel):
    """A schedule that is gone."""

    name: str


@router.get("/schedules")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_all_schedules(
    request_client: TheRequestClient,
    visible: TheVisible,
    dag_id: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
    paused: bool | None = None,
    limit: Limit = 25,
    cursor: Cursor = None,
) -> Page[ScheduleResource]:
    """Schedules by DAG and name."""
    after = decode_cursor(cursor, tuple[str, str])
    rows = await list_schedules(
        request_client.db, dag_id=dag_id, paused=paused, after=after, limit=limit + 1, seen=visible.dags
    )
    return page_of(ScheduleResource, rows, limit, lambda row: (row.dag_id, row.name))


@router.get("/dags/{dag_id}/schedules/{name}")
@allow(Role.VIEWER, RoleScope.DAG)
async def get_one_schedule(request_client: TheRequestClient, dag_id: Name, name: Name) -> ScheduleResource:
    """One schedule, and what became of its last run."""
    return ScheduleResource.model_validate(await get_schedule(request_client.db, dag_id, name))


@router.put("/dags/{dag_id}/schedules/{name}", response_model=ScheduleResource, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.DAG)
async def set_schedule(sender: TheSender, dag_id: Name, name: Name, body: NewSchedule) -> Response:
    """Make a schedule, or change the one of that name: with other terms it begins anew, now."""
    return await _change(sender, dag_id, name, request_of(SetSchedule, body, name=name))


@router.post("/dags/{dag_id}/schedules/{name}/pause", response_model=ScheduleResource, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.DAG)
async def pause_schedule(sender: TheSender, dag_id: Name, name: Name, because: ReasonBody | None = None) -> Response:
    """Pause a schedule: it starts no runs."""
    return await _change(sender, dag_id, name, request_of(PauseSchedule, because, name=name))


@router.post("/dags/{dag_id}/schedules/{name}/resume", response_model=ScheduleResource, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.DAG)
async def resume_schedule(sender: TheSender, dag_id: Name, name: Name, because: ReasonBody | None = None) -> Response:
    """Resume a schedule: the last missed instant has a run, with catchup each."""
    return await _change(sender, dag_id, name, request_of(ResumeSchedule, because, name=name))


@router.delete("/dags/{dag_id}/schedules/{name}", response_model=RemovedSchedule, responses=ACCEPTED)
@allow(Role.OPERATOR, RoleScope.DAG)
async def remove_schedule(
    sender: TheSender, dag_id: Name, name: Name, reason: Annotated[Reason, Query()] = None
) -> Response:
    """Remove a schedule; its runs stay."""
    await queries.get_dag(sender.db, dag_id)
    return await sender.send(RemoveSchedule(name, reason=reason), dag_id, lambda _: RemovedSchedule(name=name))


async def _change(sender: Sender, dag_id: str, name: str, request: Request) -> Response:
    await queries.get_dag(sender.db, dag_id)

    async def after(_: dict[str, Any]) -> ScheduleResource:
        return ScheduleResource.model_validate(await get_schedule(sender.db, dag_id, name))

    return await sender.send(request, dag_id, after)
