"""Runs across DAGs: filtered, in order, and counted."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query

from aiosched.db.lists import run_lists
from aiosched.db.lists.chosen import RunOrder
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.api.base.run_resource import RunResource
from aiosched.web.api.lists.wanted import FacetList, TheAfter, TheRuns
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["Runs"])

_Order = Annotated[RunOrder, Query(description="`-` is newest first; by `end_date` only runs that have ended")]


class RunFacetList(FacetList):
    """The values of the filters of runs. `number` runs match all of them; with `more` at least so many."""

    number: int
    more: bool


@router.get("/runs")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_runs(
    request_client: TheRequestClient,
    visible: TheVisible,
    wanted: TheRuns,
    beyond: TheAfter,
    order: _Order = "-run_after",
    limit: Limit = 25,
    cursor: Cursor = None,
) -> Page[RunResource]:
    """Runs, by default the newest `run_after` first."""
    after = decode_cursor(cursor, tuple[datetime, int])
    if beyond is not None:
        await visible.check_dag(beyond.dag_id, Role.VIEWER)
        after = await run_lists.find_key(request_client.db, beyond.dag_id, beyond.run_id, order)
    rows = await run_lists.page_of_runs(
        request_client.db, wanted, order=order, after=after, limit=limit + 1, seen=visible.dags
    )
    return page_of(RunResource, rows, limit, lambda row: run_lists.key_of(row, order))


@router.get("/run-facets")
@allow(Role.VIEWER, RoleScope.SEEN)
async def run_facets(
    request_client: TheRequestClient, visible: TheVisible, wanted: TheRuns, order: _Order = "-run_after"
) -> RunFacetList:
    """How many runs match, and how many of the first ones have each state, type, DAG, owner, tag and reason."""
    found = await run_lists.run_facets(request_client.db, wanted, order=order, seen=visible.dags)
    count = await run_lists.count_runs(request_client.db, wanted, seen=visible.dags)
    shown = FacetList.of(found)
    return RunFacetList(counts=shown.counts, complete=shown.complete, number=count.number, more=count.more)
