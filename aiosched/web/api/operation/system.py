"""The state of the system: import errors, files, schedulers, requests, settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from aiosched.config import setting_fields, shown
from aiosched.db.queries import request_queries, schedulers
from aiosched.db.queries.request_queries import RequestRow
from aiosched.db.server.releases import what_is_missing
from aiosched.db.statements import inbox
from aiosched.errors import NotFound
from aiosched.web.api.base.models import Instant, ReasonBody, Resource, Stored
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible, Visible
from aiosched.web.requests.dependents import seen_dependents
from aiosched.web.requests.request_client import RequestClient, ThePrimary, TheRequestClient
from aiosched.web.requests.seen_files import seen_files, seen_import_errors
from aiosched.web.server.etags import RARELY

router: APIRouter = APIRouter(tags=["System"])

Number = Annotated[int, Path(ge=1, lt=2**63)]
RequestState = Literal["waiting", "applied", "refused"]


class ImportProblem(Resource):
    """Why a DAG file cannot be imported: a summary, the code around the line, the traceback.

    `since`: when that began; `parsed_at`: the last parse, which has found the same.
    """

    file: str
    error: str
    line: int | None
    code_frame: str | None
    traceback: str | None
    dag_ids: list[str]
    parsed_at: Instant | None
    since: Instant | None


class DagFileResource(Resource):
    """A DAG file and its last parse: the duration in seconds, and whether it failed (see `/import-errors`)."""

    file: str
    dag_ids: list[str]
    parsed_at: Instant | None
    seconds: float | None
    has_error: bool
    warnings: list[str]


class SchedulerResource(Resource):
    """One scheduler of the fleet.

    `lease_age` in seconds; `figures` are its metrics as of the last heartbeat. `owned` are the numbers of its
    partitions, `partitions` is their count, `load` how many rows of task instances are stored for them in a second.
    """

    incarnation: int
    name: str
    hostname: str
    pid: int
    version: str
    executor: str
    slots: int
    status: Literal["alive", "stalled", "draining", "dead"]
    lease_age: float
    partitions: int
    owned: list[int]
    load: float
    started_at: Instant
    figures: dict[str, Any] | None


class DatabaseServer(BaseModel):
    """The version of the PostgreSQL, and what it lacks by the calendar of its project."""

    version: str
    missing: str | None


class Schedulers(BaseModel):
    """All schedulers that are known; `database` is for those who may see all DAGs."""

    items: list[SchedulerResource]
    database: DatabaseServer | None = None


# The API calls a request that is stored a command, and what it asks for its verb: who reads it has read these names.
class CommandResource(Resource):
    """A request and its outcome; `attempts` is how often a scheduler has begun to apply it."""

    id: int
    dag_id: str | None
    verb: str
    args: dict[str, Any]
    requested_by: str
    reason: str | None
    state: Stored[RequestState]
    result: dict[str, Any] | None
    applied_at: Instant | None
    created_at: Instant
    attempts: int


class Setting(BaseModel):
    """A setting of the web server's process; secrets are masked."""

    key: str
    value: Any
    default: Any
    description: str | None


class SettingsList(BaseModel):
    """All settings, in the order of their sections."""

    items: list[Setting]


@router.get("/import-errors")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_import_errors(
    request_client: TheRequestClient, visible: TheVisible, limit: Limit = 100, cursor: Cursor = None
) -> Page[ImportProblem]:
    """Files whose last parse failed, by name."""
    after = decode_cursor(cursor, str)
    rows = await seen_import_errors(request_client.db, visible, after=after, limit=limit + 1)
    return page_of(ImportProblem, rows, limit, lambda row: row.file)


@router.get("/files")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_files(
    request_client: TheRequestClient,
    visible: TheVisible,
    failed: Annotated[
        bool | None, Query(description="only files whose last parse failed, or only those whose last parse succeeded")
    ] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[DagFileResource]:
    """DAG files by name, with the DAGs that they define."""
    after = decode_cursor(cursor, str)
    rows = await seen_files(request_client.db, visible, failed=failed, after=after, limit=limit + 1)
    return page_of(DagFileResource, rows, limit, lambda row: row.file)


@router.get("/schedulers")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_schedulers(request_client: ThePrimary, visible: TheVisible) -> Schedulers:
    """The schedulers and their partitions; `figures` are for those who may see all DAGs."""
    rows, database = await schedulers.list_schedulers(request_client.db), None
    if visible.is_whole:
        version = await schedulers.server_version(request_client.db)
        today = request_client.clock.now().date()
        database = DatabaseServer(version=version, missing=what_is_missing(version, today))
    else:
        rows = [replace(row, figures=None) for row in rows]
    return Schedulers(items=[SchedulerResource.model_validate(row) for row in rows], database=database)


@router.get("/commands")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_commands(
    request_client: ThePrimary,
    visible: TheVisible,
    dag_id: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
    verb: Annotated[str | None, Query(max_length=100, pattern=r"^[^\x00]*$")] = None,
    state: RequestState | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[CommandResource]:
    """Requests to the schedulers, newest first, with their outcome."""
    before = decode_cursor(cursor, int)
    rows = await request_queries.list_requests(
        request_client.db, dag_id=dag_id, verb=verb, state=state, before=before, limit=limit + 1, seen=visible.dags
    )
    return page_of(CommandResource, [_shown(row, visible) for row in rows], limit, lambda row: row.id)


@router.get("/commands/{number}")
@allow(Role.VIEWER, RoleScope.SEEN)
async def get_command(request_client: ThePrimary, visible: TheVisible, number: Number) -> CommandResource:
    """One request; a 202 refers to it."""
    return CommandResource.model_validate(await _find_request(request_client, visible, number))


async def _find_request(request_client: RequestClient, visible: Visible, number: int) -> RequestRow:
    row = await request_queries.get_request(request_client.db, number)
    is_own = row.dag_id is None and row.requested_by == visible.person.requested_by
    if not (is_own or visible.sees(row.dag_id)):
        raise NotFound(f"There is no request {number}; see `aiosched requests list`.")
    return _shown(row, visible)


def _shown(row: RequestRow, visible: Visible) -> RequestRow:
    """A request without what its result says about DAGs that cannot be seen."""
    if visible.is_whole or not row.result or "dependents" not in row.result:
        return row
    return replace(row, result={**row.result, "dependents": seen_dependents(row.result, visible)})


@router.post("/commands/{number}/withdraw")
@allow(Role.OPERATOR, RoleScope.SEEN)
async def withdraw_command(
    request_client: TheRequestClient, visible: TheVisible, number: Number, because: ReasonBody | None = None
) -> CommandResource:
    """Withdraw a request that waits, so that no scheduler applies it. Refused if it was answered already.

    One about no DAG is withdrawn by its sender, or with the role everywhere.
    """
    reason = because.reason if because else None
    row = await _find_request(request_client, visible, number)
    if row.dag_id is not None:
        await visible.check_dag(row.dag_id, Role.OPERATOR)
    elif row.requested_by != visible.person.requested_by:
        visible.check_team(None, Role.OPERATOR)
    async with request_client.db.acquire() as conn:
        await inbox.withdraw_request(conn, number, by=visible.person.requested_by, reason=reason)
    return CommandResource.model_validate(await _find_request(request_client, visible, number))


@router.get("/settings", dependencies=[RARELY])
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def list_settings(request_client: TheRequestClient) -> SettingsList:
    """The settings of this process."""
    found = [
        Setting(
            key=field.key,
            value=shown(field.key, getattr(getattr(request_client.settings, field.section), field.name)),
            default=shown(field.key, field.info.get_default(call_default_factory=True)),
            description=field.info.description,
        )
        for field in setting_fields()
    ]
    return SettingsList(items=found)
