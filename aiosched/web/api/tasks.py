"""A task instance: its facts, tries, what it pushed, and its logs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from fastapi import APIRouter, Header, Query
from fastapi import Path as InPath
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from aiosched.core.states import FINISHED, TaskState
from aiosched.db import queries, xcom_queries
from aiosched.db.engine import Database
from aiosched.db.queries import RunRow, TaskRow
from aiosched.errors import NotFound
from aiosched.executors.log_files import list_tries, log_folder
from aiosched.web.access import Role, allow
from aiosched.web.api.models import Instant, MapIndex, Name, Resource, RunRef
from aiosched.web.api.runs import TaskInstance
from aiosched.web.api.versions import Task, tasks_of
from aiosched.web.gateway import TheGateway
from aiosched.web.log_index import index_log
from aiosched.web.paging import Cursor, Limit, Page, decode_cursor, encode_cursor
from aiosched.web.problems import Problem

router = APIRouter(tags=["Task instances"])

_LONGEST_VALUE: Final = 100_000  # characters of an XCom in a list
_CHUNK: Final = 2**16
_RANGE: Final = re.compile(r"^bytes=(\d{1,18})?-(\d{1,18})?$")
_ERROR: Final = re.compile(
    rb"^((?P<traceback>Traceback \(most recent call last\))|.{0,60}\b(ERROR|CRITICAL|FATAL)\b"
    rb"|(?P<raised>\w*(Error|Exception): ))"
)
_MOST_ERRORS: Final = 1_000
_MOST_BLOCKS: Final = 10_000


_LOG_TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}


class TaskDetails(TaskInstance):
    """A task instance with what its DAG version says of the task, and the tries that left a log here."""

    dag_id: str
    run_id: str
    run_key: int
    definition: Task
    template_fields: dict[str, Any]
    logs: list[int]


class Try(Resource):
    """One try. `details` is the traceback."""

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


class Tries(BaseModel):
    """The tries of a task instance, oldest first; the last one is the current one."""

    items: list[Try]


class XCom(Resource):
    """A value that a task pushed: its size in bytes, and its JSON, cut at 100,000 characters in lists."""

    key: str
    size: int
    value: str
    created_at: Instant


class ErrorLines(BaseModel):
    """Where errors begin in a log, in bytes; at most 1,000."""

    offsets: list[int]


class LogBlocks(BaseModel):
    """Where the lines of a log are: `[offset, line, size, lines]` a block, of whole lines, in bytes and from 0.

    `size` is that of the log now; `next` the offset of the blocks that are not in this answer, null when none are.
    """

    size: int
    complete: bool
    blocks: list[Annotated[list[int], Field(min_length=4, max_length=4)]]
    next: int | None


class Place(NamedTuple):
    """A task instance and the run that it belongs to."""

    run: RunRow
    task: TaskRow


async def find_place(db: Database, dag_id: str, run: str, task_id: str, map_index: int) -> Place:
    """The task instance that an address names. Raises NotFound."""
    row = await queries.find_run(db, dag_id, run)
    after = None if map_index < 0 else (await _index(db, row, task_id), map_index - 1)
    found = await queries.list_run_tasks(db, row, task_id=task_id, after=after, limit=1)
    if not found or found[0].map_index != map_index:
        which = task_id if map_index < 0 else f"{task_id}[{map_index}]"
        raise NotFound(f"Run {row.run_id} of {dag_id} has no instance {which}.")
    return Place(row, found[0])


async def _index(db: Database, run: RunRow, task_id: str) -> int:
    ids = [task.task_id for task in (await queries.get_version_spec(db, run.version_key)).tasks]
    if task_id not in ids:
        raise NotFound(f"DAG {run.dag_id!r} has no task {task_id!r}.")
    return ids.index(task_id)


def _instance(place: Place) -> tuple[int, int, int]:
    return place.run.key, place.task.task_index, place.task.map_index


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}")
@allow(Role.VIEWER)
async def get_task(
    gateway: TheGateway, dag_id: Name, run: RunRef, task_id: Name, map_index: MapIndex = -1
) -> TaskDetails:
    """One task instance."""
    place = await find_place(gateway.db, dag_id, run, task_id, map_index)
    spec = await queries.get_version_spec(gateway.db, place.run.version_key)
    definition = tasks_of(spec)[place.task.task_index]
    folder = _folder(gateway, place)
    return TaskDetails.model_validate(
        {
            **TaskInstance.model_validate(place.task).model_dump(),
            "dag_id": place.run.dag_id,
            "run_id": place.run.run_id,
            "run_key": place.run.key,
            "definition": definition.model_dump(),
            "template_fields": msgspec.to_builtins(spec.tasks[place.task.task_index].template_fields),
            "logs": await asyncio.to_thread(list_tries, folder),
        }
    )


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/tries")
@allow(Role.VIEWER)
async def list_attempts(
    gateway: TheGateway, dag_id: Name, run: RunRef, task_id: Name, map_index: MapIndex = -1
) -> Tries:
    """Every try of a task instance."""
    place = await find_place(gateway.db, dag_id, run, task_id, map_index)
    return Tries(items=[Try.model_validate(row) for row in await queries.list_tries(gateway.db, *place)])


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/xcom")
@allow(Role.VIEWER)
async def list_xcoms(
    gateway: TheGateway,
    dag_id: Name,
    run: RunRef,
    task_id: Name,
    map_index: MapIndex = -1,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[XCom]:
    """What a task instance pushed, by key."""
    place = await find_place(gateway.db, dag_id, run, task_id, map_index)
    after = decode_cursor(cursor, tuple[str])
    rows = await xcom_queries.list_xcoms(
        gateway.db, _instance(place), longest=_LONGEST_VALUE, after=after[0] if after else None, limit=limit + 1
    )
    more = encode_cursor(rows[limit - 1].key) if len(rows) > limit else None
    return Page(items=[XCom.model_validate(row) for row in rows[:limit]], next_cursor=more)


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/xcom/{key}")
@allow(Role.VIEWER)
async def get_xcom(
    gateway: TheGateway, dag_id: Name, run: RunRef, task_id: Name, key: Name, map_index: MapIndex = -1
) -> XCom:
    """One value, whole."""
    place = await find_place(gateway.db, dag_id, run, task_id, map_index)
    rows = await xcom_queries.list_xcoms(gateway.db, _instance(place), longest=2**30, key=key, limit=1)
    if not rows:
        raise NotFound(f"{place.task.name} pushed nothing under {key!r}.")
    return XCom.model_validate(rows[0])


# ---- logs ----

TryNumber = Annotated[int, InPath(ge=1, lt=2**15)]


@router.get(
    "/dags/{dag_id}/runs/{run}/tasks/{task_id}/logs/{try_number}",
    response_class=StreamingResponse,
    responses={
        200: {"content": _LOG_TEXT},
        206: {"description": "The asked part", "content": _LOG_TEXT},
    },
)
@allow(Role.VIEWER)
async def read_log(
    gateway: TheGateway,
    dag_id: Name,
    run: RunRef,
    task_id: Name,
    try_number: TryNumber,
    map_index: MapIndex = -1,
    offset: Annotated[int | None, Query(ge=0, lt=2**50, description="from this byte on")] = None,
    limit: Annotated[int | None, Query(ge=1, le=2**24, description="so many bytes at most")] = None,
    tail: Annotated[int | None, Query(ge=1, le=2**24, description="the last so many bytes")] = None,
    range: Annotated[str | None, Header(max_length=100)] = None,
) -> StreamingResponse:
    """The log of a try, as bytes of UTF-8 text; a try that said nothing has an empty one.

    A part is asked for by `Range`, or by `offset`, `limit` and `tail`. `X-Log-Size` is the size now, `X-Log-Complete`
    says whether it can still grow.
    """
    place = await find_place(gateway.db, dag_id, run, task_id, map_index)
    path = _folder(gateway, place) / f"attempt={try_number}.log"
    size = await asyncio.to_thread(_size, path)
    start, end = _part(size, offset, limit, tail, range)
    is_over = _is_over(place, try_number)
    headers = {
        "X-Log-Size": str(size),
        "X-Log-Complete": "true" if is_over else "false",
        "Accept-Ranges": "bytes",
        "Content-Length": str(end - start),
        "Content-Disposition": "inline",
    }
    whole = (start, end) == (0, size)
    if not whole:
        headers["Content-Range"] = f"bytes {start}-{max(end - 1, start)}/{size}"
    return StreamingResponse(
        _chunks(path, start, end), 200 if whole else 206, headers=headers, media_type="text/plain; charset=utf-8"
    )


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/logs/{try_number}/errors")
@allow(Role.VIEWER)
async def find_errors(
    gateway: TheGateway, dag_id: Name, run: RunRef, task_id: Name, try_number: TryNumber, map_index: MapIndex = -1
) -> ErrorLines:
    """Where errors begin in the log of a try: tracebacks, exceptions, and lines of level ERROR and above."""
    place = await find_place(gateway.db, dag_id, run, task_id, map_index)
    path = _folder(gateway, place) / f"attempt={try_number}.log"
    return ErrorLines(offsets=await asyncio.to_thread(_errors, path))


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/logs/{try_number}/blocks")
@allow(Role.VIEWER)
async def find_blocks(
    gateway: TheGateway,
    dag_id: Name,
    run: RunRef,
    task_id: Name,
    try_number: TryNumber,
    map_index: MapIndex = -1,
    offset: Annotated[int, Query(ge=0, lt=2**50, description="from this block on")] = 0,
    line: Annotated[int, Query(ge=0, lt=2**50, description="the number of its first line")] = 0,
) -> LogBlocks:
    """Where the lines of a log are, in blocks of about 128 kB, for pages that show any part of it."""
    place = await find_place(gateway.db, dag_id, run, task_id, map_index)
    path = _folder(gateway, place) / f"attempt={try_number}.log"
    is_over = _is_over(place, try_number)  # before reading: what is written until then is in the answer
    found = await asyncio.to_thread(index_log, path, offset=offset, line=line, limit=_MOST_BLOCKS)
    end = found[-1].offset + found[-1].size if found else offset
    blocks = [[block.offset, block.line, block.size, block.lines] for block in found]
    size = max(await asyncio.to_thread(_size, path), end)
    return LogBlocks(size=size, complete=is_over, blocks=blocks, next=end if len(found) == _MOST_BLOCKS else None)


def _is_over(place: Place, try_number: int) -> bool:
    return try_number < place.task.try_number or TaskState.of(place.task.state) in FINISHED


def _folder(gateway: TheGateway, place: Place) -> Path:
    run, task = place
    return log_folder(
        gateway.settings.logs_folder,
        dag_id=run.dag_id,
        run_id=run.run_id,
        task_id=task.task_id,
        map_index=task.map_index,
    )


def _part(size: int, offset: int | None, limit: int | None, tail: int | None, range: str | None) -> tuple[int, int]:
    """The bytes that are asked for, as a half-open interval inside the log."""
    if range is not None:
        match = _RANGE.match(range.strip())
        if match is None or match[0] == "bytes=-":
            raise Problem(416, "bad-range", "Ask for one range, such as bytes=0-65535.", headers=_size_header(size))
        if match[1] is None:
            return max(size - int(match[2]), 0), size
        start = int(match[1])
        if start >= size > 0:
            raise Problem(416, "bad-range", f"The log has {size} bytes.", headers=_size_header(size))
        return min(start, size), size if match[2] is None else min(max(int(match[2]) + 1, start), size)
    if tail is not None:
        return max(size - tail, 0), size
    start = min(offset or 0, size)
    return start, size if limit is None else min(start + limit, size)


def _size_header(size: int) -> dict[str, str]:
    return {"Content-Range": f"bytes */{size}"}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


async def _chunks(path: Path, start: int, end: int) -> AsyncIterator[bytes]:
    if start >= end:
        return
    file = await asyncio.to_thread(path.open, "rb")
    try:
        await asyncio.to_thread(file.seek, start)
        left = end - start
        while left:
            chunk = await asyncio.to_thread(file.read, min(left, _CHUNK))
            if not chunk:
                return
            left -= len(chunk)
            yield chunk
    finally:
        file.close()


def _errors(path: Path) -> list[int]:
    found: list[int] = []
    try:
        with path.open("rb") as file:
            # a line of level ERROR, the traceback behind it, and what it raised are one error
            offset, directly_before, raising = 0, False, False
            for line in file:
                if match := _ERROR.match(line):
                    if not (directly_before if match["traceback"] else raising and match["raised"]):
                        found.append(offset)
                        if len(found) == _MOST_ERRORS:
                            break
                    raising = not match["raised"]
                directly_before = match is not None
                offset += len(line)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return found
