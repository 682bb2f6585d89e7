"""Task instances across DAGs: filtered, and counted."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter

from aiosched.core.values.states import RunType, TaskState
from aiosched.db.lists import instance_lists
from aiosched.web.api.base.models import Instant, Resource, Stored
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, encode_cursor
from aiosched.web.api.lists.wanted import FacetList, TheAfter, TheInstances
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["Task instances"])


class ListedInstance(Resource):
    """A task instance in a list across DAGs; `map_index` -1 for a task that is not mapped.

    `dag_display_name` and `task_display_name` are shown in place of the ids (null: the id is).
    """

    dag_id: str
    dag_display_name: str | None
    run_id: str
    run_type: Stored[RunType]
    run_after: Instant
    task_id: str
    task_display_name: str | None
    map_index: int
    state: Stored[TaskState]
    try_number: int
    operator: str
    pool: str
    queued_at: Instant | None
    start_date: Instant | None
    end_date: Instant | None
    seconds: float | None
    reason: str | None
    note: str | None


class InstanceList(Page[ListedInstance]):
    """A page of task instances. One request looks at 5,000 at most: with `searched_to` the page is not full (it can be
    empty), all runs after that instant were looked at, and the cursor goes on from there."""

    searched_to: Instant | None = None


@router.get("/task-instances")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_instances(
    request_client: TheRequestClient,
    visible: TheVisible,
    wanted: TheInstances,
    beyond: TheAfter,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> InstanceList:
    """Task instances of all DAGs: the newest `run_after` of their runs first, then in the order of the DAG."""
    after = decode_cursor(cursor, tuple[datetime, int, int, int])
    if beyond is not None:
        await visible.check_dag(beyond.dag_id, Role.VIEWER)
        after = await instance_lists.find_key(request_client.db, *beyond)
    page = await instance_lists.page_of_instances(
        request_client.db, wanted, after=after, limit=limit, seen=visible.dags
    )
    return InstanceList(
        items=[ListedInstance.model_validate(row) for row in page.rows],
        next_cursor=None if page.next is None else encode_cursor(page.next),
        searched_to=page.searched_to,
    )


@router.get("/task-instance-facets")
@allow(Role.VIEWER, RoleScope.SEEN)
async def instance_facets(request_client: TheRequestClient, visible: TheVisible, wanted: TheInstances) -> FacetList:
    """How many of the newest task instances have each state, type, DAG, operator, pool and reason."""
    return FacetList.of(await instance_lists.instance_facets(request_client.db, wanted, seen=visible.dags))
