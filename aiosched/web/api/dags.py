"""DAGs: which exist, whether they are paused, when they run next."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel

from aiosched.core.values.states import RunState
from aiosched.db.lists import dag_lists
from aiosched.db.lists.dag_lists import DagFilters, DagOrder
from aiosched.db.queries import queries
from aiosched.db.queries.quarantine_queries import quarantine_traceback
from aiosched.db.statements.dags import import_error
from aiosched.web.api.base.models import Instant, Name, Resource
from aiosched.web.api.base.paging import Cursor, Limit, Page, bad_cursor, decode_cursor, page_of
from aiosched.web.api.lists.wanted import FacetList, TheDags, WithoutDags, Word
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.server.etags import RARELY

router: APIRouter = APIRouter(tags=["DAGs"])

_Status = Literal["active", "paused", "stale", "error", "quarantine", "late"]


class QuarantineResource(Resource):
    """An unforeseen error concerned the DAG: nothing of it is decided until it is tried again at `retry_at`, or now on
    request. `place` failed, in words, with `error`: the last of `failures` in a row, of which the first was at
    `since`."""

    since: Instant
    retry_at: Instant
    failures: int
    place: str
    error: str


class QuarantineDetails(QuarantineResource):
    """The same with the traceback of the last failure."""

    traceback: str | None


class DagResource(Resource):
    """A DAG and its newest version. `quarantine` is null unless it is in quarantine.

    `dag_display_name` is shown in place of its id (null: the id is).

    `schedule_timezone` is the time zone whose clock the schedule follows (null: it follows none).

    `bundle` and `bundle_version` are those of the newest version; see versions.
    """

    dag_id: str
    dag_display_name: str | None
    schedule: str | None
    schedule_timezone: str | None
    status: str
    is_paused: bool
    is_stale: bool
    has_import_errors: bool
    file: str | None
    description: str | None
    owner: str | None
    tags: list[str]
    max_active_runs: int
    max_active_tasks: int
    next_logical_date: Instant | None
    next_run_after: Instant | None
    last_parsed_at: Instant | None
    version: int | None
    bundle: str | None
    bundle_version: str | None
    last_run_id: str | None
    last_run_state: str | None
    last_run_after: Instant | None
    active_runs: int
    quarantine: QuarantineResource | None


class DagImportError(Resource):
    """Why the DAG's file cannot be imported, on one line, and in which line of the file that is, if known."""

    line: int | None
    error: str


class DagDetails(DagResource):
    """The same with the traceback of the error because of which the DAG is in quarantine, and why its file cannot be
    imported."""

    quarantine: QuarantineDetails | None
    import_error: DagImportError | None


async def _filters(
    request_client: TheRequestClient,
    of: TheDags,
    without: WithoutDags,
    pattern: Annotated[Word | None, Query(description="a glob over DAG ids")] = None,
    search: Annotated[
        Word | None, Query(description="part of the id, display name or description, ignoring case")
    ] = None,
    stale: Annotated[bool, Query(description="include DAGs whose file is gone")] = False,
    status: Annotated[
        list[_Status] | None,
        Query(max_length=10, description="late: active, and the next run is due since more than a minute"),
    ] = None,
    not_status: Annotated[list[_Status] | None, Query(max_length=10)] = None,
    last_state: Annotated[
        list[RunState | Literal["none"]] | None,
        Query(max_length=10, description="state of the newest run; none: it has no run"),
    ] = None,
    not_last_state: Annotated[list[RunState | Literal["none"]] | None, Query(max_length=10)] = None,
) -> DagFilters:
    return {
        "of": of,
        "pattern": pattern,
        "search": search,
        "stale": stale,
        "statuses": status or (),
        "last_states": last_state or (),
        "late_before": request_client.clock.now() - dag_lists.LATE_AFTER,
        "without": replace(without, statuses=not_status or (), states=not_last_state or ()),
    }


TheFilters = Annotated[DagFilters, Depends(_filters)]


@router.get("/dags")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_dags(
    request_client: TheRequestClient,
    visible: TheVisible,
    filters: TheFilters,
    order: Annotated[
        DagOrder,
        Query(description="`-` is descending; without a next run a DAG is last, without a last run first"),
    ] = "dag_id",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[DagResource]:
    """DAGs by id, or in the order of owners, or of their next or last runs or the states of these."""
    try:
        after = dag_lists.read_key(decode_cursor(cursor, tuple[str, str | None]), order)
    except (ValueError, OverflowError):
        raise bad_cursor() from None
    rows = await dag_lists.list_dags(
        request_client.db, order=order, after=after, limit=limit + 1, seen=visible.dags, **filters
    )
    return page_of(DagResource, rows, limit, lambda row: dag_lists.key_of(row, order))


class DagCounts(BaseModel):
    """How many DAGs a list has."""

    number: int


@router.get("/dag-counts")
@allow(Role.VIEWER, RoleScope.SEEN)
async def count_dags(request_client: TheRequestClient, visible: TheVisible, filters: TheFilters) -> DagCounts:
    """The number of DAGs that match the filters of the list."""
    return DagCounts(number=await dag_lists.count_dags(request_client.db, seen=visible.dags, **filters))


@router.get("/dag-facets")
@allow(Role.VIEWER, RoleScope.SEEN)
async def dag_facets(request_client: TheRequestClient, visible: TheVisible, filters: TheFilters) -> FacetList:
    """How many of the first DAGs that match have each status, last state, owner, team and tag."""
    return FacetList.of(await dag_lists.dag_facets(request_client.db, seen=visible.dags, **filters))


@router.get("/dags/{dag_id}", dependencies=[RARELY])
@allow(Role.VIEWER, RoleScope.DAG)
async def get_dag(request_client: TheRequestClient, dag_id: Name) -> DagDetails:
    """One DAG."""
    found = DagResource.model_validate(await queries.get_dag(request_client.db, dag_id)).model_dump()
    if found["quarantine"] is not None:
        found["quarantine"]["traceback"] = await quarantine_traceback(request_client.db, dag_id)
    found["import_error"] = None
    if found["has_import_errors"] and found["file"] is not None:
        found["import_error"] = await import_error(request_client.db, found["file"])
    return DagDetails.model_validate(found)


class Tag(Resource):
    """A tag and the number of DAGs with it, stale ones excluded."""

    tag: str
    dags: int


@router.get("/tags")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_tags(
    request_client: TheRequestClient, visible: TheVisible, limit: Limit = 1000, cursor: Cursor = None
) -> Page[Tag]:
    """The tags of all DAGs, by name."""
    after = decode_cursor(cursor, str)
    rows = await dag_lists.list_tags(request_client.db, after=after, limit=limit + 1, seen=visible.dags)
    return page_of(Tag, rows, limit, lambda row: row.tag)
