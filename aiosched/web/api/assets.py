"""Assets: their producers and consumers, their events and their freshness. What depends on them: dependencies.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, StringConstraints

from aiosched.core.assets.freshness import Freshness
from aiosched.core.requests.requests import EmitAsset
from aiosched.core.values.asset_checks import CheckStatus
from aiosched.db.queries import asset_queries, check_queries, partition_queries
from aiosched.web.api.base.bodies import request_of, with_options
from aiosched.web.api.base.models import Body, Instant, Resource
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, encode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible, Visible
from aiosched.web.requests.answers import ACCEPTED
from aiosched.web.requests.request_client import RequestClient, TheRequestClient
from aiosched.web.requests.sending import TheSender
from aiosched.web.server.problems import Problem

router: APIRouter = APIRouter(tags=["Assets"])

# A parameter of the query, since a name may be a URI: an encoded slash does not survive in a path.
AssetName = Annotated[str, StringConstraints(min_length=1, max_length=1500, pattern=r"^[^\x00]+$")]
_NO_SOURCE: Final[dict[str, Any]] = dict.fromkeys(("dag_id", "run_id", "task_id", "map_index"))


class AssetResource(Resource):
    """An asset, the DAGs that produce it, the DAGs that wait for it, its newest event and its freshness.

    The group of one that is in none is `asset`. Owners and description are those in `extra`, else of its producers.
    The next event is expected by `expected_by`: by the schedules of the producers, or `fresh_within` seconds after the
    last event. The source of the last event is null if a person emitted it. `check` is the worst of what its checks
    said last.
    """

    name: str
    uri: str
    group: str
    owners: list[str]
    description: str | None
    is_active: bool
    producers: list[str]
    consumers: list[str]
    last_event_at: Instant | None
    extra: dict[str, Any]
    freshness: Freshness
    expected_by: Instant | None
    fresh_within: float | None
    last_dag_id: str | None
    last_run_id: str | None
    last_task_id: str | None
    check: CheckStatus | None


class CheckResultResource(Resource):
    """What one try of a check said."""

    status: CheckStatus
    message: str
    metadata: dict[str, Any]
    checked_at: Instant
    run_id: str
    map_index: int
    try_number: int


class AssetCheckResource(Resource):
    """A task that checks an asset, with its newest ten results. `last` is what it said in the run that reported last:
    the worst of its instances there, each by its last try; null: it has not reported. Consumers of the asset wait for
    one that `is_blocking`."""

    dag_id: str
    task_id: str
    is_blocking: bool
    last: CheckResultResource | None
    results: list[CheckResultResource]


class AssetChecksResource(Resource):
    """The checks of an asset by DAG and task."""

    checks: list[AssetCheckResource]


class AssetEventResource(Resource):
    """An event of an asset; the source is null if a person emitted it."""

    id: int
    name: str
    timestamp: Instant
    extra: dict[str, Any]
    alias: str | None
    dag_id: str | None
    run_id: str | None
    task_id: str | None
    map_index: int | None
    partition_key: str | None


class PartitionResource(Resource):
    """A partition of an asset, its newest event, and the newest run of a producer about it (`state` is the run's).

    `is_made`: it was produced, and no later run has failed or goes on.
    """

    key: str
    last_event_at: Instant | None
    events: int
    dag_id: str | None
    run_id: str | None
    state: str | None
    is_made: bool


class PartitionsResource(Resource):
    """The partitions of an asset by key; not `is_complete`: there are older events or runs than were looked at."""

    partitions: list[PartitionResource]
    is_complete: bool


@with_options(EmitAsset, without=("name",))
class NewEvent(Body):
    """An event to emit, as a task would; with a `partition_key` about that partition of the asset."""


class Emitted(BaseModel):
    """An event that was stored."""

    name: str
    at: str


class LineageNode(BaseModel):
    """A DAG or an asset."""

    id: str
    kind: Literal["dag", "asset"]
    label: str


class Lineage(BaseModel):
    """Which DAGs feed which: edges go from a DAG to the assets it produces, and from an asset to the DAGs that wait for
    it."""

    nodes: list[LineageNode]
    edges: list[tuple[str, str]]


@router.get("/assets")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_assets(
    request_client: TheRequestClient,
    visible: TheVisible,
    freshness: Annotated[Freshness | None, Query(description="only assets of which this is true now")] = None,
    q: Annotated[
        str | None,
        Query(max_length=250, pattern=r"^[^\x00]*$", description="a part of its name, URI, group, owners or extra"),
    ] = None,
    group: Annotated[str | None, Query(max_length=1500, pattern=r"^[^\x00]*$")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[AssetResource]:
    """Assets by name; with `freshness` a page may have few or none and lead to a next one."""
    after, db, now = decode_cursor(cursor, str), request_client.db, request_client.clock.now()
    if freshness is not None:
        found, end = await asset_queries.find_assets_by_freshness(
            db, freshness, now=now, after=after, limit=limit, q=q, group=group, seen=visible.dags
        )
        items = [AssetResource.model_validate(row) for row in found]
        return Page(items=items, next_cursor=None if end is None else encode_cursor(end))
    rows = await asset_queries.list_assets(
        db, now=now, after=after, limit=limit + 1, q=q, group=group, seen=visible.dags
    )
    return page_of(AssetResource, rows, limit, lambda row: row.name)


@router.get("/asset-lineage")
@allow(Role.VIEWER, RoleScope.SEEN)
async def lineage(request_client: TheRequestClient, visible: TheVisible) -> Lineage:
    """The graph of assets between DAGs."""
    now = request_client.clock.now()
    nodes: dict[str, LineageNode] = {}
    edges: dict[tuple[str, str], None] = {}
    for row in await asset_queries.list_assets(request_client.db, now=now, seen=visible.dags):
        if not (row.producers or row.consumers):
            continue
        key = f"asset:{row.name}"
        nodes[key] = LineageNode(id=key, kind="asset", label=row.name)
        for dag_id in (*row.producers, *row.consumers):
            nodes.setdefault(f"dag:{dag_id}", LineageNode(id=f"dag:{dag_id}", kind="dag", label=dag_id))
        edges |= dict.fromkeys((f"dag:{dag_id}", key) for dag_id in row.producers)
        edges |= dict.fromkeys((key, f"dag:{dag_id}") for dag_id in row.consumers)
    return Lineage(nodes=list(nodes.values()), edges=list(edges))


@router.get("/asset")
@router.get("/assets/{name}", include_in_schema=False)
@allow(Role.VIEWER, RoleScope.SEEN)
async def get_asset(request_client: TheRequestClient, visible: TheVisible, name: AssetName) -> AssetResource:
    """One asset. `/assets/{name}` is the same for a name without a slash."""
    now = request_client.clock.now()
    return AssetResource.model_validate(
        await asset_queries.get_asset(request_client.db, name, now=now, seen=visible.dags)
    )


@router.get("/asset-partitions")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_asset_partitions(
    request_client: TheRequestClient, visible: TheVisible, name: AssetName
) -> PartitionsResource:
    """The partitions of an asset, as its newest 10,000 events and the newest 1,000 runs of each producer tell."""
    db = request_client.db
    asset = await asset_queries.get_asset(db, name, now=request_client.clock.now(), seen=visible.dags)
    found = await partition_queries.partitions_of(db, name, asset.producers, seen=visible.dags)
    return PartitionsResource.model_validate(found)


@router.get("/asset-checks")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_asset_checks(
    request_client: TheRequestClient, visible: TheVisible, name: AssetName
) -> AssetChecksResource:
    """The checks of an asset that DAG files have now, and what they said."""
    db = request_client.db
    await asset_queries.get_asset(db, name, now=request_client.clock.now(), seen=visible.dags)
    async with db.acquire() as conn:
        checks = await check_queries.checks_of(conn, name, seen=visible.dags)
    return AssetChecksResource(checks=[AssetCheckResource.model_validate(check) for check in checks])


@router.get("/asset-events")
@router.get("/assets/{name}/events", include_in_schema=False)
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_asset_events(
    request_client: TheRequestClient, visible: TheVisible, name: AssetName, limit: Limit = 50, cursor: Cursor = None
) -> Page[AssetEventResource]:
    """The events of an asset, newest first; the source of one is null, too, if its DAG cannot be seen."""
    before = decode_cursor(cursor, tuple[datetime, int])
    await asset_queries.get_asset(request_client.db, name, now=request_client.clock.now(), seen=visible.dags)
    rows = await asset_queries.events_of(request_client.db, name=name, before=before, limit=limit + 1)
    shown = [row if visible.sees(row.dag_id) else replace(row, **_NO_SOURCE) for row in reversed(rows)]
    return page_of(AssetEventResource, shown, limit, lambda row: (row.timestamp, row.id))


@router.post("/asset-events", status_code=201, response_model=Emitted, responses=ACCEPTED)
@router.post("/assets/{name}/events", status_code=201, response_model=Emitted, include_in_schema=False)
@allow(Role.OPERATOR, RoleScope.SEEN)
async def emit(sender: TheSender, visible: TheVisible, name: AssetName, event: NewEvent) -> Response:
    """Emit an event, which triggers the DAGs that wait for the asset: needs the role operator for all of them."""
    await _check_emission(sender.client, visible, name)
    return await sender.send(request_of(EmitAsset, event, name=name), None, Emitted.model_validate, status=201)


async def _check_emission(request_client: RequestClient, visible: Visible, name: str) -> None:
    if visible.person.role >= Role.OPERATOR:
        return
    await asset_queries.get_asset(request_client.db, name, now=request_client.clock.now(), seen=visible.dags)
    asset = await asset_queries.get_asset(request_client.db, name, now=request_client.clock.now())
    for dag_id in asset.consumers or asset.producers:
        if not await visible.may(dag_id, Role.OPERATOR):
            raise Problem(403, "role-too-low", "An event of this asset concerns DAGs for which you are not operator.")
