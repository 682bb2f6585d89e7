"""A site that lets its own name lead to a server (DNS rebinding) reads and changes nothing, on any route."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.cli.operation.doctor import _host_names
from aiosched.cli.serve.serve import _warn_of_host_names
from aiosched.config import Settings, WebSettings
from aiosched.db.people import accounts
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_password
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server.host_names import names_answered
from tests.web.logins import PASSWORD
from tests.web.walks import requests_of

OPEN = {"auth": "none", "host": "0.0.0.0"}
LOCAL = {"auth": "none", "host": "127.0.0.1"}
GUARDED = {"auth": "password", "host": "0.0.0.0"}
FOREIGN = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.7.evil.example", "2130706433")
MALFORMED = (
    "",
    ":80",
    "127.0.0.1:80@evil.example",
    "localhost:x.evil.example",
    "[::1].evil.example",
    "[::1",
    "10.0.0.7:a",
)
OWN = ("localhost", "LOCALHOST:8484", "127.0.0.1:8484", "[::1]:8484", "[::1]")
ADDRESSES = ("10.0.0.7", "10.0.0.7:8484", "192.0.2.1:", "[2001:db8::1]:8484")


@pytest.mark.parametrize(
    ("web", "answered", "refused"),
    [
        ({}, OWN, (*ADDRESSES, *FOREIGN, *MALFORMED)),
        (LOCAL, OWN, (*ADDRESSES, *FOREIGN, *MALFORMED)),
        ({**LOCAL, "allowed_hosts": "flows.example"}, ("flows.example:443", *OWN), (*ADDRESSES, *FOREIGN)),
        (OPEN, (*OWN, *ADDRESSES, "this-machine:8484"), (*FOREIGN, *MALFORMED, "web", "flows.example")),
        (
            {**OPEN, "allowed_hosts": "web, Flows.Example"},
            ("web:1", "flows.EXAMPLE", *ADDRESSES),
            (*FOREIGN, *MALFORMED),
        ),
        ({**OPEN, "base_url": "https://Flows.example/x"}, ("flows.example", *ADDRESSES), (*FOREIGN, *MALFORMED)),
        (GUARDED, (*OWN, *ADDRESSES, *FOREIGN), ()),
        ({**GUARDED, "base_url": "https://flows.example"}, ("flows.example", "web", *ADDRESSES), ()),
        (
            {**GUARDED, "allowed_hosts": "a.example"},
            ("a.example", *OWN, *ADDRESSES),
            (*FOREIGN, *MALFORMED, "b.example"),
        ),
    ],
    ids=repr,
)
def test_which_names_are_answered(
    monkeypatch: pytest.MonkeyPatch, web: dict[str, Any], answered: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "This-Machine")
    settings = WebSettings(**web)
    names = names_answered(settings, without_login=settings.auth in (None, "none"))

    assert [host for host in answered if not names.include(host)] == []
    assert [host for host in refused if names.include(host)] == []


def browser_of(app: FastAPI, host: str) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url=f"http://{host}")


def app_of(db: Database, **web: Any) -> FastAPI:
    settings = Settings(web=WebSettings(airflow_api=True, **web))
    return make_app(RequestClient(db, settings), listens=True)


@pytest.mark.parametrize("web", [OPEN, LOCAL, {}, {**GUARDED, "allowed_hosts": "flows.example"}], ids=repr)
async def test_no_route_answers_to_a_foreign_name(db: Database, web: dict[str, Any]) -> None:
    app = app_of(db, **web)
    found = requests_of(app)
    places = {path for _, path in found}
    assert {"/livez", "/readyz", "/health", "/metrics", "/api/v1/stream", "/api/v1/login", "/auth/token"} <= places
    wrong = []
    async with browser_of(app, "evil.example") as browser:
        for method, path in [*found, ("GET", "/"), ("GET", "/dags/x"), ("GET", "/ui/app.js")]:
            answer = await browser.request(method, path)
            if (answer.status_code, answer.text and answer.json()["code"]) not in ((421, "wrong-host"), (421, "")):
                wrong.append(f"{method} {path}: {answer.status_code} {answer.text[:100]}")

    assert wrong == []


async def test_with_a_login_a_foreign_name_is_told_no_more_than_anybody(db: Database) -> None:
    await accounts.create_user(db, "admin", "admin", await hash_password(PASSWORD))
    app, told = app_of(db, **GUARDED), []
    async with browser_of(app, "evil.example") as browser:
        for method, path in requests_of(app):
            if path == "/api/v1/stream":
                continue
            answer = await browser.request(method, path, json={} if method not in ("GET", "HEAD") else None)
            if answer.status_code not in (401, 403, 405):
                told.append(path)

    assert set(told) <= {
        "/", "/livez", "/readyz", "/health", "/metrics", "/api/v1/login", "/api/v1/login/link", "/api/v1/login/oidc",
        "/api/v1/login/callback", "/api/v1/logout", "/auth/token", "/api/v2/version", "/api/v2/monitor/health",
        "/path", "/ui/path", "/icon.svg", "/docs", "/docs/path",
    }  # fmt: skip


@pytest.mark.parametrize("web", [OPEN, LOCAL, GUARDED], ids=repr)
async def test_the_worker_api_says_nothing_without_a_token_under_any_name(db: Database, web: dict[str, Any]) -> None:
    async with browser_of(app_of(db, **web), "evil.example") as site:
        plain = await site.post("/worker/v1/starts", content=b"")
        browser = await site.post("/worker/v1/starts", content=b"", headers={"Sec-Fetch-Site": "same-origin"})

    assert (plain.status_code, browser.status_code) == (401, 403)


async def test_probes_by_address_are_answered_where_hosts_are_named(db: Database) -> None:
    """Kubelet asks under the pod's address, the container's own check under that of loopback."""
    for address in ("10.1.2.3:8484", "127.0.0.1:8484", "[fd00::7]:8484"):
        async with browser_of(app_of(db, **GUARDED, allowed_hosts="flows.example"), address) as probe:
            assert ((await probe.get("/livez")).status_code, address) == (200, address)


async def test_there_are_no_websockets_under_any_name(db: Database) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    for path in ("/api/v1/stream", "/worker/v1/starts", "/"):
        scope = {"type": "websocket", "path": path, "headers": [(b"host", b"evil.example")], "query_string": b""}
        await app_of(db, **OPEN)(scope, receive, send)

    assert {message["type"] for message in sent} == {"websocket.close"}


@pytest.mark.parametrize(
    ("web", "said"),
    [
        ({}, None),
        (LOCAL, None),
        (OPEN, "addresses and names of this machine only"),
        (GUARDED, "any host name"),
        ({**GUARDED, "allowed_hosts": "flows.example"}, None),
        ({**OPEN, "allowed_hosts": "flows.example"}, None),
    ],
    ids=repr,
)
def test_the_start_and_doctor_say_which_names_are_answered(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, web: dict[str, Any], said: str | None
) -> None:
    settings = Settings(web=WebSettings(**web))
    with caplog.at_level(logging.WARNING):
        _warn_of_host_names(settings)
    found = _host_names(settings)

    assert (found is None, caplog.text == "") == (said is None, said is None)
    if said is not None and found is not None:
        assert said in found.text
        assert said in caplog.text
        assert "web.allowed_hosts" in caplog.text
        assert (found.status, "web.allowed_hosts" in (found.fix or "")) == ("warning", True)
