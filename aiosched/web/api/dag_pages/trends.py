"""Trends of a DAG: what its last runs took, how late they began, how often their tasks were tried again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from aiosched.core.values.states import RunState
from aiosched.db.queries import run_queries
from aiosched.db.queries.dag_pages import task_figures
from aiosched.db.queries.dag_pages.dated_runs import DatedRuns, date_of, runs_by_date
from aiosched.db.queries.queries import RunRow
from aiosched.db.queries.version_queries import get_version
from aiosched.errors import NotFound, did_you_mean
from aiosched.web.api.base.models import Instant, Name, Resource, Stored
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.request_client import RequestClient, TheRequestClient
from aiosched.web.views.usual import percentile, unusually_long

router: APIRouter = APIRouter(tags=["DAGs"])


class TrendPoint(BaseModel):
    """A run, or a task in it. `at` is the run's date; times are in seconds.

    `late` is how long after `run_after` the run began, `landed` how long after it the run ended. `is_outlier`: it took
    much longer than the others.
    """

    run_id: str
    at: Instant
    state: Stored[RunState]
    seconds: float | None
    late: float | None
    landed: float | None
    retries: int
    is_outlier: bool


class TaskTrend(Resource):
    """A task over these runs: in how many it was, failed and was tried again, and what its successes took."""

    task_id: str
    runs: int
    failed: int
    retries: int
    p50: float | None
    p95: float | None


class Trends(BaseModel):
    """The last runs in the order of their dates, with the usual durations of successful ones in seconds.

    With `task_id`, `points` are about this task. `tasks` are those of the newest version, the slowest first.
    """

    task_id: str | None
    points: list[TrendPoint]
    p50: float | None
    p95: float | None
    tasks: list[TaskTrend]


@router.get("/dags/{dag_id}/trends")
@allow(Role.VIEWER, RoleScope.DAG)
async def trends(
    request_client: TheRequestClient,
    dag_id: Name,
    runs: Annotated[int, Query(ge=1, le=365, description="how many of the last runs")] = 30,
    task_id: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
) -> Trends:
    """What the last runs and their tasks took."""
    db = request_client.db
    known = [task.task_id for task in (await get_version(db, dag_id)).spec.tasks]
    if task_id is not None and task_id not in known:
        raise NotFound(f"DAG {dag_id!r} has no task {task_id!r}.{did_you_mean(task_id, known)}")
    found = (await runs_by_date(db, DatedRuns(dag_id), limit=runs))[::-1]
    names = await run_queries.read_task_ids(db, {run.version_key for run in found})
    places = [(key, index, name) for key, ids in names.items() for index, name in enumerate(ids)]
    of_runs = [(run.key, run.version_key) for run in found]
    figures = await task_figures.read_task_figures(db, of_runs, places)
    if task_id is None:
        retries = await task_figures.read_retries(db, [run.key for run in found])
        points = [_run_point(run, retries.get(run.key, 0)) for run in found]
    else:
        points = await _task_points(request_client, found, {(key, name): index for key, index, name in places}, task_id)
    usual = [point.seconds for point in points if point.seconds is not None and point.state == RunState.SUCCESS]
    limit = unusually_long(usual)
    for point in points:
        point.is_outlier = limit is not None and point.seconds is not None and point.seconds > limit
    slowest = sorted((one for one in figures if one.task_id in known), key=lambda one: -(one.p50 or 0.0))
    return Trends(
        task_id=task_id,
        points=points,
        p50=percentile(usual, 0.5),
        p95=percentile(usual, 0.95),
        tasks=[TaskTrend.model_validate(one) for one in slowest],
    )


def _run_point(run: RunRow, retries: int) -> TrendPoint:
    return TrendPoint(
        run_id=run.run_id,
        at=date_of(run),
        state=run.state,
        seconds=run.seconds if run.finished else None,
        late=_after(run.run_after, run.start_date),
        landed=_after(run.run_after, run.end_date),
        retries=retries,
        is_outlier=False,
    )


def _after(since: datetime, until: datetime | None) -> float | None:
    return None if until is None else (until - since).total_seconds()


async def _task_points(
    request_client: RequestClient, runs: Sequence[RunRow], index: dict[tuple[int, str], int], task_id: str
) -> list[TrendPoint]:
    """The runs that have the task, with what it took in each."""
    wanted = [(run.key, index.get((run.version_key, task_id))) for run in runs]
    has_task = [(key, place) for key, place in wanted if place is not None]
    found = {one.run: one for one in await task_figures.read_tasks_in_runs(request_client.db, has_task)}
    points = []
    for run in runs:
        if (one := found.get(run.key)) is not None:
            point = _run_point(run, one.retries)
            point.seconds = one.seconds if run.finished else None
            points.append(point)
    return points
