"""The audit log: who did what, from where. For administrators."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse

from aiosched.core.audit.kinds import AuditKind
from aiosched.db.audit import reading
from aiosched.db.audit.entries import record
from aiosched.db.audit.reading import EntrySelection
from aiosched.db.names.days import entries_meant
from aiosched.web.api.base.models import FilterDayOrInstant, Instant, Resource
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.request_client import RequestClient, ThePrimary, TheRequestClient

router: APIRouter = APIRouter(tags=["System"])

Word = Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")]
_LINES: str = "application/jsonl"


class AuditEntryResource(Resource):
    """An entry of the audit log: what was done, by whom, from where, to what.

    `times` is how many alike it stands for, `command_id` the number of the request.
    """

    id: int
    at: Instant
    kind: str
    who: str
    address: str | None
    session_id: int | None
    token_id: int | None
    object: str | None
    dag_id: str | None
    result: str
    detail: dict[str, Any]
    times: int
    command_id: int | None


async def _selection(
    kind: Annotated[
        str | None,
        Query(
            max_length=1_000,
            pattern=r"^[^\x00]*$",
            description="several, separated by commas; with a dot at the end: all that begin so",
        ),
    ] = None,
    who: Word = None,
    object: Word = None,
    dag_id: Word = None,
    result: Word = None,
    since: FilterDayOrInstant | None = None,
    until: Annotated[FilterDayOrInstant | None, Query(description="a day inclusive, an instant exclusive")] = None,
) -> EntrySelection:
    return EntrySelection(kind, who, object, dag_id, result, since, until)


TheSelection = Annotated[EntrySelection, Depends(_selection)]


@router.get("/audit")
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def list_audit(
    request_client: TheRequestClient, selection: TheSelection, limit: Limit = 50, cursor: Cursor = None
) -> Page[AuditEntryResource]:
    """Entries of the audit log, newest first."""
    before = decode_cursor(cursor, int)
    wanted = await entries_meant(request_client.db, selection)
    rows = await reading.list_entries(request_client.db, wanted, before=before, limit=limit + 1)
    return page_of(AuditEntryResource, rows, limit, lambda row: row.id)


@router.get(
    "/audit/export",
    response_class=StreamingResponse,
    responses={200: {"content": {_LINES: {"schema": {"type": "string"}}}}},
)
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def export_audit(
    request_client: ThePrimary,
    selection: TheSelection,
    after: Annotated[int, Query(ge=0, lt=2**63, description="the id of the last entry that you have")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000_000, description="maximum number of entries")] = 100_000,
) -> StreamingResponse:
    """Entries of the audit log, oldest first, one JSON object a line. Ask again with `after` for those that follow."""
    chosen = {name: str(value) for name, value in asdict(selection).items() if value is not None}
    await record(request_client.db, AuditKind.AUDIT_EXPORTED, after=after, limit=limit, selection=chosen)
    return StreamingResponse(_lines(request_client, selection, after, limit), media_type=_LINES)


async def _lines(
    request_client: RequestClient, selection: EntrySelection, after: int, limit: int
) -> AsyncIterator[bytes]:
    encode, number = msgspec.json.Encoder().encode, 0
    wanted = await entries_meant(request_client.db, selection)
    async for entry in reading.all_entries(request_client.db, wanted, after=after):
        yield encode(entry) + b"\n"
        number += 1
        if number == limit:
            return
