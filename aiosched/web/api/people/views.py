"""Named views of lists that are shared: of a team for its people, and of nobody for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import Field

from aiosched.db.people import views
from aiosched.db.people.views import StoredView
from aiosched.web.api.base.models import Body, Etag, Instant, Resource, Stored
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible, Visible
from aiosched.web.requests.condition import TheVersion
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.requests.seen_rows import first_seen
from aiosched.web.server.problems import Problem

router: APIRouter = APIRouter(tags=["Users"])

_PRINTABLE = r"^[^\x00-\x1f]*$"
Number = Annotated[int, Path(ge=1, lt=2**63)]
PageName = Literal["dags", "runs", "task-instances"]
ViewName = Annotated[str, Field(min_length=1, max_length=100, pattern=_PRINTABLE)]
Filters = Annotated[str, Field(min_length=1, max_length=4000, pattern=_PRINTABLE)]


class ViewResource(Resource):
    """A view of a list: `query` is that of its address in the web UI. `team` null: everybody sees it."""

    id: int
    page: Stored[PageName]
    name: str
    team: str | None
    query: str
    changed_at: Instant
    changed_by: str
    etag: Etag


class NewView(Body):
    """A view to share with a team, or (null) with everybody."""

    page: PageName
    name: ViewName
    team: Annotated[str | None, Field(min_length=1, max_length=250, pattern=_PRINTABLE)] = None
    query: Filters


class ViewChange(Body):
    """Another name and other filters."""

    name: ViewName
    query: Filters


@router.get("/views")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_views(
    request_client: TheRequestClient,
    visible: TheVisible,
    page: PageName | None = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[ViewResource]:
    """Shared views, oldest first: those of one's teams, and those for everybody."""

    async def read(after: int, limit: int) -> Sequence[StoredView]:
        return await views.list_views(request_client.db, page, after=after, limit=limit)

    async def seen(rows: Sequence[StoredView]) -> Sequence[StoredView]:
        return [row for row in rows if visible.sees_team(row.team)]

    after = decode_cursor(cursor, int) or 0
    rows = await first_seen(read, seen, lambda row: row.id, after=after, limit=limit + 1)
    return page_of(ViewResource, rows, limit, lambda row: row.id)


@router.get("/views/{number}")
@allow(Role.VIEWER, RoleScope.SEEN)
async def one_view(request_client: TheRequestClient, visible: TheVisible, number: Number) -> ViewResource:
    """One shared view."""
    return ViewResource.model_validate(await _found(request_client, visible, number, Role.VIEWER))


@router.post("/views", status_code=201)
@allow(Role.EDITOR, RoleScope.SEEN)
async def create_view(request_client: TheRequestClient, visible: TheVisible, body: NewView) -> ViewResource:
    """Share a view."""
    if not visible.sees_team(body.team):
        raise Problem(404, "not-found", "There is no such team among those that you may see.")
    visible.check_team(body.team, Role.EDITOR)
    made = await views.add_view(request_client.db, body.page, body.name, body.team, body.query)
    return ViewResource.model_validate(made)


@router.put("/views/{number}")
@allow(Role.EDITOR, RoleScope.SEEN)
async def change_view(
    request_client: TheRequestClient, visible: TheVisible, number: Number, body: ViewChange, existing: TheVersion
) -> ViewResource:
    """Change a shared view."""
    await _found(request_client, visible, number, Role.EDITOR)
    changed = await views.change_view(request_client.db, number, body.name, body.query, existing=existing)
    return ViewResource.model_validate(changed)


@router.delete("/views/{number}", status_code=204)
@allow(Role.EDITOR, RoleScope.SEEN)
async def delete_view(
    request_client: TheRequestClient, visible: TheVisible, number: Number, existing: TheVersion
) -> Response:
    """Remove a shared view."""
    await _found(request_client, visible, number, Role.EDITOR)
    await views.delete_view(request_client.db, number, existing=existing)
    return Response(status_code=204)


async def _found(client: TheRequestClient, visible: Visible, number: int, needed: Role) -> StoredView:
    """A view that the sender may see, with the role `needed` for its team. Raises NotFound; Problem 404 and 403."""
    view = await views.get_view(client.db, number)
    if not visible.sees_team(view.team):
        raise Problem(404, "not-found", f"There is no view {number}; it may have been removed.")
    visible.check_team(view.team, needed)
    return view
