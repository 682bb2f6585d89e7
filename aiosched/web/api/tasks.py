"""A task instance: its details, tries and XComs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse

from aiosched.config import hide_password
from aiosched.core.values.ids import instance_name, read_instance_name
from aiosched.db.queries import queries, try_queries, xcom_queries
from aiosched.db.queries.queries import RunRow, TaskRow
from aiosched.db.queries.xcom_queries import XComListRow
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, RemoteStorageError
from aiosched.remote.folder import RemoteFolder
from aiosched.remote.log_files import log_folder
from aiosched.web.api.base.models import Instant, MapIndex, Name, Resource, RunRef
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.api.runs import TaskInstanceResource
from aiosched.web.api.versions import TaskDefinition, tasks_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.log_threads import in_log_thread
from aiosched.web.requests.request_client import RequestClient, TheRequestClient

router: APIRouter = APIRouter(tags=["Task instances"])

_LONGEST_VALUE: Final = 100_000  # characters of an XCom in a list
_PIECE: Final = 2**20  # bytes of a file that are read at once


class OperatorLink(Resource):
    """A link of an operator to where its work can be seen."""

    name: str
    url: str


class TaskDetails(TaskInstanceResource):
    """A task instance with the task's definition in its DAG version, the tries that have logs, and its links."""

    dag_id: str
    dag_display_name: str | None
    run_id: str
    run_key: int
    definition: TaskDefinition
    template_fields: dict[str, Any]
    logs: list[int]
    links: list[OperatorLink]


class Try(Resource):
    """One try. `details` is the traceback.

    `version` is the DAG version whose code it ran (null: that version is not stored), `source_hash` the hash of that
    code.
    """

    try_number: int
    state: str
    queued_at: Instant | None
    start_date: Instant | None
    end_date: Instant | None
    seconds: float | None
    reason: str | None
    details: str | None
    hostname: str | None
    pid: int | None
    version: int | None
    source_hash: str | None


class XCom(Resource):
    """A value that a task pushed: its size in bytes, and its JSON, which lists cut at 100,000 characters.

    `url` is where a large value is, in remote storage; then `value` is only the beginning of its JSON, and `content`
    has all of it.
    """

    key: str
    size: int
    value: str
    created_at: Instant
    url: str | None


class InstanceAndRun(NamedTuple):
    """A task instance and its run."""

    run: RunRow
    task: TaskRow


async def find_place(
    request_client: TheRequestClient, dag_id: Name, run: RunRef, task_id: Name, map_index: MapIndex = -1
) -> InstanceAndRun:
    """The task instance of an address, which can name it as `load[3]`. Raises NotFound and Refused."""
    db = request_client.db
    task_id, index = read_instance_name(task_id, map_index)
    map_index = -1 if index is None else index
    row = await queries.find_run(db, dag_id, run)
    after = None if map_index < 0 else (await _index(db, row, task_id), map_index - 1)
    found = await queries.list_run_tasks(db, row, task_id=task_id, after=after, limit=1)
    if not found or found[0].map_index != map_index:
        raise NotFound(f"Run {row.run_id} of {dag_id} has no instance {instance_name(task_id, map_index)}.")
    return InstanceAndRun(row, found[0])


ThePlace = Annotated[InstanceAndRun, Depends(find_place)]


async def _index(db: Database, run: RunRow, task_id: str) -> int:
    ids = [task.task_id for task in (await queries.get_version_spec(db, run.version_key)).tasks]
    if task_id not in ids:
        raise NotFound(f"DAG {run.dag_id!r} has no task {task_id!r}.")
    return ids.index(task_id)


def _instance(place: InstanceAndRun) -> tuple[int, int, int]:
    return place.run.key, place.task.task_index, place.task.map_index


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}")
@allow(Role.VIEWER, RoleScope.DAG)
async def get_task(request_client: TheRequestClient, place: ThePlace) -> TaskDetails:
    """One task instance."""
    spec = await queries.get_version_spec(request_client.db, place.run.version_key)
    definition = tasks_of(spec)[place.task.task_index]
    return TaskDetails.model_validate(
        {
            **TaskInstanceResource.model_validate(place.task).model_dump(),
            "dag_id": place.run.dag_id,
            "dag_display_name": place.run.dag_display_name,
            "run_id": place.run.run_id,
            "run_key": place.run.key,
            "definition": definition.model_dump(),
            "template_fields": msgspec.to_builtins(spec.tasks[place.task.task_index].template_fields),
            "logs": await in_log_thread(lambda: request_client.logs.tries(folder_of(place))),
            "links": [one._asdict() for one in await xcom_queries.list_links(request_client.db, _instance(place))],
        }
    )


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/tries")
@allow(Role.VIEWER, RoleScope.DAG)
async def list_attempts(
    request_client: TheRequestClient,
    place: ThePlace,
    limit: Limit = 1000,
    cursor: Cursor = None,
) -> Page[Try]:
    """The tries of a task instance, oldest first; the last is the current one."""
    after = decode_cursor(cursor, int)
    rows = await try_queries.list_tries(request_client.db, *place, after=after or 0, limit=limit + 1)
    return page_of(Try, rows, limit, lambda row: row.try_number)


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/xcom")
@allow(Role.VIEWER, RoleScope.DAG)
async def list_xcoms(
    request_client: TheRequestClient,
    place: ThePlace,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[XCom]:
    """The XComs of a task instance, by key."""
    after = decode_cursor(cursor, str)
    rows = await xcom_queries.list_xcoms(
        request_client.db, _instance(place), longest=_LONGEST_VALUE, after=after, limit=limit + 1
    )
    return page_of(XCom, [_shown(request_client, row) for row in rows], limit, lambda row: row.key)


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/xcom/{key}")
@allow(Role.VIEWER, RoleScope.DAG)
async def get_xcom(request_client: TheRequestClient, place: ThePlace, key: Name) -> XCom:
    """One XCom, in full unless it is in remote storage."""
    return XCom.model_validate(_shown(request_client, await _one_xcom(request_client, place, key)))


@router.get(
    "/dags/{dag_id}/runs/{run}/tasks/{task_id}/xcom/{key}/content",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/json": {"schema": {"description": "the value, whatever JSON it is"}}}}},
)
@allow(Role.VIEWER, RoleScope.DAG)
async def download_xcom(request_client: TheRequestClient, place: ThePlace, key: Name) -> StreamingResponse:
    """The JSON of one XCom, in full, wherever it is: to download."""
    row = await _one_xcom(request_client, place, key)
    headers = {"Content-Disposition": 'attachment; filename="xcom.json"', "X-Content-Type-Options": "nosniff"}
    if row.path is None:
        return StreamingResponse(iter([row.value]), headers=headers, media_type="application/json")
    pieces = _content(await asyncio.to_thread(lambda: request_client.remote_xcoms), row)
    first = await anext(pieces, b"")  # if it cannot be read, the answer is an error
    return StreamingResponse(_after(first, pieces), headers=headers, media_type="application/json")


async def _content(folder: RemoteFolder | None, row: XComListRow) -> AsyncIterator[bytes]:
    if folder is None or row.path is None:
        raise RemoteStorageError(
            f"The XCom is in remote storage, as {row.path}, but xcom.remote is not set here: set it as it was."
        )
    try:
        for start in range(0, row.size, _PIECE):
            yield await asyncio.to_thread(folder.read, row.path, start, min(start + _PIECE, row.size))
    except FileNotFoundError:
        raise NotFound(f"The file {folder.url_of(row.path)} of the XCom does not exist any more.") from None


async def _after(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


async def _one_xcom(request_client: RequestClient, place: InstanceAndRun, key: str) -> XComListRow:
    rows = await xcom_queries.list_xcoms(request_client.db, _instance(place), longest=2**30, key=key, limit=1)
    if not rows:
        raise NotFound(f"{place.task.name} has no XCom {key!r}.")
    return rows[0]


def _shown(request_client: RequestClient, row: XComListRow) -> XComListRow:
    """The row with the address of a value in remote storage."""
    if row.path is None:
        return row
    base = hide_password((request_client.settings.xcom.remote or "xcom.remote (not set)").rstrip("/"))
    return replace(row, url=f"{base}/{row.path}")


def folder_of(place: InstanceAndRun) -> str:
    """The folder with the logs of a task instance's tries, below that of all logs."""
    run, task = place
    return log_folder(
        Path(), dag_id=run.dag_id, run_id=run.run_id, task_id=task.task_id, map_index=task.map_index
    ).as_posix()
