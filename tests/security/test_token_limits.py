"""Tokens end, may be told to read only, and belong to people or to service accounts, who cannot log in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import Settings, WebSettings
from aiosched.db.people import accounts
from aiosched.db.server.engine import Database
from aiosched.errors import Refused
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_token, new_token
from aiosched.web.requests.request_client import RequestClient
from tests.cli.conftest import Cli
from tests.web.conftest import browser, guarded, web_db  # noqa: F401  fixtures
from tests.web.logins import PASSWORD, client_of, log_in
from tests.web.walks import requests_of


@pytest.mark.parametrize(("days", "status"), [(365, 201), (365.1, 409), (3650, 409), (None, 409), (1, 201)])
async def test_a_token_lasts_no_longer_than_the_limit(
    browser: httpx2.AsyncClient,  # noqa: F811
    days: float | None,
    status: int,
) -> None:
    await log_in(browser, "viewer")

    answer = await browser.post("tokens", json={"label": "ci", "days": days})

    assert answer.status_code == status
    if status == 409:
        assert "at most 365 days (web.max_token_days)" in answer.json()["detail"]


async def test_without_a_limit_a_token_may_last_for_ever(db: Database, guarded: FastAPI) -> None:  # noqa: F811
    app = make_app(RequestClient(db, Settings(web=WebSettings(auth="password", max_token_days=0))))
    async with client_of(app) as person:
        await log_in(person, "viewer")
        answer = await person.post("tokens", json={"label": "ci", "days": None})

    assert answer.json()["facts"]["expires_at"] is None


async def test_tokens_of_before_stay_and_show_that_they_never_end(
    db: Database,
    browser: httpx2.AsyncClient,  # noqa: F811
) -> None:
    token = new_token()
    await accounts.create_token(db, "viewer", "old", hash_token(token), "viewer", None)
    await log_in(browser, "viewer")
    (shown,) = (await browser.get("tokens")).json()["items"]
    browser.cookies.clear()

    assert shown["expires_at"] is None
    assert (await browser.get("me", headers={"Authorization": f"Bearer {token}"})).status_code == 200


async def test_a_token_that_only_reads_changes_nothing_on_any_route(db: Database, guarded: FastAPI) -> None:  # noqa: F811
    token = new_token()
    expires = datetime.now(UTC) + timedelta(days=1)
    await accounts.create_token(db, "admin", "reports", hash_token(token), "admin", expires, read_only=True)
    wrong, asked = [], 0
    async with client_of(guarded) as program:
        program.headers["Authorization"] = f"Bearer {token}"
        for method, path in requests_of(guarded):
            if path.rpartition("/")[2] in ("login", "link", "logout", "stream") or not path.startswith("/api/v1/"):
                continue
            answer = await program.request(
                method, f"https://aiosched.example{path}", json={} if method != "GET" else None
            )
            asked += 1
            refused = answer.status_code == 403 and answer.json()["code"] == "read-only-token"
            if refused != (method != "GET"):
                wrong.append(f"{method} {path}: {answer.status_code}")

    assert wrong == []
    assert asked > 80


async def test_a_service_account_only_has_tokens(
    db: Database,
    browser: httpx2.AsyncClient,  # noqa: F811
    guarded: FastAPI,  # noqa: F811
) -> None:
    await log_in(browser, "admin")
    created = await browser.post("users", json={"name": "robot", "role": "operator", "kind": "service"})
    with_password = await browser.post(
        "users", json={"name": "r2", "role": "viewer", "kind": "service", "password": PASSWORD}
    )
    too_much = await browser.post("tokens", json={"label": "ci", "role": "admin", "owner": "robot"})
    made = (await browser.post("tokens", json={"label": "ci", "role": "operator", "owner": "robot"})).json()
    changed = await browser.patch("users/robot", json={"password": PASSWORD})

    async with client_of(guarded) as program:
        logins = [await log_in(program, "robot", password) for password in ("", PASSWORD)]
        program.headers["Authorization"] = f"Bearer {made['token']}"
        me = (await program.get("me")).json()
        more = await program.post("tokens", json={"label": "more"})
        await browser.delete("users/robot")
        after = await program.get("me")

    assert created.json()["kind"] == "service"
    assert [answer.status_code for answer in (with_password, too_much, changed)] == [409, 409, 409]
    assert [login.status_code for login in logins] == [401, 401]
    assert (me["name"], me["role"], more.status_code, after.status_code) == ("robot", "operator", 403, 401)


async def test_nobody_makes_tokens_of_other_people(browser: httpx2.AsyncClient) -> None:  # noqa: F811
    await log_in(browser, "operator")
    by_operator = await browser.post("tokens", json={"label": "x", "owner": "admin"})
    await log_in(browser, "admin")
    by_admin = await browser.post("tokens", json={"label": "x", "owner": "viewer"})
    unknown = await browser.post("tokens", json={"label": "x", "owner": "nobody"})

    assert [answer.status_code for answer in (by_operator, by_admin, unknown)] == [403, 409, 404]


async def test_a_service_account_is_not_the_last_administrator(db: Database) -> None:
    await accounts.create_user(db, "ann", "admin", "hash")
    await accounts.create_user(db, "robot", "admin", None, kind="service")

    with pytest.raises(Refused, match="last administrator"):
        await accounts.delete_user(db, "ann")
    await accounts.delete_user(db, "robot")


def test_the_command_line_has_the_same_limits(dsn: str, tmp_path: Path) -> None:
    cli = Cli(dsn, tmp_path)
    cli("users", "create", "robot", "--role", "operator", "--service")
    refused = cli("tokens", "create", "robot", "--days", "0", code=4)
    cli("tokens", "create", "robot", "--read-only", "--days", "30")
    password = cli("users", "password", "robot", input=f"{PASSWORD}\n", code=4)

    assert "web.max_token_days" in refused.stderr
    assert "has no password" in password.stderr
    assert cli.json("users", "list")[0]["kind"] == "service"
    assert [(token["owner"], token["read_only"]) for token in cli.json("tokens", "list")] == [("robot", True)]
