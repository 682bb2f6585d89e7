"""People of a team see nothing of another one, whatever they ask for, and act only where their role holds.

Every route of the application is asked; one that this test does not know fails it.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant

from aiosched.config import Settings, WebSettings
from aiosched.core.access.grants import RoleGrant
from aiosched.core.access.rights import PersonRights
from aiosched.db.access import grants
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people import accounts
from aiosched.db.people.secrets import SecretStore
from aiosched.db.server.engine import Database
from aiosched.db.statements import run_changes
from aiosched.web.airflow_api import answering, paging
from aiosched.web.airflow_api import pools as airflow_pools
from aiosched.web.airflow_api import secrets as airflow_secrets
from aiosched.web.app import make_app
from aiosched.web.auth import visibility
from aiosched.web.auth.access import Principal, RoleScope, role_of, rule_of
from aiosched.web.auth.known_dags import KnownDags
from aiosched.web.auth.passwords import hash_password, hash_token, new_token
from aiosched.web.requests import request_client
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.views import live
from tests.cli.records import insert
from tests.security.two_teams import (
    LESS,
    NUMBERED,
    OURS,
    ROLES,
    THEIRS,
    Asked,
    SeededTeam,
    add_members,
    all_routes,
    seed_team,
)
from tests.web.logins import PASSWORD

# They say nothing about a team to anybody, or do not end.
SAY_NOTHING: Final = frozenset({"/badges", "/openapi.json", "/stream"})
# Answers without a name of a team, even to those who see everything.
WITHOUT_NAMES: Final = frozenset(
    {
        "/me", "/metrics/summary", "/connection-types", "/settings", "/tokens", "/sessions", "/schedulers",
        "/dag-counts", "/figures", "/pools/{name}/figures",
        "/dags/{dag_id}/next", "/dags/{dag_id}/calendar", "/dags/{dag_id}/versions",
        "/dags/{dag_id}/versions/{number}/diff/{other}", "/dags/{dag_id}/runs/{run}/tasks/{task_id}/rendered",
        "/dags/{dag_id}/runs/{run}/tasks/{task_id}/events",
    }
)  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings(web=WebSettings(auth="password", airflow_api=True))
    found.core.home = tmp_path
    found.secrets.fernet_keys = new_key()
    return found


@pytest.fixture
async def teams(db: Database, settings: Settings) -> tuple[SeededTeam, SeededTeam]:
    store = SecretStore(db, Keyring.of(settings))
    ours, theirs = await seed_team(db, store, OURS), await seed_team(db, store, THEIRS)
    await add_members(db, ours)
    return ours, theirs


@pytest.fixture
def app(db: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    monkeypatch.setattr(request_client, "ANSWER_SECONDS", 0.0)  # no scheduler runs here
    monkeypatch.setattr(answering, "PATIENCE", 0.0)
    return make_app(RequestClient(db, settings))


class Client:
    """Asks over ASGI, with a token of each person."""

    def __init__(self, app: FastAPI, db: Database) -> None:
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        self._http = httpx2.AsyncClient(transport=transport, base_url="https://aiosched.example")
        self._db, self._tokens = db, dict[str, str]()

    async def ask(
        self, person: str, asked: Asked, team: SeededTeam, *, query: dict[str, Any] | None = None
    ) -> httpx2.Response:
        """The answer to a request with the names of a team."""
        found = team.query(asked.path) if query is None else query
        return await self.send(person, asked.method, asked.prefix + team.in_path(asked.path), params=found,
                               json=team.body(asked.method, asked.path))  # fmt: skip

    async def send(self, person: str, method: str, path: str, **options: Any) -> httpx2.Response:
        if person not in self._tokens:
            self._tokens[person] = token = new_token()
            role = "admin" if person == "boss" else person
            await accounts.create_token(self._db, person, "test", hash_token(token), role, None)
        headers = {"Authorization": f"Bearer {self._tokens[person]}"}
        return await self._http.request(method, path, headers=headers, **options)


@pytest.fixture
async def client(app: FastAPI, db: Database, teams: object) -> Client:
    return Client(app, db)


def needs_a_login(asked: Asked) -> bool:
    rule = rule_of(asked.route.endpoint)
    return rule is not None and rule.scope is not None and asked.path not in SAY_NOTHING


def test_every_route_says_where_its_role_is_needed(app: FastAPI) -> None:
    assert [str(asked) for asked in all_routes(app) if rule_of(asked.route.endpoint) is None] == []


def test_every_route_that_filters_asks_what_its_sender_may_see(app: FastAPI) -> None:
    def asks(dependant: Dependant) -> bool:
        return dependant.call is visibility._visible or any(map(asks, dependant.dependencies))

    blind = [
        str(asked)
        for asked in all_routes(app)
        if (rule := rule_of(asked.route.endpoint)) and rule.scope is RoleScope.SEEN and not asks(asked.route.dependant)
    ]

    assert blind == []


@pytest.mark.parametrize("role", [*(pytest.param(role, marks=pytest.mark.slow) for role in LESS), "admin"])
async def test_no_answer_names_what_another_team_has(
    app: FastAPI, client: Client, teams: tuple[SeededTeam, SeededTeam], role: str
) -> None:
    ours, theirs = teams
    told = []
    everything = await client.send(role, "GET", "/api/v2/dags/~/dagRuns")
    assert OURS in everything.text
    assert THEIRS not in everything.text
    for asked in filter(needs_a_login, all_routes(app)):
        asks = [await client.ask(role, asked, theirs)]
        if asked.method == "GET":
            asks += [await client.ask(role, asked, ours), await client.ask(role, asked, ours, query={})]
        assert all(answer.status_code != 401 for answer in asks)
        told += [f"{asked}: {answer.text[:200]}" for answer in asks if THEIRS in answer.text + str(answer.headers)]

    assert told == []


def told_by_cursor(cursor: str) -> str:
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()


@pytest.mark.parametrize("own", [0, 1])
async def test_no_page_or_cursor_tells_of_what_cannot_be_seen(
    db: Database, app: FastAPI, client: Client, teams: tuple[SeededTeam, SeededTeam], own: int
) -> None:
    """Each page but the last is full, and cursors, which are no secrets, name what was shown."""
    team, foreign = teams[own], teams[1 - own].marker
    await accounts.create_user(db, "eve", "none", None, kind="service")
    await grants.add_grant(db, "eve", RoleGrant.parse(f"viewer@team:{team.of('team')}"))
    token = new_token()
    await accounts.create_token(db, "eve", "test", hash_token(token), "admin", None)
    client._tokens["eve"] = token
    told, paged = [], 0
    for asked in filter(needs_a_login, all_routes(app)):
        parameters = {parameter.name for parameter in asked.route.dependant.query_params}
        if asked.method != "GET" or not {"limit", "cursor"} <= parameters or "dag_id" in asked.path:
            continue
        paged += 1
        query: dict[str, Any] = team.query(asked.path) | {"limit": 1}
        for _ in range(20):
            answer = await client.send("eve", "GET", asked.prefix + team.in_path(asked.path), params=query)
            found = answer.json()
            if (cursor := found.get("next_cursor")) is None:
                break
            if foreign in told_by_cursor(cursor) or not found["items"]:
                told.append(f"{asked}: {answer.text[:100]} {told_by_cursor(cursor)}")
            query["cursor"] = cursor

    assert told == []
    assert paged > 10


@pytest.mark.parametrize("kind", ["variables", "connections", "pools"])
async def test_a_numbered_list_is_not_too_long_by_what_cannot_be_seen(
    client: Client, teams: tuple[SeededTeam, SeededTeam], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    theirs = await client.send("boss", "GET", f"/api/v2/{kind}")
    ours = await client.send("editor", "GET", f"/api/v2/{kind}")
    number = ours.json()["total_entries"]
    assert number < theirs.json()["total_entries"]
    for module in (paging, airflow_pools, airflow_secrets):
        monkeypatch.setattr(module, "MOST", number)

    again = await client.send("editor", "GET", f"/api/v2/{kind}", params={"limit": 1})

    assert (again.status_code, again.json().get("total_entries")) == (200, number)


async def test_the_same_answers_name_a_team_to_those_who_may_see_it(
    app: FastAPI, client: Client, teams: tuple[SeededTeam, SeededTeam]
) -> None:
    ours, theirs = teams
    silent = []
    for asked in filter(needs_a_login, all_routes(app)):
        if asked.method != "GET" or asked.path in WITHOUT_NAMES:
            continue
        seen = [("boss", theirs), ("admin", ours)]
        for person, team in seen[: 1 if rule_of(asked.route.endpoint).scope is RoleScope.EVERYWHERE else 2]:  # type: ignore[union-attr]
            answer = await client.ask(person, asked, team)
            if answer.status_code != 200 or (team.marker not in answer.text and "logs/" not in asked.path):
                silent.append(f"{person} {asked}: {answer.status_code} {answer.text[:200]}")

    assert silent == []


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("role", ["operator", *sorted({*ROLES} - {"operator"})])
async def test_each_role_may_do_for_its_team_what_the_route_says_and_nothing_for_another(
    app: FastAPI, client: Client, teams: tuple[SeededTeam, SeededTeam], role: str
) -> None:
    ours, theirs = teams
    wrong = []
    for asked in sorted(filter(needs_a_login, all_routes(app)), key=lambda asked: asked.method == "DELETE"):
        rule = rule_of(asked.route.endpoint)
        assert rule is not None
        is_low = role_of(role) < rule.role or rule.scope is RoleScope.EVERYWHERE
        own = await client.ask(role, asked, ours)
        if ("role-too-low" in own.text) != is_low:
            wrong.append(f"{asked}: {own.status_code} {own.text[:200]}")
        if rule.scope is RoleScope.DAG or (rule.scope is RoleScope.SEEN and "{" in asked.path and not is_low):
            foreign = await client.ask(role, asked, theirs)
            if foreign.status_code != 404:
                wrong.append(f"{asked} of the other team: {foreign.status_code} {foreign.text[:200]}")

    assert wrong == []


async def test_what_does_not_exist_and_what_belongs_to_others_answer_the_same(
    app: FastAPI, client: Client, teams: tuple[SeededTeam, SeededTeam]
) -> None:
    nothing = SeededTeam("nothing", numbers=dict.fromkeys(NUMBERED, 1 << 40))
    different = []
    for asked in filter(needs_a_login, all_routes(app)):
        if "{" not in asked.path:
            continue
        answers = [await client.ask("admin", asked, team) for team in (teams[1], nothing)]
        codes = [(answer.status_code, answer.text.replace(str(1 << 40), "N")) for answer in answers]
        if codes[0][0] == 404 and "N" not in codes[1][1] and codes[0] != codes[1]:
            different.append(f"{asked}: {codes}")

    assert different == []


@pytest.mark.parametrize(
    ("role", "own", "status"), [("viewer", False, 403), ("viewer", True, 200), ("operator", False, 200)]
)
async def test_a_request_about_no_dag_is_withdrawn_by_its_sender_or_with_the_role_everywhere(
    db: Database, client: Client, teams: tuple[SeededTeam, SeededTeam], role: str, own: bool, status: int
) -> None:
    """The role operator for one team is not enough, however much is seen."""
    await accounts.create_user(db, "eve", role, await hash_password(PASSWORD))
    await grants.add_grant(db, "eve", RoleGrant.parse(f"operator@team:{teams[0].of('team')}"))
    token = new_token()
    await accounts.create_token(db, "eve", "test", hash_token(token), "admin", None)
    client._tokens["eve"] = token
    async with db.acquire() as conn:
        row = {"verb": "x", "args": {}, "requested_by": "api:eve" if own else "api:boss"}
        number = await insert(conn, "request", row, returning="id")

    answer = await client.send("eve", "POST", f"/api/v1/commands/{number}/withdraw")

    assert answer.status_code == status, answer.text
    state = (await client.send("boss", "GET", f"/api/v1/commands/{number}")).json()["state"]
    assert state == ("waiting" if status == 403 else "refused")


async def test_a_token_with_grants_sees_less_than_its_owner(
    db: Database, app: FastAPI, client: Client, teams: tuple[SeededTeam, SeededTeam]
) -> None:
    made = await client.send("boss", "POST", "/api/v1/tokens", json={"label": "l", "role": "admin"})
    token = new_token()
    limits = [RoleGrant.parse(f"operator@tag:{teams[0].of('tag')}")]
    await accounts.create_token(db, "boss", "test", hash_token(token), "admin", None, grants=limits)
    transport = httpx2.ASGITransport(app=app)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(transport=transport, base_url="https://x/api/v1/", headers=headers) as limited:
        dags = [dag["dag_id"] for dag in (await limited.get("dags")).json()["items"]]
        denied = [(await limited.get(path)).status_code for path in (f"dags/{teams[1].of('etl')}", "users")]

    assert made.status_code == 403  # by a token
    assert dags == [teams[0].of("etl")]
    assert denied == [404, 403]


async def test_an_author_lets_others_see_a_dag_and_nothing_else(
    db: Database, client: Client, teams: tuple[SeededTeam, SeededTeam]
) -> None:
    ours, theirs = teams
    shared = theirs.of("etl")
    control = json.dumps({ours.of("team"): "viewer"})
    await db.execute("UPDATE dag SET access_control = $1::json WHERE dag_id = $2", control, shared)

    seen = [dag["dag_id"] for dag in (await client.send("admin", "GET", "/api/v1/dags")).json()["items"]]
    paused = await client.send("admin", "PATCH", f"/api/v1/dags/{shared}", json={"is_paused": True})

    assert [dag_id for dag_id in seen if THEIRS in dag_id] == [shared]
    assert paused.status_code == 403


async def test_a_grant_that_is_taken_away_is_gone_with_the_next_request(
    db: Database, client: Client, teams: tuple[SeededTeam, SeededTeam]
) -> None:
    path = f"/api/v1/dags/{teams[0].of('etl')}"
    before = await client.send("viewer", "GET", path)

    await grants.remove_grant(db, "viewer", RoleGrant.parse(f"viewer@team:{teams[0].of('team')}"))

    assert (before.status_code, (await client.send("viewer", "GET", path)).status_code) == (200, 404)


async def test_a_stream_tells_only_of_the_own_team(
    db: Database, teams: tuple[SeededTeam, SeededTeam], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "SPREAD_SECONDS", 0.0)
    ours, theirs = teams
    member = Principal.with_rights("viewer", PersonRights((RoleGrant.parse(f"viewer@team:{ours.of('team')}"),)))
    hub, known = live.Hub(db), KnownDags(db)

    async def sees() -> Any:
        return await known.seen_by(member.rights)

    stream = hub.stream(frozenset({ours.run, theirs.run}), None, sees=sees)
    everything = hub.stream(frozenset({theirs.run}), None)
    for each in (stream, everything):
        assert await anext(each) == b"retry: 2000\n\n"
    await hub.listening.wait()
    async with db.acquire() as conn:
        await run_changes.publish_runs(conn, [theirs.run])
        await run_changes.publish_runs(conn, [ours.run])

    told: list[bytes] = []
    while f'"task","run":{ours.run}'.encode() not in b"".join(told):
        told.append(await anext(stream))
    seen_by_all = b""
    while f'"task","run":{theirs.run}'.encode() not in seen_by_all:
        seen_by_all += await anext(everything)
    hub.close()

    text = b"".join(told)
    assert THEIRS.encode() not in text
    assert f'"run":{theirs.run}'.encode() not in text
    assert OURS.encode() in text
    assert THEIRS.encode() in seen_by_all
