"""The history of a task instance."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime
from typing import Final, Literal

from fastapi import APIRouter
from pydantic import BaseModel

from aiosched.db.queries import request_queries
from aiosched.db.queries.queries import TaskRow
from aiosched.db.queries.try_queries import TryRow, list_tries
from aiosched.web.api.base.models import Instant
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, encode_cursor
from aiosched.web.api.tasks import ThePlace
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["Task instances"])

_MOST_REQUESTS: Final = 200


class HistoryEvent(BaseModel):
    """Something that happened: a try reached a state, or a person made a request (`by`, with a reason)."""

    at: Instant
    kind: Literal["state", "request"]
    try_number: int | None = None
    state: str | None = None
    words: str
    detail: str | None = None
    by: str | None = None
    command: int | None = None


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/events")
@allow(Role.VIEWER, RoleScope.DAG)
async def list_task_events(
    request_client: TheRequestClient,
    place: ThePlace,
    limit: Limit = 1000,
    cursor: Cursor = None,
) -> Page[HistoryEvent]:
    """The history of a task instance, in order: the events of its tries, and the newest requests that affected it."""
    after = decode_cursor(cursor, tuple[datetime, int])
    tries = await list_tries(request_client.db, *place)
    run, task = place
    requests = await request_queries.requests_on_instance(
        request_client.db, run.dag_id, run.run_id, task.task_id, task.map_index, limit=_MOST_REQUESTS
    )
    found = list(_states(place.task, tries))
    for one in requests:
        error = (one.result or {}).get("error") if one.state == "refused" else None
        detail = one.reason or (None if error is None else str(error))
        found.append(
            HistoryEvent(
                at=one.applied_at or one.created_at,
                kind="request",
                words=f"{one.verb} {one.state}" if one.state != "applied" else one.verb,
                detail=detail,
                by=one.requested_by,
                command=one.id,
            )
        )
    placed: list[tuple[tuple[datetime, int], HistoryEvent]] = []  # by time, then by number
    for _, same in itertools.groupby(sorted(found, key=lambda event: event.at), key=lambda event: event.at):
        placed += [((event.at, number), event) for number, event in enumerate(same)]
    rest = [one for one in placed if after is None or one[0] > after]
    more = encode_cursor(rest[limit - 1][0]) if len(rest) > limit else None
    return Page(items=[event for _, event in rest[:limit]], next_cursor=more)


def _states(task: TaskRow, tries: list[TryRow]) -> Iterator[HistoryEvent]:
    """The timestamps of the rows, as events."""
    if task.scheduled_at is not None:
        yield _state(task.scheduled_at, task.try_number or None, "scheduled", None)
    for one in tries:
        for at, state, detail in (
            (one.queued_at, "queued", None),
            (one.start_date, "running", None if one.hostname is None else f"on {one.hostname}, process {one.pid}"),
            (one.end_date, one.state, one.reason),
        ):
            if at is not None:
                yield _state(at, one.try_number, state, detail)
    if task.next_at is not None:
        words = "continues no earlier than" if task.state == "up_for_reschedule" else "is retried no earlier than"
        yield HistoryEvent(at=task.next_at, kind="state", try_number=task.try_number, words=words)


def _state(at: datetime, number: int | None, state: str, detail: str | None) -> HistoryEvent:
    return HistoryEvent(at=at, kind="state", try_number=number, state=state, words=state, detail=detail)
