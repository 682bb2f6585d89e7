"""`/dags/{dag_id}/dagRuns`: lists (`~` for all DAGs), one run, triggering, marking and clearing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import AfterValidator, AwareDatetime, Field

from aiosched.core.requests.requests import Clear, MarkRun, SetNote, Trigger
from aiosched.core.values.states import RunState
from aiosched.db.queries import queries, run_queries
from aiosched.db.queries.queries import RunRow
from aiosched.web.airflow_api.answering import done
from aiosched.web.airflow_api.paging import MOST, OrderBy, PageLimit, PageOffset, check_size, ordered, page
from aiosched.web.airflow_api.shapes import run_shape
from aiosched.web.airflow_api.tasks import touched
from aiosched.web.api.base.models import Body, JsonObject, Name, Text
from aiosched.web.auth.access import Person, Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.dependents import check_dependents, seen_preview
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.server.problems import Problem

router: APIRouter = APIRouter()

ALL: Final = "~"
_ORDER: Final[Mapping[str, Callable[[RunRow], Any]]] = {
    "id": lambda row: row.key,
    "dag_id": lambda row: row.dag_id,
    "run_id": lambda row: row.run_id,
    "dag_run_id": lambda row: row.run_id,
    "state": lambda row: row.state,
    "run_type": lambda row: row.run_type,
    "logical_date": lambda row: row.logical_date,
    "run_after": lambda row: row.run_after,
    "start_date": lambda row: row.start_date,
    "end_date": lambda row: row.end_date,
}

# As in Airflow, a date without a time is its first instant, also of an upper bound, and without a zone it is in UTC.
At = Annotated[datetime | None, Query(), AfterValidator(lambda at: at and at.replace(tzinfo=at.tzinfo or UTC))]
RunNote = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]


class TriggerBody(Body):
    """A run to create. The data interval is that of the DAG's timetable."""

    dag_run_id: Annotated[Text | None, Field(max_length=250)] = None
    logical_date: AwareDatetime | None = None
    run_after: AwareDatetime | None = None
    conf: JsonObject | None = None
    note: RunNote | None = None
    data_interval_start: AwareDatetime | None = None
    data_interval_end: AwareDatetime | None = None
    partition_key: str | None = None


class RunPatch(Body):
    """A state (queued, success, failed) or a note for a run."""

    state: RunState | None = None
    note: RunNote | None = None


class RunClear(Body):
    """What to clear of a run."""

    dry_run: bool = True
    only_failed: bool = False
    only_new: bool = False
    run_on_latest_version: bool | None = None
    note: RunNote | None = None


@router.get("/dags/{dag_id}/dagRuns")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_dag_runs(
    request_client: TheRequestClient,
    visible: TheVisible,
    dag_id: Name,
    limit: PageLimit = 50,
    offset: PageOffset = 0,
    order_by: OrderBy = None,
    state: Annotated[list[str] | None, Query(max_length=10)] = None,
    run_type: Annotated[list[str] | None, Query(max_length=10)] = None,
    run_id_pattern: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
    run_after_gte: At = None,
    run_after_lte: At = None,
    logical_date_gte: At = None,
    logical_date_lte: At = None,
    start_date_gte: At = None,
    start_date_lte: At = None,
    end_date_gte: At = None,
    end_date_lte: At = None,
) -> dict[str, Any]:
    """Runs of a DAG, or of all with `~`, oldest first."""
    if dag_id != ALL:
        await visible.check_dag(dag_id, Role.VIEWER)
        await queries.get_dag(request_client.db, dag_id)
    wanted = run_queries.RunFilter(
        None if dag_id == ALL else dag_id,
        tuple(state or ()),
        tuple(run_type or ()),
        None if run_id_pattern is None else run_id_pattern.strip("%"),
        run_after_gte,
    )
    rows = await run_queries.find_runs(request_client.db, wanted, limit=MOST + 1, seen=visible.dags)
    check_size(rows)
    found = [
        row
        for row in reversed(rows)
        if _between(row.run_after, None, run_after_lte)
        and _between(row.logical_date, logical_date_gte, logical_date_lte)
        and _between(row.start_date, start_date_gte, start_date_lte)
        and _between(row.end_date, end_date_gte, end_date_lte)
    ]
    return page("dag_runs", ordered(found, order_by, _ORDER), limit, offset, run_shape)


def _between(value: datetime | None, first: datetime | None, final: datetime | None) -> bool:
    if value is None:
        return first is None and final is None
    return (first is None or value >= first) and (final is None or value <= final)


@router.post("/dags/{dag_id}/dagRuns")
@allow(Role.OPERATOR, RoleScope.DAG)
async def trigger_dag_run(
    request_client: TheRequestClient, person: Person, dag_id: Name, body: TriggerBody
) -> dict[str, Any]:
    """Trigger a run; that of a paused DAG waits until it is unpaused."""
    await queries.get_dag(request_client.db, dag_id)
    if body.data_interval_start or body.data_interval_end or body.partition_key:
        raise Problem(422, "data-interval", "The data interval follows from the logical date and the DAG's timetable.")
    request = Trigger(
        conf=body.conf or {},
        logical_date=body.logical_date,
        run_id=body.dag_run_id,
        run_after=body.run_after,
        triggered_by="api",
    )
    made = await done(request_client, request, dag_id, person)
    if body.note:
        await done(request_client, SetNote(run_id=made["run_id"], note=body.note), dag_id, person)
    return await get_dag_run(request_client, dag_id, made["run_id"])


@router.get("/dags/{dag_id}/dagRuns/{dag_run_id}")
@allow(Role.VIEWER, RoleScope.DAG)
async def get_dag_run(request_client: TheRequestClient, dag_id: Name, dag_run_id: Name) -> dict[str, Any]:
    """One run."""
    return run_shape(await queries.find_run(request_client.db, dag_id, dag_run_id))


@router.patch("/dags/{dag_id}/dagRuns/{dag_run_id}")
@allow(Role.OPERATOR, RoleScope.DAG)
async def patch_dag_run(
    request_client: TheRequestClient, person: Person, dag_id: Name, dag_run_id: Name, body: RunPatch
) -> dict[str, Any]:
    """Mark a run, or put a note on it."""
    run = await queries.find_run(request_client.db, dag_id, dag_run_id)
    if body.state is RunState.RUNNING:
        raise Problem(422, "state", "A run can be marked queued, success or failed.")
    if body.state is not None:
        await done(request_client, MarkRun(run_id=run.run_id, state=body.state), dag_id, person)
    if body.note is not None:
        await done(request_client, SetNote(run_id=run.run_id, note=body.note), dag_id, person)
    return await get_dag_run(request_client, dag_id, run.run_id)


@router.post("/dags/{dag_id}/dagRuns/{dag_run_id}/clear")
@allow(Role.OPERATOR, RoleScope.DAG)
async def clear_dag_run(
    request_client: TheRequestClient, visible: TheVisible, dag_id: Name, dag_run_id: Name, body: RunClear
) -> dict[str, Any]:
    """Clear a run: with `dry_run`, which is the default, the answer is the task instances that it would clear."""
    run = await queries.find_run(request_client.db, dag_id, dag_run_id)
    if body.only_new:
        raise Problem(422, "only-new", "only_new is not possible: run_on_latest_version adds new tasks.")
    request = Clear(
        run_ids=(run.run_id,),
        only_failed=body.only_failed,
        newest_version=bool(body.run_on_latest_version),
        dry_run=body.dry_run,
    )
    if body.dry_run:
        return await touched(request_client, dag_id, await seen_preview(request_client, visible, dag_id, request))
    await check_dependents(request_client, visible, dag_id, request)
    await done(request_client, request, dag_id, visible.person)
    if body.note is not None:
        await done(request_client, SetNote(run_id=run.run_id, note=body.note), dag_id, visible.person)
    return await get_dag_run(request_client, dag_id, run.run_id)
