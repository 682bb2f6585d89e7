"""Why a DAG, a run or a task instance does not run: every gate, who holds what is missing, and the remedy."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from aiosched.core.why.explanation import Explanation, Verdict
from aiosched.scheduler.why.why import why
from aiosched.web.api.base.models import Instant, MapIndex, Name, Resource, RunRef
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible, Visible
from aiosched.web.requests.request_client import ThePrimary

router: APIRouter = APIRouter(tags=["Why"])


class WhyHolder(Resource):
    """Who holds what is missing, or will provide it. `label` is for people; `usual_seconds` is a median.

    The ids of a task of a DAG that one may not see are empty.
    """

    dag_id: str
    run_id: str
    task_id: str | None
    map_index: int
    state: str
    slots: int
    seconds: float | None
    usual_seconds: float | None
    label: str


class WhyGate(Resource):
    """One condition for running, and whether it holds."""

    name: str
    verdict: Verdict
    detail: str
    holders: list[WhyHolder]
    opens_at: Instant | None
    commands: list[str]


class Why(Resource):
    """The whole explanation; `gates` in the order in which they are checked. A null `rank` is unknown."""

    subject: str
    state: str
    summary: str
    at: Instant
    since: Instant | None
    waiting_seconds: float | None
    gates: list[WhyGate]
    rank: int | None = Field(description="its place among all tasks that wait for slots of its pool")
    likely_free_at: Instant | None
    earliest_start: Instant | None
    commands: list[str]
    notes: list[str] = Field(
        description="what was left out because there is too much of it, and what of its logs is lost"
    )


@router.get("/dags/{dag_id}/why")
@allow(Role.VIEWER, RoleScope.DAG)
async def why_dag(request_client: ThePrimary, visible: TheVisible, dag_id: Name) -> Why:
    """Why a DAG gets no new run now."""
    return _shown(await why(request_client.db, dag_id, now=request_client.clock.now()), visible)


@router.get("/dags/{dag_id}/runs/{run}/why")
@allow(Role.VIEWER, RoleScope.DAG)
async def why_run(request_client: ThePrimary, visible: TheVisible, dag_id: Name, run: RunRef) -> Why:
    """Why a run has not started, what it waits for, or how it failed."""
    return _shown(await why(request_client.db, dag_id, run, now=request_client.clock.now()), visible)


@router.get("/dags/{dag_id}/runs/{run}/tasks/{task_id}/why")
@allow(Role.VIEWER, RoleScope.DAG)
async def why_task(
    request_client: ThePrimary,
    visible: TheVisible,
    dag_id: Name,
    run: RunRef,
    task_id: Name,
    map_index: MapIndex = -1,
) -> Why:
    """Why a task instance does not run, or how it ended. For a mapped task, -1 is the most informative instance."""
    found = await why(request_client.db, dag_id, run, task_id, map_index, now=request_client.clock.now())
    return _shown(found, visible)


def _shown(found: Explanation, visible: Visible) -> Why:
    """An explanation in which task instances of DAGs that cannot be seen are counted, and not named."""
    shown = Why.model_validate(found)
    for holder in () if visible.is_whole else (each for gate in shown.gates for each in gate.holders):
        if not visible.sees(holder.dag_id):
            holder.dag_id = holder.run_id = ""
            holder.task_id, holder.map_index, holder.label = None, -1, "a task that you may not see"
    return shown
