"""Runs: lists, one run, its task instances, and its Gantt chart."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from aiosched.core.values.states import TaskState
from aiosched.db.queries import queries, run_queries
from aiosched.db.queries.queries import RunRow, shown_state, shown_task
from aiosched.db.queries.version_queries import get_version
from aiosched.web.api.base.models import Instant, Name, Resource, RunRef, Stored
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.api.base.run_resource import RunResource
from aiosched.web.api.grid import Row, grid_rows
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.views.state_counts import read_counts, read_mapped_counts

router: APIRouter = APIRouter(tags=["Runs"])

MOST_SEGMENTS: Final = 20_000


class RunDetails(RunResource):
    """A run with the number of its task instances in each state; `mapped` has those of each mapped task."""

    tasks: dict[str, int]
    mapped: dict[str, dict[str, int]]


class TaskInstanceResource(Resource):
    """A task instance; `map_index` -1 for a task that is not mapped.

    `map_label` is its rendered `map_index_template`, stored when it ends. `task_display_name` is shown in place of the
    id of its task (null: the id is).
    """

    task_id: str
    task_display_name: str | None
    map_index: int
    map_label: str | None
    state: Stored[TaskState]
    try_number: int
    max_tries: int
    operator: str
    pool: str
    scheduled_at: Instant | None
    queued_at: Instant | None
    start_date: Instant | None
    end_date: Instant | None
    next_at: Instant | None
    seconds: float | None
    reason: str | None
    note: str | None
    task_index: int


class DeferredPeriod(Resource):
    """A period in which a try waited for a trigger; `until` is null while it still waits."""

    since: Instant
    until: Instant | None


class Segment(Resource):
    """The period of one try; `deferred` are the periods within it, in order."""

    try_number: int
    state: str | None
    scheduled_at: Instant | None
    queued_at: Instant | None
    start_date: Instant | None
    end_date: Instant | None
    deferred: list[DeferredPeriod] = Field(default_factory=list)


class Bar(BaseModel):
    """A task instance with its tries, oldest first."""

    task_id: str
    map_index: int
    tries: list[Segment]


class GanttRow(Row):
    """A task or group of the run's version; `not_started` are the states of instances that have no try."""

    not_started: dict[str, int]


class Gantt(BaseModel):
    """The Gantt chart of a run. `complete` is false if it has more tries or deferred periods than are shown; then
    `not_started` is empty, too."""

    rows: list[GanttRow]
    items: list[Bar]
    complete: bool


@router.get("/dags/{dag_id}/runs/{run}")
@allow(Role.VIEWER, RoleScope.DAG)
async def get_run(request_client: TheRequestClient, dag_id: Name, run: RunRef) -> RunDetails:
    """One run."""
    row = await queries.find_run(request_client.db, dag_id, run)
    return await details_of(request_client, row)


async def details_of(request_client: TheRequestClient, row: RunRow) -> RunDetails:
    """A run with the counts of its task instances."""
    tasks = await queries.count_tasks(request_client.db, row)
    mapped = await read_mapped_counts(request_client.db, row)
    return RunDetails.model_validate({**RunResource.model_validate(row).model_dump(), "tasks": tasks, "mapped": mapped})


@router.get("/dags/{dag_id}/runs/{run}/tasks")
@allow(Role.VIEWER, RoleScope.DAG)
async def list_tasks(
    request_client: TheRequestClient,
    dag_id: Name,
    run: RunRef,
    task_id: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
    state: Annotated[list[TaskState] | None, Query(max_length=20)] = None,
    limit: Limit = 200,
    cursor: Cursor = None,
) -> Page[TaskInstanceResource]:
    """The task instances of a run, in the order of the DAG."""
    row = await queries.find_run(request_client.db, dag_id, run)
    after = decode_cursor(cursor, tuple[int, int])
    rows = await queries.list_run_tasks(
        request_client.db, row, task_id=task_id, states=state or (), after=after, limit=limit + 1
    )
    return page_of(TaskInstanceResource, rows, limit, lambda row: (row.task_index, row.map_index))


@router.get("/dags/{dag_id}/runs/{run}/gantt")
@allow(Role.VIEWER, RoleScope.DAG)
async def gantt(request_client: TheRequestClient, dag_id: Name, run: RunRef) -> Gantt:
    """Every try of every task instance, and which have none, for a Gantt chart."""
    row = await queries.find_run(request_client.db, dag_id, run)
    segments = await run_queries.read_segments(request_client.db, row.key, limit=MOST_SEGMENTS + 1)
    task_ids = (await run_queries.read_task_ids(request_client.db, [row.version_key]))[row.version_key]
    bars: dict[tuple[int, int], Bar] = {}
    stretches = await run_queries.read_stretches(request_client.db, row.key, limit=MOST_SEGMENTS + 1)
    deferred: dict[tuple[int, int, int], list[run_queries.DeferredPeriod]] = defaultdict(list)
    for stretch in stretches[:MOST_SEGMENTS]:
        deferred[stretch.task_index, stretch.map_index, stretch.try_number].append(stretch)
    for segment in segments[:MOST_SEGMENTS]:
        key = (segment.task_index, segment.map_index)
        if key not in bars:
            bars[key] = Bar(task_id=shown_task(task_ids, segment.task_index), map_index=segment.map_index, tries=[])
        shown = Segment.model_validate(segment)
        for stretch in deferred[*key, segment.try_number]:
            shown.deferred.append(DeferredPeriod(since=stretch.since, until=stretch.until or segment.end_date))
        bars[key].tries.append(shown)
    complete = max(len(segments), len(stretches)) <= MOST_SEGMENTS
    left = (await read_counts(request_client.db, [row]))[row.key] if complete else {}
    for bar in bars.values() if complete else ():
        left[bar.task_id][shown_state(bar.tries[-1].state)] -= 1
    # A total of none: states changed between the two statements.
    not_started = {task_id: dict(+states) for task_id, states in left.items() if states.total() > 0}
    spec = (await get_version(request_client.db, dag_id, row.version)).spec
    rows = [GanttRow(**each.model_dump(), not_started=not_started.get(each.id, {})) for each in grid_rows(spec)]
    return Gantt(rows=rows, items=list(bars.values()), complete=complete)
