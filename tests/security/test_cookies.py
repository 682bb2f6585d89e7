"""Over TLS a cookie that another server or an attacker on plain HTTP has planted is not believed."""

from __future__ import annotations

from http.cookies import SimpleCookie

import httpx2
import pytest
from fastapi import FastAPI, Request

from aiosched.config import Settings, WebSettings
from aiosched.db.people import accounts
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth import cookies
from aiosched.web.auth.passwords import hash_password
from aiosched.web.requests.request_client import RequestClient
from tests.web.logins import PASSWORD, SESSION_COOKIE, log_in


@pytest.fixture
async def app(db: Database) -> FastAPI:
    for name in ("ann", "eve"):
        await accounts.create_user(db, name, "viewer", await hash_password(PASSWORD))
    return make_app(RequestClient(db, Settings(web=WebSettings(auth="password", airflow_api=True))))


def browser_of(app: FastAPI, address: str = "https://aiosched.example", prefix: str = "") -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app, root_path=prefix)
    return httpx2.AsyncClient(transport=transport, base_url=f"{address}{prefix}/api/v1/")


def set_by(answer: httpx2.Response) -> dict[str, dict[str, str]]:
    """The attributes of the cookies that an answer sets, by their names."""
    found: SimpleCookie = SimpleCookie()
    for header in answer.headers.get_list("set-cookie"):
        found.load(header)
    return {name: {key: str(value) for key, value in one.items() if value} for name, one in found.items()}


@pytest.mark.parametrize("prefix", ["", "/flows"])
async def test_over_tls_all_cookies_are_of_this_host_alone(app: FastAPI, prefix: str) -> None:
    async with browser_of(app, prefix=prefix) as browser:
        answer = await log_in(browser, "ann")
        me = await browser.get("me")
        elsewhere = await browser.get(f"https://aiosched.example{prefix}/api/v2/dags")  # mounted in the application
        out = await browser.post("logout")
        after = await browser.get("me")

    assert elsewhere.status_code == 200
    assert (me.json()["name"], after.status_code) == ("ann", 401)
    assert len(set_by(answer)) == 2  # the session, and that the browser is known
    for name, said in (*set_by(answer).items(), *set_by(out).items()):
        assert name.startswith("__Host-aiosched_"), name
        assert (said["path"], said["secure"], said["httponly"], said["samesite"]) == ("/", "True", "True", "lax"), name
        assert "domain" not in said, name


async def test_over_plain_http_cookies_are_kept_too(app: FastAPI) -> None:
    async with browser_of(app, "http://127.0.0.1:8484") as browser:
        answer = await log_in(browser, "ann")
        assert (await browser.get("me")).json()["name"] == "ann"

    assert set(set_by(answer)) == {cookies.SESSION, cookies.DEVICE}
    assert all("secure" not in said for said in set_by(answer).values())


async def test_a_planted_cookie_is_not_believed_alone_or_beside_the_other(app: FastAPI) -> None:
    """A neighbour under the same domain sets a session of its own user: its victim would work in that one's name."""
    async with browser_of(app, "http://127.0.0.1:8484") as attacker, browser_of(app) as victim:
        await log_in(attacker, "eve")
        planted = f"{cookies.SESSION}={attacker.cookies[cookies.SESSION]}"
        alone = await victim.get("me", headers={"Cookie": planted})
        await log_in(victim, "ann")
        own = f"{SESSION_COOKIE}={victim.cookies[SESSION_COOKIE]}"
        beside = [await victim.get("me", headers={"Cookie": f"{a}; {b}"}) for a, b in ((planted, own), (own, planted))]
        ends = await victim.post("logout", headers={"Cookie": planted})
        of_attacker = await attacker.get("me")

    assert (alone.status_code, ends.status_code, of_attacker.status_code) == (401, 200, 200)
    assert [answer.json()["name"] for answer in beside] == ["ann", "ann"]


async def test_a_cookie_of_a_release_before_is_deleted_with_the_next_login(app: FastAPI) -> None:
    async with browser_of(app) as browser:
        browser.cookies.set(cookies.SESSION, "of before", domain="aiosched.example")
        answer = await log_in(browser, "ann")

    assert set_by(answer)[cookies.SESSION]["max-age"] == "0"
    assert cookies.SESSION not in browser.cookies


async def test_servers_under_different_prefixes_of_one_host_do_not_log_each_other_out(app: FastAPI) -> None:
    async with browser_of(app, prefix="/sales") as sales, browser_of(app, prefix="/research") as research:
        of_sales, of_research = await log_in(sales, "ann"), await log_in(research, "ann")

    assert not set(set_by(of_sales)) & set(set_by(of_research))


async def test_a_known_browser_and_a_begun_login_cannot_be_planted_either(app: FastAPI) -> None:
    accounts_of_app = app.state.authenticator
    sealed = (await accounts_of_app._sign()).seal_device("ann")
    scope = {"type": "http", "scheme": "https", "path": "/", "server": ("aiosched.example", 443), "query_string": b""}
    for name in (cookies.DEVICE, cookies.FLOW, cookies.ID, cookies.SESSION):
        planted = [(b"host", b"aiosched.example"), (b"cookie", f"{name}={sealed}".encode())]
        request = Request({**scope, "headers": planted})
        assert cookies.read_cookie(request, name) is None
