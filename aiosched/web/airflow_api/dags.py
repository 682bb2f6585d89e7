"""`/dags`: lists, one DAG, pausing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query

from aiosched.core.requests.requests import Pause, Unpause
from aiosched.db.lists.dag_lists import list_dags as list_dag_rows
from aiosched.db.queries import queries
from aiosched.db.queries.queries import DagListRow
from aiosched.web.airflow_api.answering import done
from aiosched.web.airflow_api.paging import MOST, OrderBy, PageLimit, PageOffset, check_size, ordered, page
from aiosched.web.airflow_api.shapes import dag_details_shape, dag_shape
from aiosched.web.api.base.models import Body, Name
from aiosched.web.auth.access import Person, Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter()

_ORDER: Final[Mapping[str, Callable[[DagListRow], Any]]] = {
    "dag_id": lambda row: row.dag_id,
    "dag_display_name": lambda row: row.dag_display_name or row.dag_id,
    "next_dagrun": lambda row: row.next_run_after,
    "state": lambda row: row.last_run_state,
}


class DagPatch(Body):
    """What can be changed about a DAG."""

    is_paused: bool


@router.get("/dags")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_dags(
    request_client: TheRequestClient,
    visible: TheVisible,
    limit: PageLimit = 50,
    offset: PageOffset = 0,
    order_by: OrderBy = None,
    tags: Annotated[list[str] | None, Query(max_length=100)] = None,
    owners: Annotated[list[str] | None, Query(max_length=100)] = None,
    dag_id_pattern: Annotated[str | None, Query(max_length=250, pattern=r"^[^\x00]*$")] = None,
    paused: bool | None = None,
    exclude_stale: bool = True,
) -> dict[str, Any]:
    """DAGs. `dag_id_pattern` is a part of the id; of several tags or owners one is enough."""
    pattern = None if dag_id_pattern is None else f"*{dag_id_pattern.strip('%')}*"
    rows = await list_dag_rows(
        request_client.db, pattern=pattern, stale=not exclude_stale, limit=MOST + 1, seen=visible.dags
    )
    check_size(rows)
    found = [
        row
        for row in rows
        if (paused is None or row.is_paused is paused)
        and (not tags or not set(tags).isdisjoint(row.tags))
        and (not owners or row.owner in owners)
    ]
    folder = request_client.settings.core.dags_folder.absolute()
    return page("dags", ordered(found, order_by, _ORDER), limit, offset, lambda row: dag_shape(row, folder))


@router.get("/dags/{dag_id}")
@allow(Role.VIEWER, RoleScope.DAG)
async def get_dag(request_client: TheRequestClient, dag_id: Name) -> dict[str, Any]:
    """One DAG."""
    folder = request_client.settings.core.dags_folder.absolute()
    return dag_shape(await queries.get_dag(request_client.db, dag_id), folder)


@router.get("/dags/{dag_id}/details")
@allow(Role.VIEWER, RoleScope.DAG)
async def get_dag_details(request_client: TheRequestClient, dag_id: Name) -> dict[str, Any]:
    """One DAG with what its file says."""
    row = await queries.get_dag(request_client.db, dag_id)
    spec = await queries.get_spec(request_client.db, dag_id)
    return dag_details_shape(row, spec, request_client.settings.core.dags_folder.absolute())


@router.patch("/dags/{dag_id}")
@allow(Role.OPERATOR, RoleScope.DAG)
async def patch_dag(request_client: TheRequestClient, person: Person, dag_id: Name, body: DagPatch) -> dict[str, Any]:
    """Pause or unpause a DAG."""
    await queries.get_dag(request_client.db, dag_id)
    await done(request_client, Pause() if body.is_paused else Unpause(), dag_id, person)
    return await get_dag(request_client, dag_id)
