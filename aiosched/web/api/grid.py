"""The grid: the last runs of a DAG as columns, its tasks and groups as rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from aiosched.core.graph.spec import DagSpec, display_names
from aiosched.core.values.states import RunState, RunType
from aiosched.db.queries.dag_pages.dated_runs import DatedRuns, date_of, runs_by_date
from aiosched.db.queries.queries import RunRow
from aiosched.db.queries.version_queries import get_version
from aiosched.web.api.base.models import Name
from aiosched.web.api.base.paging import Cursor, decode_cursor, encode_cursor
from aiosched.web.api.base.run_resource import RunResource
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.views.row_order import lifted, topological
from aiosched.web.views.state_counts import Counts, groups_around, read_counts, with_groups

router: APIRouter = APIRouter(tags=["DAGs"])


class Row(BaseModel):
    """A row of the grid: a task, or a group that holds the rows below it with a greater depth.

    `label` is its display name, or its id without that of the group around it.
    """

    id: str
    label: str
    kind: Literal["task", "group"]
    depth: int
    is_mapped: bool
    task_index: int | None  # in the newest version, as changes name tasks; null for groups


class Grid(BaseModel):
    """Columns are runs (in the order of their dates), rows are tasks (in the order of their dependencies).

    `cells` has the value of each row for each run: a state, an object of counts by state for several instances, or null
    if the run does not have the task. `rows` are those of the newest version.
    """

    version: int
    rows: list[Row]
    runs: list[RunResource]
    cells: list[list[str | dict[str, int] | None]]
    next_cursor: str | None


@router.get("/dags/{dag_id}/grid")
@allow(Role.VIEWER, RoleScope.DAG)
async def grid(
    request_client: TheRequestClient,
    dag_id: Name,
    state: Annotated[list[RunState] | None, Query(max_length=10)] = None,
    run_type: Annotated[list[RunType] | None, Query(max_length=10)] = None,
    limit: Annotated[int, Query(ge=1, le=365, description="runs")] = 30,
    cursor: Cursor = None,
) -> Grid:
    """The last runs by logical date (`run_after` without one) with the states of all their tasks.

    The cursor continues with older dates.
    """
    newest = await get_version(request_client.db, dag_id)
    spec = newest.spec
    before = decode_cursor(cursor, tuple[datetime, int])
    wanted = DatedRuns(dag_id, tuple(map(str, state or ())), tuple(map(str, run_type or ())))
    runs = await runs_by_date(request_client.db, wanted, before=before, limit=limit + 1)
    more = encode_cursor((date_of(runs[limit - 1]), runs[limit - 1].key)) if len(runs) > limit else None
    runs = runs[:limit][::-1]
    rows = grid_rows(spec)
    return Grid(
        version=newest.number,
        rows=rows,
        runs=[RunResource.model_validate(run) for run in runs],
        cells=_cells(spec, runs, rows, await read_counts(request_client.db, runs)),
        next_cursor=more,
    )


def grid_rows(spec: DagSpec) -> list[Row]:
    """Tasks after those that they depend on, each group before its members."""
    parents = {group.group_id: group.parent_id for group in spec.groups}
    around = groups_around(spec)
    members: dict[str | None, list[tuple[str, bool]]] = defaultdict(list)
    seen: set[str] = set()

    def enter(group: str | None) -> None:
        if group is not None and group not in seen:
            seen.add(group)
            enter(parents.get(group))
            members[parents.get(group)].append((group, True))

    mapped_groups = {group.group_id for group in spec.groups if group.mapping is not None}
    mapped = {task.task_id for task in spec.tasks if task.mapping is not None}
    for task in spec.tasks:
        enter(task.group_id)
        members[task.group_id].append((task.task_id, False))
        if any(group in mapped_groups for group in around[task.task_id]):
            mapped.add(task.task_id)
    edges = lifted(((up, task.task_id) for task in spec.tasks for up in task.upstream), around)
    rows: list[Row] = []
    names = display_names(spec)
    index = {task.task_id: position for position, task in enumerate(spec.tasks)}

    def walk(container: str | None, depth: int) -> None:
        kinds = dict(members[container])
        for each in topological(list(kinds), edges.get(container, ())):
            is_group = kinds[each]
            label = names.get(each) or (each.removeprefix(f"{container}.") if container else each)
            is_mapped = each in (mapped_groups if is_group else mapped)
            kind: Literal["task", "group"] = "group" if is_group else "task"
            row_index = None if is_group else index[each]
            rows.append(Row(id=each, label=label, kind=kind, depth=depth, is_mapped=is_mapped, task_index=row_index))
            if is_group:
                walk(each, depth + 1)

    walk(None, 0)
    return rows


def _cells(
    spec: DagSpec, runs: Sequence[RunRow], rows: Sequence[Row], counts: Mapping[int, Counts]
) -> list[list[str | dict[str, int] | None]]:
    around = groups_around(spec)
    cells: list[list[str | dict[str, int] | None]] = []
    for run in runs:
        found = with_groups(counts[run.key], around)
        cells.append([_shown(found.get(row.id), row) for row in rows])
    return cells


def _shown(counts: Counter[str] | None, row: Row) -> str | dict[str, int] | None:
    if not counts:
        return None
    if row.kind == "task" and not row.is_mapped and counts.total() == 1:
        return next(iter(counts))
    return dict(counts)
