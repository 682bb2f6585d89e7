"""Task instances of a run: lists, one instance, its log, marking and clearing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Path, Query
from fastapi.responses import StreamingResponse
from pydantic import Field

from aiosched.core.requests.requests import Clear, MarkTasks, SetNote
from aiosched.core.values.messages import AttemptKey
from aiosched.core.values.states import TaskState
from aiosched.db.queries import queries
from aiosched.db.queries.queries import TaskRow
from aiosched.db.statements.rendered_fields import find_rendered
from aiosched.remote.logs import LogView
from aiosched.web.airflow_api.answering import done
from aiosched.web.airflow_api.paging import MOST, OrderBy, PageLimit, PageOffset, check_size, ordered, page
from aiosched.web.airflow_api.shapes import task_shape
from aiosched.web.api.base.models import Body, GivenDayOrInstant, Name, Text
from aiosched.web.api.logs import chunks_of, log_of
from aiosched.web.api.tasks import find_place
from aiosched.web.auth.access import Person, Principal, Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.dependents import check_dependents, seen_preview
from aiosched.web.requests.log_threads import in_log_thread
from aiosched.web.requests.request_client import RequestClient, TheRequestClient
from aiosched.web.server.problems import Problem

router: APIRouter = APIRouter()

_RUN: Final = "/dags/{dag_id}/dagRuns/{dag_run_id}"
_TASK: Final = f"{_RUN}/taskInstances/{{task_id}}"
_LOG_PART: Final = 2**20  # bytes of a log in one answer
_ORDER: Final[Mapping[str, Callable[[TaskRow], Any]]] = {
    "id": lambda row: (row.task_index, row.map_index),
    "task_id": lambda row: row.task_id,
    "map_index": lambda row: row.map_index,
    "state": lambda row: row.state,
    "start_date": lambda row: row.start_date,
    "end_date": lambda row: row.end_date,
    "duration": lambda row: row.seconds,
    "try_number": lambda row: row.try_number,
}

MapIndexPath = Annotated[int, Path(ge=-1, lt=2**31)]
MapIndexQuery = Annotated[int, Query(ge=-1, lt=2**31)]


class TaskPatch(Body):
    """A state, or a note, for task instances."""

    new_state: Literal["success", "failed", "skipped"] | None = None
    note: Annotated[str | None, Field(max_length=1000, pattern=r"^[^\x00]*$")] = None
    include_upstream: bool = False
    include_downstream: bool = False
    include_future: bool = False
    include_past: bool = False


class ClearBody(Body):
    """Which task instances of a DAG to clear. `dry_run` and `only_failed` are on unless they are sent."""

    dry_run: bool = True
    start_date: GivenDayOrInstant | None = None
    end_date: GivenDayOrInstant | None = None
    only_failed: bool = True
    only_running: bool = False
    reset_dag_runs: bool = True
    task_ids: Annotated[list[Text | tuple[Text, int]] | None, Field(max_length=5000)] = None
    dag_run_id: Text | None = None
    include_upstream: bool = False
    include_downstream: bool = False
    include_future: bool = False
    include_past: bool = False
    run_on_latest_version: bool | None = None
    prevent_running_task: bool = False
    note: str | None = None


@router.get(f"{_RUN}/taskInstances")
@allow(Role.VIEWER, RoleScope.DAG)
async def list_task_instances(
    request_client: TheRequestClient,
    dag_id: Name,
    dag_run_id: Name,
    limit: PageLimit = 50,
    offset: PageOffset = 0,
    order_by: OrderBy = None,
    state: Annotated[list[str] | None, Query(max_length=20)] = None,
    task_id: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
) -> dict[str, Any]:
    """The task instances of a run, in the order of the DAG."""
    run = await queries.find_run(request_client.db, dag_id, dag_run_id)
    rows = await queries.list_run_tasks(request_client.db, run, task_id=task_id, limit=MOST + 1)
    check_size(rows)
    found = [row for row in rows if not state or row.state in state]
    spec = await queries.get_version_spec(request_client.db, run.version_key)
    shown = page("task_instances", ordered(found, order_by, _ORDER), limit, offset, lambda r: task_shape(r, run, spec))
    return shown | {"next_cursor": None, "previous_cursor": None}


@router.get(_TASK)
@allow(Role.VIEWER, RoleScope.DAG)
async def get_task_instance(
    request_client: TheRequestClient, dag_id: Name, dag_run_id: Name, task_id: Name
) -> dict[str, Any]:
    """A task instance that is not mapped."""
    return await _instance(request_client, dag_id, dag_run_id, task_id, -1)


@router.get(f"{_TASK}/logs/{{try_number}}")
@allow(Role.VIEWER, RoleScope.DAG)
async def get_log(
    request_client: TheRequestClient,
    dag_id: Name,
    dag_run_id: Name,
    task_id: Name,
    try_number: Annotated[int, Path(ge=0, lt=2**15)],
    map_index: MapIndexQuery = -1,
    full_content: bool = False,
    token: Annotated[str | None, Query(pattern=r"^\d{1,18}$", description="continuation_token of an answer")] = None,
) -> StreamingResponse:
    """The log of a try, line by line; 1 MiB in an answer unless `full_content` is set."""
    place = await find_place(request_client, dag_id, dag_run_id, task_id, map_index)
    log = await log_of(request_client, place, try_number)
    start = int(token or 0)
    end = log.size if full_content else min(log.size, start + _LOG_PART)
    return StreamingResponse(_document(log, start, end), media_type="application/json")


async def _document(log: LogView, start: int, end: int) -> AsyncIterator[bytes]:
    """The document of a part of a log, made as it is sent: a log may have 100 MiB, and a line one byte."""
    yield b'{"content":['
    rest, comma = b"", b""
    async for chunk in chunks_of(log, start, end):
        lines, newline, rest = (rest + chunk).rpartition(b"\n")
        if len(rest) > _LOG_PART:  # a line that long is cut
            lines, rest = lines + newline + rest, b""
        if shown := await in_log_thread(partial(_events, lines + newline)):
            yield comma + shown
            comma = b","
    if shown := _events(rest):
        yield comma + shown
    yield b'],"continuation_token":%b}' % msgspec.json.encode(str(end) if end < log.size else None)


def _events(data: bytes) -> bytes:
    return b",".join(
        b'{"event":%b,"timestamp":null}' % msgspec.json.encode(line)
        for line in data.decode("utf-8", "replace").splitlines()
    )


@router.get(f"{_TASK}/{{map_index}}")
@allow(Role.VIEWER, RoleScope.DAG)
async def get_mapped_task_instance(
    request_client: TheRequestClient, dag_id: Name, dag_run_id: Name, task_id: Name, map_index: MapIndexPath
) -> dict[str, Any]:
    """An instance of a mapped task."""
    return await _instance(request_client, dag_id, dag_run_id, task_id, map_index)


async def _instance(
    request_client: RequestClient, dag_id: str, dag_run_id: str, task_id: str, map_index: int
) -> dict[str, Any]:
    place = await find_place(request_client, dag_id, dag_run_id, task_id, map_index)
    spec = await queries.get_version_spec(request_client.db, place.run.version_key)
    key = AttemptKey(place.run.key, place.task.task_index, place.task.map_index, place.task.try_number)
    rendered = (await find_rendered(request_client.db, [key])).get(key)
    return task_shape(place.task, place.run, spec, rendered)


@router.patch(_TASK)
@allow(Role.OPERATOR, RoleScope.DAG)
async def patch_task_instance(
    request_client: TheRequestClient, person: Person, dag_id: Name, dag_run_id: Name, task_id: Name, body: TaskPatch
) -> dict[str, Any]:
    """Mark the instances of a task, or put a note on one that is not mapped."""
    return await _patch(request_client, person, dag_id, dag_run_id, task_id, None, body)


@router.patch(f"{_TASK}/{{map_index}}")
@allow(Role.OPERATOR, RoleScope.DAG)
async def patch_mapped_task_instance(
    request_client: TheRequestClient,
    person: Person,
    dag_id: Name,
    dag_run_id: Name,
    task_id: Name,
    map_index: MapIndexPath,
    body: TaskPatch,
) -> dict[str, Any]:
    """Mark an instance of a mapped task, or put a note on it."""
    return await _patch(request_client, person, dag_id, dag_run_id, task_id, map_index, body)


async def _patch(
    request_client: RequestClient,
    person: Principal,
    dag_id: str,
    dag_run_id: str,
    task_id: str,
    map_index: int | None,
    body: TaskPatch,
) -> dict[str, Any]:
    run = await queries.find_run(request_client.db, dag_id, dag_run_id)
    answer: dict[str, Any] = {
        "instances": [{"run_id": run.run_id, "task_id": task_id, "map_index": -1 if map_index is None else map_index}]
    }
    if body.new_state is not None:
        mark = MarkTasks(
            run_ids=(run.run_id,),
            task_ids=(task_id,),
            map_index=map_index,
            state=TaskState(body.new_state),
            upstream=body.include_upstream,
            downstream=body.include_downstream,
            past=body.include_past,
            future=body.include_future,
        )
        answer = await done(request_client, mark, dag_id, person)
    if body.note is not None:
        note = SetNote(run_id=run.run_id, task_id=task_id, map_index=map_index, note=body.note)
        await done(request_client, note, dag_id, person)
    return await touched(request_client, dag_id, answer)


@router.post("/dags/{dag_id}/clearTaskInstances")
@allow(Role.OPERATOR, RoleScope.DAG)
async def clear_task_instances(
    request_client: TheRequestClient, visible: TheVisible, dag_id: Name, body: ClearBody
) -> dict[str, Any]:
    """Clear task instances of a DAG; the answer is those that are affected."""
    await queries.get_dag(request_client.db, dag_id)
    named = [one if isinstance(one, str) else one[0] for one in body.task_ids or ()]
    indexes = {one[1] for one in body.task_ids or () if not isinstance(one, str)}
    if len(indexes) > 1 or (indexes and len(set(named)) > 1):
        raise Problem(422, "map-index", "Clear the instances of one map index at a time.")
    run_ids = None
    if body.dag_run_id is not None:
        run_ids = ((await queries.find_run(request_client.db, dag_id, body.dag_run_id)).run_id,)
    request = Clear(
        run_ids=run_ids,
        first=body.start_date,
        final=body.end_date,
        task_ids=None if body.task_ids is None else tuple(dict.fromkeys(named)),
        map_index=next(iter(indexes), None),
        upstream=body.include_upstream,
        downstream=body.include_downstream,
        only_failed=body.only_failed,
        only_running=body.only_running,
        past=body.include_past,
        future=body.include_future,
        prevent_running=body.prevent_running_task,
        newest_version=bool(body.run_on_latest_version),
        dry_run=body.dry_run,
    )
    await check_dependents(request_client, visible, dag_id, request)
    preview = await seen_preview(request_client, visible, dag_id, request) if body.dry_run else None
    answer = await done(request_client, request, dag_id, visible.person) if preview is None else preview
    return await touched(request_client, dag_id, answer)


async def touched(request_client: RequestClient, dag_id: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The task instances that a change affects, of at most 1,000 of which the details are known, as they are now."""
    found: list[dict[str, Any]] = []
    instances = answer.get("instances") or ()
    for run_id in dict.fromkeys(each["run_id"] for each in instances):
        places = {(each["task_id"], each["map_index"]) for each in instances if each["run_id"] == run_id}
        run = await queries.find_run(request_client.db, dag_id, run_id)
        spec = await queries.get_version_spec(request_client.db, run.version_key)
        rows = await queries.list_run_tasks(request_client.db, run, limit=MOST)
        chosen = [row for row in rows if (row.task_id, row.map_index) in places]
        found += [task_shape(row, run, spec) for row in chosen]
    return {"task_instances": found, "total_entries": max(int(answer.get("count") or 0), len(found))}
