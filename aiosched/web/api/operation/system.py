"""The state of the system: import errors, files, schedulers, requests (the audit log), settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from aiosched.config import setting_fields, shown
from aiosched.db.queries import command_queries, status
from aiosched.db.queries.command_queries import CommandRow
from aiosched.db.statements import inbox
from aiosched.errors import NotFound
from aiosched.web.api.base.models import Because, Instant, Resource, Stored
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.sight import Sight, TheSight
from aiosched.web.requests.dependents import seen_dependents
from aiosched.web.requests.request_client import RequestClient, TheRequestClient
from aiosched.web.requests.seen_files import seen_files, seen_import_errors
from aiosched.web.server.etags import RARELY

router = APIRouter(tags=["System"])

Number = Annotated[int, Path(ge=1, lt=2**63)]
CommandState = Literal["waiting", "applied", "refused"]


class ImportProblem(Resource):
    """Why a DAG file cannot be imported: a summary, the code around the line, the traceback."""

    file: str
    error: str
    line: int | None
    code_frame: str | None
    traceback: str | None
    dag_ids: list[str]
    parsed_at: Instant | None


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


class Schedulers(BaseModel):
    """All schedulers that are known."""

    items: list[SchedulerResource]


class CommandResource(Resource):
    """A request and its outcome; `attempts` is how often a scheduler has begun to apply it."""

    id: int
    dag_id: str | None
    verb: str
    args: dict[str, Any]
    requested_by: str
    reason: str | None
    state: Stored[CommandState]
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
    request_client: TheRequestClient, sight: TheSight, limit: Limit = 100, cursor: Cursor = None
) -> Page[ImportProblem]:
    """Files whose last parse failed, by name."""
    after = decode_cursor(cursor, str)
    rows = await seen_import_errors(request_client.db, sight, after=after, limit=limit + 1)
    return page_of(ImportProblem, rows, limit, lambda row: row.file)


@router.get("/files")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_files(
    request_client: TheRequestClient,
    sight: TheSight,
    failed: Annotated[
        bool | None, Query(description="only files whose last parse failed, or only those whose last parse succeeded")
    ] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[DagFileResource]:
    """DAG files by name, with the DAGs that they define."""
    after = decode_cursor(cursor, str)
    rows = await seen_files(request_client.db, sight, failed=failed, after=after, limit=limit + 1)
    return page_of(DagFileResource, rows, limit, lambda row: row.file)


@router.get("/schedulers")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_schedulers(request_client: TheRequestClient, sight: TheSight) -> Schedulers:
    """The schedulers and their partitions; `figures` are for those who may see all DAGs."""
    rows = await status.list_schedulers(request_client.db)
    if not sight.is_whole:
        rows = [replace(row, figures=None) for row in rows]
    return Schedulers(items=[SchedulerResource.model_validate(row) for row in rows])


@router.get("/commands")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_commands(
    request_client: TheRequestClient,
    sight: TheSight,
    dag_id: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
    verb: Annotated[str | None, Query(max_length=100, pattern=r"^[^\x00]*$")] = None,
    state: CommandState | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[CommandResource]:
    """Requests, newest first: the audit log."""
    before = decode_cursor(cursor, int)
    rows = await command_queries.list_commands(
        request_client.db, dag_id=dag_id, verb=verb, state=state, before=before, limit=limit + 1, seen=sight.dags
    )
    return page_of(CommandResource, [_shown(row, sight) for row in rows], limit, lambda row: row.id)


@router.get("/commands/{number}")
@allow(Role.VIEWER, RoleScope.SEEN)
async def get_command(request_client: TheRequestClient, sight: TheSight, number: Number) -> CommandResource:
    """One request; a 202 refers to it."""
    return CommandResource.model_validate(await _find_command(request_client, sight, number))


async def _find_command(request_client: RequestClient, sight: Sight, number: int) -> CommandRow:
    row = await command_queries.get_command(request_client.db, number)
    is_own = row.dag_id is None and row.requested_by == sight.person.requested_by
    if not (is_own or sight.sees(row.dag_id)):
        raise NotFound(f"There is no request {number}; see `aiosched requests list`.")
    return _shown(row, sight)


def _shown(row: CommandRow, sight: Sight) -> CommandRow:
    """A request without what its result says about DAGs that cannot be seen."""
    if sight.is_whole or not row.result or "dependents" not in row.result:
        return row
    return replace(row, result={**row.result, "dependents": seen_dependents(row.result, sight)})


@router.post("/commands/{number}/withdraw")
@allow(Role.OPERATOR, RoleScope.SEEN)
async def withdraw_command(
    request_client: TheRequestClient, sight: TheSight, number: Number, because: Because | None = None
) -> CommandResource:
    """Withdraw a request that waits, so that no scheduler applies it. Refused if it was answered already."""
    reason = because.reason if because else None
    row = await _find_command(request_client, sight, number)
    if row.dag_id is not None:
        await sight.check_dag(row.dag_id, Role.OPERATOR)
    async with request_client.db.acquire() as conn:
        await inbox.withdraw_command(conn, number, by=sight.person.requested_by, reason=reason)
    return CommandResource.model_validate(await _find_command(request_client, sight, number))


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
