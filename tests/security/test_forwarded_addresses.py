"""Who asks is the other end of the connection, whatever a header says, unless a proxy is trusted."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from aiosched.config import Settings, WebSettings
from aiosched.db.people import accounts
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_password
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server import ports, uvicorn_server
from tests.web.logins import PASSWORD

CLAIMED = {"X-Forwarded-For": "8.8.8.8", "X-Forwarded-Proto": "https"}


@pytest.mark.parametrize(
    ("trusted", "environment", "address"),
    [
        ("", None, "127.0.0.1"), ("10.0.0.0/8", None, "127.0.0.1"), ("127.0.0.1", None, "8.8.8.8"),
        ("10.0.0.1, 127.0.0.0/8", None, "8.8.8.8"), ("", "127.0.0.1", "8.8.8.8"),
        ("10.0.0.1", "127.0.0.1", "127.0.0.1"),
    ],
)  # fmt: skip
async def test_a_header_is_believed_of_trusted_proxies_only(
    db: Database, monkeypatch: pytest.MonkeyPatch, trusted: str, environment: str | None, address: str
) -> None:
    if environment is None:
        monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    else:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", environment)
    await accounts.create_user(db, "ann", "admin", await hash_password(PASSWORD))
    settings = Settings(web=WebSettings(auth="password", trusted_proxies=trusted))
    ended, sock = asyncio.Event(), ports.bind("127.0.0.1", 0)
    serving = asyncio.create_task(uvicorn_server.run(make_app(RequestClient(db, settings)), sock, ended))
    try:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}/api/v1/login"
        async with httpx2.AsyncClient() as client:
            login = {"name": "ann", "password": PASSWORD}
            answer = await client.post(url, json=login, headers=CLAIMED)
            refused = await client.post(url, json=login | {"password": "guess"}, headers=CLAIMED)
    finally:
        ended.set()
        await serving

    assert (answer.status_code, refused.status_code) == (200, 401)
    assert ("Secure" in answer.headers["set-cookie"]) == (address == "8.8.8.8")
    assert ("strict-transport-security" in answer.headers) == (address == "8.8.8.8")
    async with db.acquire() as conn:
        session = await conn.fetchval("SELECT address FROM web_session")
        entries = await conn.fetch("SELECT address FROM audit_log WHERE kind IN ('login', 'login.refused')")
    assert session == address
    assert {row["address"] for row in entries} == {address}
