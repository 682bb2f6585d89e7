"""The activity on the first page: runs an hour, failures grouped by their errors."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from typing import Final

from fastapi import APIRouter
from pydantic import BaseModel

from aiosched.core.why.error_groups import group_errors
from aiosched.db.finding import activity
from aiosched.db.queries.queries import read_display_names
from aiosched.web.api.base.models import Instant
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["Home"])

_HOURS: Final = 24
_MOST: Final = 8  # groups of errors


class HourActivity(BaseModel):
    """The runs that ended in an hour, by state; the last hours also have those that run or wait."""

    at: Instant
    states: dict[str, int]


class GroupedError(BaseModel):
    """Failed task instances with the same error, apart from numbers: the newest one, and a text that all have."""

    number: int
    dags: list[str]
    words: str | None
    search: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int


class Activity(BaseModel):
    """24 hours, oldest first. `complete` is false if only the newest 20,000 runs were counted.

    `errors` are of the newest 200 failed runs. `dag_display_names`: of those of their DAGs that have one.
    """

    hours: list[HourActivity]
    complete: bool
    errors: list[GroupedError]
    dag_display_names: dict[str, str]


@router.get("/activity")
@allow(Role.VIEWER, RoleScope.SEEN)
async def read_activity(request_client: TheRequestClient, visible: TheVisible) -> Activity:
    """The runs of the last 24 hours by hour and state, and the errors of those that failed."""
    now = request_client.clock.now()
    first = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=_HOURS - 1)
    counts = await activity.count_hours(request_client.db, first, now, seen=visible.dags)
    hours = {first + timedelta(hours=number): dict[str, int]() for number in range(_HOURS)}
    for count in counts:
        hours.setdefault(count.at, {})[count.state] = count.number
    ended = sum(count.number for count in counts if count.state in ("success", "failed"))
    failures = await activity.failures_since(request_client.db, now - timedelta(hours=_HOURS), seen=visible.dags)
    errors = [
        GroupedError(
            number=group.number,
            dags=list(group.dags[:20]),
            words=group.newest.reason,
            search=group.search,
            dag_id=group.newest.dag_id,
            run_id=group.newest.run_id,
            task_id=group.newest.task_id,
            map_index=group.newest.map_index,
        )
        for group in group_errors(failures, most=_MOST)
    ]
    return Activity(
        hours=[HourActivity(at=at, states=states) for at, states in sorted(hours.items())],
        complete=ended < activity.MOST_ENDED,
        errors=errors,
        dag_display_names=await read_display_names(request_client.db, chain.from_iterable(one.dags for one in errors)),
    )
