"""A run beside another one of its DAG: what changed in its conf, its version, and the states and times of its tasks."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel

from aiosched.db.queries import queries, run_queries
from aiosched.db.queries.dag_pages.dated_runs import DatedRuns, date_of, runs_by_date
from aiosched.db.queries.dag_pages.task_figures import TaskInRun, read_tasks_in_runs
from aiosched.db.queries.queries import RunRow, shown_task
from aiosched.web.api.base.models import Name, RunRef
from aiosched.web.api.base.run_resource import RunResource
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["Runs"])

_ABSENT: Final[dict[str, int]] = {}


class ChangedValue(BaseModel):
    """A value of the conf that differs; null where the run does not have it."""

    name: str
    before: Any
    after: Any


class ComparedTask(BaseModel):
    """A task in both runs: its instances by state (empty: not in that run), and its seconds from start to end."""

    task_id: str
    before: dict[str, int]
    after: dict[str, int]
    seconds_before: float | None
    seconds_after: float | None


class Comparison(BaseModel):
    """A run (`after`) and the one that it is compared with (`before`; null if it is the first one)."""

    before: RunResource | None
    after: RunResource
    conf: list[ChangedValue]
    tasks: list[ComparedTask]


@router.get("/dags/{dag_id}/runs/{run}/comparison")
@allow(Role.VIEWER, RoleScope.DAG)
async def compare(
    request_client: TheRequestClient,
    dag_id: Name,
    run: RunRef,
    other: Annotated[
        str | None,
        Query(max_length=250, pattern=r"^[^\x00]+$", description="a run as in the path; by default the one before"),
    ] = None,
) -> Comparison:
    """A run beside another one: by default the one with the date before its own."""
    db = request_client.db
    after = await queries.find_run(db, dag_id, run)
    if other is not None:
        before = await queries.find_run(db, dag_id, other)
    else:
        earlier = await runs_by_date(db, DatedRuns(dag_id), before=(date_of(after), after.key), limit=1)
        if not earlier:
            return Comparison(before=None, after=RunResource.model_validate(after), conf=[], tasks=[])
        before = earlier[0]
    names = await run_queries.read_task_ids(db, {before.version_key, after.version_key})
    found = await read_tasks_in_runs(db, [(key, None) for key in dict.fromkeys((before.key, after.key))])
    tasks = [
        {shown_task(names[one.version_key], task.task_index): task for task in found if task.run == one.key}
        for one in (before, after)
    ]
    return Comparison(
        before=RunResource.model_validate(before),
        after=RunResource.model_validate(after),
        conf=_changed(before, after),
        tasks=[_compared(name, tasks[0].get(name), tasks[1].get(name)) for name in tasks[1] | tasks[0]],
    )


def _changed(before: RunRow, after: RunRow) -> list[ChangedValue]:
    names = sorted(before.conf.keys() | after.conf.keys())
    pairs = [(name, before.conf.get(name), after.conf.get(name)) for name in names]
    return [ChangedValue(name=name, before=one, after=two) for name, one, two in pairs if one != two]


def _compared(task_id: str, before: TaskInRun | None, after: TaskInRun | None) -> ComparedTask:
    return ComparedTask(
        task_id=task_id,
        before=_ABSENT if before is None else before.states,
        after=_ABSENT if after is None else after.states,
        seconds_before=None if before is None else before.seconds,
        seconds_after=None if after is None else after.seconds,
    )
