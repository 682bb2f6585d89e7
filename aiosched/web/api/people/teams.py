"""Teams: the folders whose DAG files are theirs. Their people have grants, see users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from pydantic import Field

from aiosched.db.people import teams as stored_teams
from aiosched.db.people.teams import StoredTeam
from aiosched.web.api.base.models import Body, Instant, Resource
from aiosched.web.api.base.paging import Cursor, Limit, Page, decode_cursor, page_of
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.auth.visibility import TheVisible
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.requests.seen_rows import first_seen

router: APIRouter = APIRouter(tags=["Users"])

_PRINTABLE = r"^[^\x00-\x1f]*$"
TeamName = Annotated[str, Path(min_length=1, max_length=250, pattern=_PRINTABLE)]
FolderName = Annotated[str, Field(max_length=500, pattern=_PRINTABLE)]


class TeamResource(Resource):
    """A team. Its folders are paths below the DAGs folder (empty: all of it) or, as `bundle:path`, of a bundle.

    `dags` is the number of its DAGs that are not stale.
    """

    name: str
    description: str | None
    folders: list[str]
    dags: int
    created_at: Instant


class NewTeam(Body):
    """A team to create, with its folders."""

    name: Annotated[str, Field(min_length=1, max_length=250, pattern=_PRINTABLE)]
    description: Annotated[str | None, Field(max_length=1000, pattern=_PRINTABLE)] = None
    folders: Annotated[list[FolderName], Field(max_length=100)] = []


class NewFolder(Body):
    """A folder to give to a team."""

    folder: FolderName


@router.get("/teams")
@allow(Role.VIEWER, RoleScope.SEEN)
async def list_teams(
    request_client: TheRequestClient, visible: TheVisible, limit: Limit = 100, cursor: Cursor = None
) -> Page[TeamResource]:
    """Teams by name: those of which one may see something."""

    async def read(after: str, limit: int) -> Sequence[StoredTeam]:
        return await stored_teams.list_teams(request_client.db, after=after, limit=limit)

    async def seen(rows: Sequence[StoredTeam]) -> Sequence[StoredTeam]:
        return [row for row in rows if visible.sees_team(row.name)]

    after = decode_cursor(cursor, str) or ""
    rows = await first_seen(read, seen, lambda row: row.name, after=after, limit=limit + 1)
    return page_of(TeamResource, rows, limit, lambda row: row.name)


@router.post("/teams", status_code=201)
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def create_team(request_client: TheRequestClient, body: NewTeam) -> TeamResource:
    """Create a team. The DAGs of its folders become its own at once."""
    made = await stored_teams.create_team(request_client.db, body.name, body.description, body.folders)
    return TeamResource.model_validate(made)


@router.delete("/teams/{team}", status_code=204)
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def delete_team(request_client: TheRequestClient, team: TeamName) -> Response:
    """Delete a team. Its DAGs stay and belong to nobody; refused while it has pools, variables or connections."""
    await stored_teams.delete_team(request_client.db, team)
    return Response(status_code=204)


@router.post("/teams/{team}/folders", status_code=201)
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def add_team_folder(request_client: TheRequestClient, team: TeamName, body: NewFolder) -> TeamResource:
    """Give a team the DAG files of a folder. Of two folders that hold a file, the longer one decides."""
    await stored_teams.add_folder(request_client.db, team, body.folder)
    return TeamResource.model_validate(await stored_teams.get_team(request_client.db, team))


@router.delete("/teams/{team}/folders")
@allow(Role.ADMIN, RoleScope.EVERYWHERE)
async def remove_team_folder(
    request_client: TheRequestClient, team: TeamName, folder: Annotated[str, Query(max_length=500, pattern=_PRINTABLE)]
) -> TeamResource:
    """Take a folder from a team."""
    await stored_teams.remove_folder(request_client.db, team, folder)
    return TeamResource.model_validate(await stored_teams.get_team(request_client.db, team))
