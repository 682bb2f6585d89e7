"""A page of another site changes nothing with the session of its visitor: not on any route, whatever it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import Settings, WebSettings
from aiosched.db.people import accounts
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_password
from aiosched.web.requests.request_client import RequestClient
from tests.web.logins import PASSWORD, client_of, log_in
from tests.web.walks import requests_of

HOST = "https://aiosched.example"
# A login and a logout need no session, so they have no token against forged requests.
WITHOUT_SESSION = {"/api/v1/login", "/api/v1/login/link", "/api/v1/logout", "/auth/token"}


@pytest.fixture
async def app(db: Database, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    await accounts.create_user(db, "admin", "admin", await hash_password(PASSWORD))
    web = WebSettings(auth="password", airflow_api=True, allowed_hosts="aiosched.example")
    return make_app(RequestClient(db, Settings(web=web)))


@pytest.fixture
async def victim(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """The browser of an administrator who is logged in, without what only our own page knows."""
    async with client_of(app) as browser:
        await log_in(browser, "admin")
        del browser.headers["X-CSRF-Token"]
        yield browser


def writes(app: FastAPI) -> list[tuple[str, str]]:
    """Every request that may change something."""
    found = [(method, path) for method, path in requests_of(app) if method not in ("GET", "HEAD", "OPTIONS")]
    assert {"/".join(path.split("/")[:3]) for _, path in found} == {"/api/v1", "/api/v2", "/auth/token"}
    return found


FORGED = {
    "no CSRF token": ({}, "csrf"),
    "an empty one": ({"X-CSRF-Token": ""}, "csrf"),
    "a guessed one": ({"X-CSRF-Token": "a" * 43}, "csrf"),
    "another site": ({"Origin": "https://evil.example"}, "cross-site"),
    "another port": ({"Origin": "https://aiosched.example:8443"}, "cross-site"),
    "a sandboxed page": ({"Origin": "null"}, "cross-site"),
    "cross-site": ({"Sec-Fetch-Site": "cross-site"}, "cross-site"),
    "same-site": ({"Sec-Fetch-Site": "same-site"}, "cross-site"),
    "another word": ({"Sec-Fetch-Site": "SAME-ORIGIN, none"}, "cross-site"),
    "another name": ({"Host": "evil.example"}, "wrong-host"),
    "no name": ({"Host": ""}, "wrong-host"),
}


async def test_no_route_changes_anything_for_another_site(app: FastAPI, victim: httpx2.AsyncClient) -> None:
    wrong, found = [], writes(app)
    for forged, (headers, code) in FORGED.items():
        for method, path in found:
            if code == "csrf" and path in WITHOUT_SESSION:
                continue
            answer = await victim.request(method, HOST + path, json={}, headers=headers)
            if answer.status_code not in (403, 421) or answer.json()["code"] != code:
                wrong.append(f"{forged}: {method} {path}: {answer.status_code} {answer.text[:100]}")
        if (await victim.get("me")).status_code != 200:
            wrong.append(f"{forged}: the victim is logged out")

    assert wrong == []


async def test_a_form_of_another_site_changes_nothing(app: FastAPI, victim: httpx2.AsyncClient) -> None:
    """A browser sends these without asking first, and an old one says nothing about where the page is from."""
    wrong, found = [], writes(app)
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        for method, path in found:
            if method == "POST" and path not in WITHOUT_SESSION:
                answer = await victim.post(HOST + path, content=b"{}", headers={"Content-Type": content_type})
                if answer.status_code != 403:
                    wrong.append(f"{content_type}: {path}: {answer.status_code}")

    assert wrong == []


async def test_the_token_of_another_session_is_no_token(app: FastAPI, victim: httpx2.AsyncClient) -> None:
    async with client_of(app) as attacker:
        theirs = (await log_in(attacker, "admin")).json()["csrf"]

    answer = await victim.post("tokens", json={"label": "x"}, headers={"X-CSRF-Token": theirs})

    assert (answer.status_code, answer.json()["code"]) == (403, "csrf")


async def test_a_page_of_another_site_logs_nobody_in(app: FastAPI) -> None:
    """Or a victim would work in the account of the attacker."""
    async with client_of(app) as browser:
        for path, body in (("login", {"name": "admin", "password": PASSWORD}), ("login/link", {"token": "x"})):
            for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
                answer = await browser.post(path, json=body, headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (403, "cross-site")
                assert "set-cookie" not in answer.headers


async def test_reading_changes_nothing(app: FastAPI, victim: httpx2.AsyncClient) -> None:
    """A link or a picture of another site sends the cookie: so no GET ends the session or starts anything."""
    for method, path in requests_of(app):
        if method == "GET" and path not in ("/api/v1/stream", "/api/v1/login/oidc", "/api/v1/login/callback"):
            await victim.get(HOST + path)
    assert (await victim.get("me")).status_code == 200
    assert (await victim.get("sessions")).json()["items"] != []
    assert (await victim.get("commands")).json()["items"] == []
