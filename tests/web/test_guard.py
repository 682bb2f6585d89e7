"""What every request goes through: names, foreign pages, sizes, and headers that keep browsers safe."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import Settings, WebSettings
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server.guard import MOST_BODY


async def test_without_a_login_only_names_of_this_machine_are_answered(api: httpx2.AsyncClient) -> None:
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "10.0.0.1"):
        answer = await api.get("dags", headers={"Host": host})

        assert (host, answer.status_code, answer.json()["code"]) == (host, 421, "wrong-host")


@pytest.mark.parametrize(
    ("auth", "address", "allowed", "listens", "status"),
    [
        ("none", "127.0.0.1", "", True, 421),  # a name that leads to this machine, of a site that somebody visits
        ("none", "::1", "", True, 421),
        ("none", "127.0.0.1", "evil.example", True, 200),
        ("none", "0.0.0.0", "", True, 421),
        ("none", "0.0.0.0", "other, Evil.Example", True, 200),
        ("none", "127.0.0.1", "", False, 200),  # mounted in an application, which sees to it
        (None, "127.0.0.1", "", False, 421),
    ],
)
async def test_a_server_without_a_login_at_a_loopback_address_answers_to_its_own_names(
    db: Database, auth: Literal["none"] | None, address: str, allowed: str, listens: bool, status: int
) -> None:
    settings = Settings(web=WebSettings(auth=auth, host=address, allowed_hosts=allowed))
    app = make_app(RequestClient(db, settings), listens=listens)
    transport = httpx2.ASGITransport(app=app)

    async with httpx2.AsyncClient(transport=transport, base_url="http://evil.example") as client:
        assert (await client.get("/api/v1/dags")).status_code == status


async def test_names_of_this_machine_are_answered(api: httpx2.AsyncClient) -> None:
    for host in ("localhost", "localhost:8484", "127.0.0.1:1", "[::1]:8484", "LOCALHOST"):
        assert (host, (await api.get("dags", headers={"Host": host})).status_code) == (host, 200)


async def test_more_names_are_a_setting(db: Database) -> None:
    app = make_app(RequestClient(db, Settings(web=WebSettings(allowed_hosts="flows.example, other"))))
    transport = httpx2.ASGITransport(app=app)

    async with httpx2.AsyncClient(transport=transport, base_url="http://flows.example") as client:
        assert (await client.get("/api/v1/dags")).status_code == 200


async def test_a_page_of_another_site_changes_nothing(api: httpx2.AsyncClient) -> None:
    for name, value in (
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://localhost:1"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ):
        answer = await api.post("tokens", json={"label": "x"}, headers={name: value})

        assert (value, answer.status_code, answer.json()["code"]) == (value, 403, "cross-site")


async def test_our_own_page_and_programs_may(api: httpx2.AsyncClient) -> None:
    ours: tuple[dict[str, str], ...] = ({}, {"Origin": "http://localhost"}, {"Sec-Fetch-Site": "same-origin"})
    for headers in ours:
        answer = await api.post("logout", headers=headers)

        assert (headers, answer.status_code) == (headers, 200)


async def test_a_body_has_a_largest_size(api: httpx2.AsyncClient) -> None:
    async def stream() -> AsyncIterator[bytes]:
        for _ in range(MOST_BODY // 65_536 + 1):
            yield b" " * 65_536

    told = await api.post("login", content=b" " * (MOST_BODY + 1), headers={"content-type": "application/json"})
    streamed = await api.post("login", content=stream(), headers={"content-type": "application/json"})

    assert (told.status_code, streamed.status_code) == (413, 413)


async def test_every_answer_keeps_browsers_safe(api: httpx2.AsyncClient) -> None:
    for path in ("/", "/dags/x", "/ui/app.js", "/api/v1/dags", "/api/v1/nothing", "/livez"):
        headers = (await api.get(f"http://localhost{path}")).headers

        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "script-src 'self';" in policy, path
        assert "unsafe" not in policy, path
        assert (path, headers["x-content-type-options"]) == (path, "nosniff")
        assert (path, headers["x-frame-options"]) == (path, "DENY")


async def test_no_file_outside_of_the_ui_is_served(api: httpx2.AsyncClient) -> None:
    for path in (
        "../access.py",
        "%2e%2e/access.py",
        "..%2faccess.py",
        "vendor/../../access.py",
        "%2fetc/passwd",
        "nothing.js",
        "",
        "a%00b",
        "a" * 300,
    ):
        answer = await api.get(httpx2.URL("http://localhost", raw_path=f"/ui/{path}".encode()))

        assert "from __future__" not in answer.text, path
        assert "root:" not in answer.text, path
        assert answer.status_code in (404, 200), path
        assert answer.status_code == 404 or answer.headers["content-type"].startswith("text/html"), path


async def test_a_page_knows_the_prefix_that_it_is_mounted_under(app: FastAPI) -> None:
    transport = httpx2.ASGITransport(app=app, root_path='/flows"><script>')

    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        text = (await client.get("/dags")).text

    assert '<base href="/flows&quot;&gt;&lt;script&gt;/">' in text
