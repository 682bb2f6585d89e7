"""The logs of a task instance: whole or in parts, the positions of errors, lines and words."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Header, Query
from fastapi import Path as InPath
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from aiosched.core.values.messages import AttemptKey
from aiosched.core.values.states import FINISHED
from aiosched.db.statements import unwritten_logs
from aiosched.remote.logs import LogView
from aiosched.web.api.tasks import InstanceAndRun, ThePlace, folder_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.log_threads import in_log_thread
from aiosched.web.requests.request_client import RequestClient, TheRequestClient
from aiosched.web.server.problems import Problem
from aiosched.web.views.log_index import find_errors as find_errors_in
from aiosched.web.views.log_index import find_level, find_text, index_log

router: APIRouter = APIRouter(tags=["Task instances"])

_CHUNK: Final = 2**16
_RANGE: Final = re.compile(r"^bytes=(\d{1,18})?-(\d{1,18})?$")
_MOST_ERRORS: Final = 1_000
_MOST_BLOCKS: Final = 10_000
_LOG_TEXT: Final = {"text/plain": {"schema": {"type": "string"}}}


class ErrorLines(BaseModel):
    """Where errors begin in a log: byte offsets, and line numbers from 0; at most 1,000."""

    offsets: list[int]
    lines: list[int]


class FoundLine(BaseModel):
    """The number of a line, from 0 as in `LogBlocks`; null if no line matches."""

    line: int | None


class LevelLine(BaseModel):
    """A line of a log: its number, from 0 as in `LogBlocks`, and its text without colours."""

    line: int
    text: str


class LevelLines(BaseModel):
    """Lines of a level and above; `next` is where to go on (`after`), or null if these are all."""

    lines: list[LevelLine]
    next: int | None


class LogBlocks(BaseModel):
    """Where the lines of a log are: one `[offset, line, size, lines]` for each block of whole lines, counted from 0.

    `size` is the current size of the log in bytes; `next` is the offset of the first block that is not in this answer,
    or null.
    """

    size: int
    complete: bool
    blocks: list[Annotated[list[int], Field(min_length=4, max_length=4)]]
    next: int | None


TryNumber = Annotated[int, InPath(ge=1, lt=2**15)]


@router.get(
    "/dags/{dag_id}/runs/{run}/tasks/{task_id}/logs/{try_number}",
    response_class=StreamingResponse,
    responses={
        200: {"content": _LOG_TEXT},
        206: {"description": "The asked part", "content": _LOG_TEXT},
    },
)
@allow(Role.VIEWER, RoleScope.DAG)
async def read_log(
    request_client: TheRequestClient,
    place: ThePlace,
    try_number: TryNumber,
    offset: Annotated[int | None, Query(ge=0, lt=2**50, description="first byte")] = None,
    limit: Annotated[int | None, Query(ge=1, le=2**24, description="maximum number of bytes")] = None,
    tail: Annotated[int | None, Query(ge=1, le=2**24, description="only this many bytes from the end")] = None,
    range: Annotated[str | None, Header(max_length=100)] = None,
) -> StreamingResponse:
    """The log of a try, as bytes of UTF-8 text; it is empty if the try printed nothing.

    `Range`, or `offset`, `limit` and `tail`, select a part. `X-Log-Size` is the current size, `X-Log-Complete` says
    whether the log is complete.
    """
    log = await log_of(request_client, place, try_number)
    size = log.size
    start, end = _part(size, offset, limit, tail, range)
    is_over = await _is_over(request_client, place, try_number)
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
        chunks_of(log, start, end), 200 if whole else 206, headers=headers, media_type="text/plain; charset=utf-8"
    )


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/logs/{try_number}/errors")
@allow(Role.VIEWER, RoleScope.DAG)
async def find_errors(request_client: TheRequestClient, place: ThePlace, try_number: TryNumber) -> ErrorLines:
    """Where errors begin in the log of a try: tracebacks, exceptions, and lines of level ERROR and above."""
    log = await log_of(request_client, place, try_number)
    found = await in_log_thread(lambda: find_errors_in(log, limit=_MOST_ERRORS))
    return ErrorLines(offsets=[offset for offset, _ in found], lines=[line for _, line in found])


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/logs/{try_number}/search")
@allow(Role.VIEWER, RoleScope.DAG)
async def search_log(
    request_client: TheRequestClient,
    place: ThePlace,
    try_number: TryNumber,
    words: Annotated[str, Query(min_length=1, max_length=200, description="text to find, ignoring case")],
    after: Annotated[int, Query(ge=-1, lt=2**50, description="after this line; -1: from the first")] = -1,
    before: Annotated[int | None, Query(ge=0, lt=2**50, description="the last match before this line instead")] = None,
) -> FoundLine:
    """The next line of a log that contains these words, so that a long log can be searched without being sent."""
    log = await log_of(request_client, place, try_number)
    return FoundLine(line=await in_log_thread(lambda: find_text(log, words, after=after, before=before)))


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/logs/{try_number}/lines")
@allow(Role.VIEWER, RoleScope.DAG)
async def find_lines(
    request_client: TheRequestClient,
    place: ThePlace,
    try_number: TryNumber,
    level: Annotated[Literal["warning", "error"], Query(description="this level and above")] = "warning",
    after: Annotated[int, Query(ge=-1, lt=2**50, description="after this line; -1: from the first")] = -1,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> LevelLines:
    """The lines of a log that name a level, with their tracebacks."""
    log = await log_of(request_client, place, try_number)
    found = await in_log_thread(lambda: find_level(log, level, after=after, limit=limit + 1))
    lines = [LevelLine(line=number, text=text) for number, text in found[:limit]]
    return LevelLines(lines=lines, next=lines[-1].line if len(found) > limit else None)


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/logs/{try_number}/blocks")
@allow(Role.VIEWER, RoleScope.DAG)
async def find_blocks(
    request_client: TheRequestClient,
    place: ThePlace,
    try_number: TryNumber,
    offset: Annotated[int, Query(ge=0, lt=2**50, description="offset of the first block")] = 0,
    line: Annotated[int, Query(ge=0, lt=2**50, description="number of that block's first line")] = 0,
) -> LogBlocks:
    """Where the lines of a log are, in blocks of about 128 kB, so that a page can show any part of it."""
    # before reading, so that the answer contains all that was written until then
    is_over = await _is_over(request_client, place, try_number)
    log = await log_of(request_client, place, try_number)
    found = await in_log_thread(lambda: index_log(log, offset=offset, line=line, limit=_MOST_BLOCKS))
    end = found[-1].offset + found[-1].size if found else offset
    blocks = [[block.offset, block.line, block.size, block.lines] for block in found]
    size = max(log.size, end)
    return LogBlocks(size=size, complete=is_over, blocks=blocks, next=end if len(found) == _MOST_BLOCKS else None)


async def log_of(request_client: RequestClient, place: InstanceAndRun, try_number: int) -> LogView:
    """The log of a try, with what could not be written at its end. Raises RemoteStorageError."""
    key = AttemptKey(place.run.key, place.task.task_index, place.task.map_index, try_number)
    unwritten = await unwritten_logs.find(request_client.db, key)
    view = await in_log_thread(lambda: request_client.logs.view(folder_of(place), try_number))
    return view if unwritten is None else view.followed_by(unwritten.text.encode())


async def _is_over(request_client: RequestClient, place: InstanceAndRun, try_number: int) -> bool:
    task = place.task
    if try_number < task.try_number:
        return True
    if task.state not in FINISHED:
        return False
    return await in_log_thread(lambda: request_client.logs.are_settled(folder_of(place), try_number, task.end_date))


def _part(size: int, offset: int | None, limit: int | None, tail: int | None, range: str | None) -> tuple[int, int]:
    """The requested bytes, as a half-open interval inside the log."""
    if range is not None:
        match = _RANGE.match(range.strip())
        if match is None or match[0] == "bytes=-":
            raise Problem(
                416, "bad-range", "Request a single range, such as bytes=0-65535.", headers=_size_header(size)
            )
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


async def chunks_of(log: LogView, start: int, end: int) -> AsyncIterator[bytes]:
    """The bytes of a log from `start` to `end`, piece by piece."""
    while start < end:
        chunk = await in_log_thread(partial(log.read, start, min(end - start, _CHUNK)))
        if not chunk:
            return
        start += len(chunk)
        yield chunk
