"""What names and addresses may not do: lead elsewhere, add headers, leave the prefix."""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import Final

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import ConfigError, Settings, WebSettings, load_settings
from aiosched.db.people import accounts
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_password
from aiosched.web.requests import request_client as request_client_module
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server import uvicorn_server as server
from tests.cli.records import add_dag

# ---- leading elsewhere ----


LEADING: Final = (
    "//evil.example/",
    "//evil.example/%2e%2e/",
    "/\\evil.example/",
    "/api/v1/login/",
    "/api/v1/dags/",
    "/livez/",
    "/?next=https://evil.example/",
    "/api/v1//evil.example/..",
)


async def test_no_address_leads_elsewhere(app: FastAPI) -> None:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
        for method, path in itertools.product(("GET", "POST", "PUT", "DELETE"), LEADING):
            answer = await client.request(method, httpx2.URL("http://localhost", raw_path=path.encode()))

            assert "location" not in answer.headers, (method, path)
            assert not 300 <= answer.status_code < 400, (method, path)


# ---- headers ----


NAMED: Final = (
    "dags/{name}",
    "dags/{name}/runs/{name}",
    "dags/sales/runs/{name}",
    "dags/sales/runs/latest/tasks/{name}/logs/1",
    "pools/{name}",
    "assets/{name}",
    "dags?pattern={name}",
    "runs?search={name}",
    "stream?topic={name}",
)


async def test_a_name_adds_no_header(db: Database, api: httpx2.AsyncClient) -> None:
    await add_dag(db, "sales")

    for path in NAMED:
        answer = await api.get(path.format(name="a%0D%0AX-Evil:%201%0D%0A%0D%0A<script>"))

        assert "x-evil" not in answer.headers, path
        assert all("\r" not in value and "\n" not in value for value in answer.headers.values()), path
        assert answer.headers["content-type"] in ("application/json", "application/problem+json"), path


async def test_a_request_that_waits_is_found_by_its_number_alone(
    db: Database, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_client_module, "ANSWER_SECONDS", 0.01)
    await add_dag(db, "a:b+c~d")
    transport = httpx2.ASGITransport(app=app, root_path="/flows")

    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post("/api/v1/dags/a%3Ab%2Bc~d/runs", json={"run_id": "r\r\nX-Evil: 1"})
        fitting = await client.post("/api/v1/dags/a%3Ab%2Bc~d/runs", json={"run_id": "r"})

    assert "x-evil" not in answer.headers
    assert (fitting.status_code, fitting.headers["location"]) == (
        202,
        f"/flows/api/v1/commands/{fitting.json()['command']}",
    )


@pytest.mark.parametrize("value", ["1\r\nX-Evil: 1", 'W/"x", \r\n', "\x00"])
async def test_a_header_that_is_sent_is_not_sent_back(db: Database, app: FastAPI, value: str) -> None:
    await add_dag(db, "sales")
    messages: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        messages.append(message)

    headers = [(b"host", b"localhost")] + [
        (name, value.encode()) for name in (b"range", b"if-none-match", b"last-event-id")
    ]
    scope = {
        "type": "http", "method": "GET", "path": "/api/v1/dags/sales", "raw_path": b"/api/v1/dags/sales",
        "query_string": b"", "headers": headers, "root_path": "", "scheme": "http", "server": ("localhost", 80),
        "http_version": "1.1",
    }  # fmt: skip

    await app(scope, receive, send)  # type: ignore[arg-type]

    sent = messages[0]["headers"]
    assert isinstance(sent, list)
    assert all(b"\r" not in part and b"\0" not in part for header in sent for part in header)


# ---- the prefix ----


async def log_in(app: FastAPI, root_path: str, scheme: str) -> str:
    transport = httpx2.ASGITransport(app=app, root_path=root_path)
    async with httpx2.AsyncClient(transport=transport, base_url=f"{scheme}://flows.example") as client:
        answer = await client.post("/api/v1/login", json={"name": "ann", "password": "correct horse"})
    assert answer.status_code == 200, answer.text
    return answer.headers["set-cookie"]


@pytest.mark.parametrize(("root_path", "path"), [("", "/"), ("/flows", "/flows/"), ("/a/b", "/a/b/")])
async def test_a_cookie_goes_no_further_than_the_prefix(db: Database, root_path: str, path: str) -> None:
    """Over TLS browsers want it to be for the whole host, and it has a name of the prefix."""
    await accounts.create_user(db, "ann", "viewer", await hash_password("correct horse"))
    request_client = RequestClient(db, Settings(web=WebSettings(auth="password")))

    plain = await log_in(make_app(request_client), root_path, "http")
    cookie = await log_in(make_app(request_client), root_path, "https")

    facts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert f"path={path}" in {part.strip().lower() for part in plain.split(";")[1:]}
    assert cookie.startswith("__Host-")
    assert {"path=/", "httponly", "secure", "samesite=lax"} <= facts
    assert not any(fact.startswith("domain") for fact in facts)


async def test_a_server_behind_a_proxy_knows_its_prefix(db: Database) -> None:
    request_client = RequestClient(db, Settings(web=WebSettings(prefix="/flows")))
    ended = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.setblocking(False)
        serving = asyncio.create_task(server.run(make_app(request_client), sock, ended))
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{sock.getsockname()[1]}", trust_env=False) as client:
            page, dags = await client.get("/dags"), await client.get("/api/v1/dags")
        ended.set()
        await serving

    assert '<base href="/flows/">' in page.text
    assert dags.status_code == 200


@pytest.mark.parametrize("prefix", ["flows", "/flows/", "//evil.example", "/a b", "/<script>", "/a\r\nX: 1"])
def test_a_prefix_is_a_plain_path(prefix: str) -> None:
    with pytest.raises(ConfigError, match="prefix"):
        load_settings({"web.prefix": prefix}, environ={})
