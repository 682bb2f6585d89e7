"""Who may give a variable, a connection or a pool to a team, and take it from one: an editor of both sides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from aiosched.config import SecretsSettings, Settings, WebSettings
from aiosched.core.access.grants import RoleGrant
from aiosched.db.access import grants
from aiosched.db.crypto.keyring import new_key
from aiosched.db.people import accounts
from aiosched.db.people import teams as stored_teams
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_token, new_token
from aiosched.web.requests.request_client import RequestClient

THINGS = {
    "variables": {"value": "x"},
    "connections": {"conn_type": "http", "password": "x"},
    "pools": {"slots": 1},
}


@pytest.fixture
async def members(db: Database) -> AsyncIterator[dict[str, httpx2.AsyncClient]]:
    """Two teams, an editor of one of them, an editor everywhere; they send tokens."""
    for team in ("ours", "theirs"):
        await stored_teams.create_team(db, team)
    settings = Settings(web=WebSettings(auth="password"), secrets=SecretsSettings(fernet_keys=new_key()))
    transport, clients = httpx2.ASGITransport(app=make_app(RequestClient(db, settings))), {}
    for name, grant in (("ours", "editor@team:ours"), ("everywhere", "editor")):
        await accounts.create_user(db, name, "none", "hash")
        await grants.add_grant(db, name, RoleGrant.parse(grant))
        token = new_token()
        await accounts.create_token(db, name, "test", hash_token(token), "admin", None)
        clients[name] = httpx2.AsyncClient(
            transport=transport, base_url="https://x/api/v1/", headers={"Authorization": f"Bearer {token}"}
        )
    yield clients
    for client in clients.values():
        await client.aclose()


async def put(client: httpx2.AsyncClient, path: str, name: str, **more: Any) -> int:
    return (await client.put(f"{path}/{name}", json={**THINGS[path], **more})).status_code


async def team_of(client: httpx2.AsyncClient, path: str, name: str) -> Any:
    items = (await client.get(path)).json()["items"]
    return next(one["team"] for one in items if name in (one.get("key"), one.get("conn_id"), one.get("name")))


@pytest.mark.parametrize("path", THINGS)
async def test_an_editor_of_a_team_creates_and_changes_what_belongs_to_it(
    members: dict[str, httpx2.AsyncClient], path: str
) -> None:
    created = await put(members["ours"], path, "own", team="ours")
    changed = await put(members["ours"], path, "own")

    assert (created, changed) == (200, 200)
    assert await team_of(members["ours"], path, "own") == "ours"


@pytest.mark.parametrize("path", THINGS)
async def test_an_editor_of_a_team_gives_nothing_to_others_and_takes_nothing(
    members: dict[str, httpx2.AsyncClient], path: str
) -> None:
    ours, everywhere = members["ours"], members["everywhere"]
    await put(ours, path, "own", team="ours")
    await put(everywhere, path, "common")
    await put(everywhere, path, "foreign", team="theirs")

    answers = {
        "new for all": await put(ours, path, "new"),
        "new for others": await put(ours, path, "new", team="theirs"),
        "own to others": await put(ours, path, "own", team="theirs"),
        "own to all": await put(ours, path, "own", team=""),
        "common to own": await put(ours, path, "common", team="ours"),
        "foreign to own": await put(ours, path, "foreign", team="ours"),
        "for a team that does not exist": await put(ours, path, "new", team="nobody"),
    }

    assert answers.pop("foreign to own") == 404
    assert set(answers.values()) == {403}, answers
    teams = [await team_of(everywhere, path, name) for name in ("own", "common", "foreign")]
    assert teams == ["ours", None, "theirs"]


@pytest.mark.parametrize("path", THINGS)
async def test_an_editor_everywhere_moves_things_between_teams(
    members: dict[str, httpx2.AsyncClient], path: str
) -> None:
    everywhere, found = members["everywhere"], []
    for team in ("ours", "theirs", "", "ours"):
        assert await put(everywhere, path, "moved", team=team) == 200
        found.append(await team_of(everywhere, path, "moved"))

    assert found == ["ours", "theirs", None, "ours"]
    assert await put(everywhere, path, "moved", team="nobody") == 404
