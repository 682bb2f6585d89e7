"""Views of lists that are shared with a team, or with everybody: who sees them, who changes them, and two at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import Settings, WebSettings
from aiosched.core.access.grants import RoleGrant
from aiosched.db.access import grants
from aiosched.db.people import accounts, teams
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_token, new_token
from aiosched.web.requests.request_client import RequestClient

VIEW: dict[str, Any] = {"page": "runs", "name": "late", "team": "sales", "query": "state=failed"}


class People:
    """Clients of people, each with one grant."""

    def __init__(self, app: FastAPI, db: Database) -> None:
        self.app, self.db = app, db

    @asynccontextmanager
    async def client(self, name: str, *held: str) -> AsyncIterator[httpx2.AsyncClient]:
        await accounts.create_user(self.db, name, "none", None, kind="service")
        for grant in held:
            parsed = RoleGrant.parse(grant)
            if "@" in grant:
                await grants.add_grant(self.db, name, parsed)
            else:
                await accounts.change_user(self.db, name, role=grant)
        token = new_token()
        await accounts.create_token(self.db, name, "test", hash_token(token), "admin", None)
        transport, headers = httpx2.ASGITransport(app=self.app), {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(transport=transport, base_url="https://x/api/v1/", headers=headers) as client:
            yield client


@pytest.fixture
async def people(db: Database, tmp_path: Path) -> People:
    settings = Settings(web=WebSettings(auth="password"))
    settings.core.home = tmp_path
    for team in ("sales", "research"):
        await teams.create_team(db, team)
    return People(make_app(RequestClient(db, settings)), db)


async def names(client: httpx2.AsyncClient, **params: Any) -> list[str]:
    return [view["name"] for view in (await client.get("views", params=params)).json()["items"]]


async def test_a_view_is_seen_by_its_team_and_changed_by_its_editors(people: People) -> None:
    async with (
        people.client("ed", "editor@team:sales") as editor,
        people.client("vic", "viewer@team:sales") as viewer,
        people.client("eve", "editor@team:research") as other,
    ):
        made = (await editor.post("views", json=VIEW)).json()
        place = f"views/{made['id']}"
        for client, status in ((viewer, 403), (other, 404), (editor, 200)):
            changed = await client.put(place, json={"name": "late", "query": "state=queued"})
            assert changed.status_code == status, changed.text
        denied = [(await client.post("views", json=VIEW)).status_code for client in (viewer, other)]
        deleted = [(await client.delete(place)).status_code for client in (viewer, other)]
        seen = [await names(client) for client in (editor, viewer, other)]
        one = [(await client.get(place)).status_code for client in (editor, viewer, other)]

        assert (denied, deleted) == ([403, 404], [403, 404])
        assert (seen, one) == ([["late"], ["late"], []], [200, 200, 404])
        assert (await editor.get(place)).json()["query"] == "state=queued"
        assert (await editor.get(place)).json()["changed_by"] == "api:ed"
        assert (await editor.delete(place)).status_code == 204
        assert await names(viewer) == []


async def test_a_view_for_everybody_needs_the_role_everywhere(people: People) -> None:
    everybody = {**VIEW, "team": None}
    async with (
        people.client("ed", "editor@team:sales") as of_team,
        people.client("boss", "editor") as editor,
        people.client("eve", "viewer@team:research") as other,
    ):
        denied = await of_team.post("views", json=everybody)
        made = await editor.post("views", json=everybody)

        assert (denied.status_code, made.status_code) == (403, 201)
        assert await names(other) == await names(of_team) == ["late"]
        assert await names(other, page="dags") == []
        assert (await of_team.delete(f"views/{made.json()['id']}")).status_code == 403


async def test_the_name_of_a_view_tells_nothing_of_other_teams_and_is_given_once_in_each(people: People) -> None:
    async with people.client("boss", "admin") as boss, people.client("eve", "editor@team:research") as other:
        answers = await asyncio.gather(*(boss.post("views", json=VIEW) for _ in range(4)))
        again = await asyncio.gather(*(boss.post("views", json={**VIEW, "team": None}) for _ in range(4)))
        theirs = await other.post("views", json={**VIEW, "team": "research"})
        elsewhere = await boss.post("views", json={**VIEW, "page": "dags"})
        unknown = await boss.post("views", json={**VIEW, "team": "nobody"})

        assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
        assert sorted(answer.status_code for answer in again) == [201, 409, 409, 409]
        assert (theirs.status_code, elsewhere.status_code, unknown.status_code) == (201, 201, 404)
        renamed = await boss.put(f"views/{theirs.json()['id']}", json={"name": "late", "query": "q"})
        assert renamed.status_code == 200


async def test_of_two_editors_one_changes_it_and_what_was_removed_beneath_is_gone(people: People) -> None:
    async with people.client("boss", "admin") as boss:
        made = (await boss.post("views", json=VIEW)).json()
        place, read = f"views/{made['id']}", {"If-Match": f'"{made["etag"]}"'}
        answers = await asyncio.gather(
            *(boss.put(place, json={"name": "late", "query": f"q={n}"}, headers=read) for n in range(4))
        )
        assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412]
        assert any("The view 'late' was changed by api:boss at" in answer.text for answer in answers)

        assert (await boss.delete(place, headers=read)).status_code == 412
        await boss.delete(place)

        assert (await boss.put(place, json={"name": "late", "query": "q"}, headers=read)).status_code == 404


async def test_views_go_with_their_team(people: People, db: Database) -> None:
    async with people.client("boss", "admin") as boss:
        await boss.post("views", json=VIEW)
        await teams.delete_team(db, "sales")

        assert await names(boss) == []


@pytest.mark.parametrize(
    "change", [{"query": ""}, {"query": "a\nb"}, {"name": ""}, {"page": "elsewhere"}, {"team": ""}]
)
async def test_what_is_no_view_is_refused(people: People, change: dict[str, str]) -> None:
    async with people.client("boss", "admin") as boss:
        assert (await boss.post("views", json={**VIEW, **change})).status_code == 422
