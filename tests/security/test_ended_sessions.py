"""What has ended is over: the cookie and the token of a user, after each way of ending them, on every web server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import Settings, WebSettings
from aiosched.db.people import accounts, identities, web_sessions
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_password, hash_token, new_token
from aiosched.web.auth.sessions import COOKIE
from aiosched.web.requests.request_client import RequestClient
from tests.web.logins import PASSWORD, client_of, log_in

WEB = WebSettings(auth="password")


@dataclass
class Stolen:
    """Everything that `ann` has, copied, and a second web server that has never seen her."""

    db: Database
    browser: httpx2.AsyncClient  # her own
    cookie: str
    token: str
    servers: tuple[FastAPI, ...]

    async def statuses(self) -> dict[str, set[int]]:
        """What the copies are answered."""
        found: dict[str, set[int]] = {"cookie": set(), "token": set()}
        for app in self.servers:
            async with client_of(app) as thief:
                found["token"].add(
                    (await thief.get("me", headers={"Authorization": f"Bearer {self.token}"})).status_code
                )
                thief.cookies.set(COOKIE, self.cookie)
                found["cookie"].add((await thief.get("me")).status_code)
        return found

    async def execute(self, statement: str) -> None:
        async with self.db.acquire() as conn:
            await conn.execute(statement)


@pytest.fixture
async def stolen(db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stolen]:
    monkeypatch.setattr("aiosched.web.auth.accounts.REMEMBERED_SECONDS", 0.0)
    for name in ("ann", "root"):
        await accounts.create_user(db, name, "admin", await hash_password(PASSWORD))
    servers = tuple(make_app(RequestClient(db, Settings(web=WEB))) for _ in range(2))
    async with client_of(servers[0]) as browser:
        await log_in(browser, "ann")
        made = (await browser.post("tokens", json={"label": "ci", "role": "admin"})).json()
        found = Stolen(db, browser, browser.cookies[COOKIE], made["token"], servers)
        assert await found.statuses() == {"cookie": {200}, "token": {200}}
        yield found


Way = Callable[[Stolen], Awaitable[object]]


async def log_out(stolen: Stolen) -> None:
    assert (await stolen.browser.post("logout")).is_success


async def end_elsewhere(stolen: Stolen) -> None:
    async with client_of(stolen.servers[1]) as other:
        await log_in(other, "ann")
        assert (await other.delete("sessions")).json() == {"ended": 1}


async def delete_and_create_again(stolen: Stolen) -> None:
    await accounts.delete_user(stolen.db, "ann")
    await accounts.create_user(stolen.db, "ann", "admin", await hash_password(PASSWORD))


async def disable_and_enable(stolen: Stolen) -> None:
    await accounts.change_user(stolen.db, "ann", is_disabled=True)
    await accounts.change_user(stolen.db, "ann", is_disabled=False)


async def become_a_service(stolen: Stolen) -> None:
    await accounts.delete_user(stolen.db, "ann")
    await accounts.create_user(stolen.db, "ann", "admin", None, kind="service")


async def come_from_a_provider(stolen: Stolen) -> None:
    await accounts.delete_user(stolen.db, "ann")
    await identities.admit(
        stolen.db, identities.ProvidedIdentity("https://id.example", "1"), "ann", identities.ProvidedRights("admin")
    )


WAYS: dict[str, tuple[Way, int, int]] = {
    # what is done, and what the cookie and the token are answered then
    "logout": (log_out, 401, 200),
    "logout from another browser": (end_elsewhere, 401, 200),
    "users log-out": (lambda stolen: web_sessions.end_sessions(stolen.db, "ann"), 401, 200),
    "another password": (lambda stolen: accounts.change_user(stolen.db, "ann", password="x"), 401, 200),
    "another role": (lambda stolen: accounts.change_user(stolen.db, "ann", role="viewer"), 401, 200),
    "disabled": (lambda stolen: accounts.change_user(stolen.db, "ann", is_disabled=True), 401, 401),
    "disabled for a while": (disable_and_enable, 401, 200),
    "deleted": (lambda stolen: accounts.delete_user(stolen.db, "ann"), 401, 401),
    "a namesake": (delete_and_create_again, 401, 401),
    "a namesake that is a service account": (become_a_service, 401, 401),
    "a namesake from a provider": (come_from_a_provider, 401, 401),
    "the session is too old": (lambda stolen: stolen.execute("UPDATE web_session SET expires_at = now()"), 401, 200),
    "nobody has used the session": (
        lambda stolen: stolen.execute("UPDATE web_session SET last_used_at = now() - interval '9 hours'"), 401, 200,
    ),
    "the token is too old": (lambda stolen: stolen.execute("UPDATE api_token SET expires_at = now()"), 200, 401),
    "the token is revoked": (lambda stolen: accounts.delete_token(stolen.db, 1, None), 200, 401),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_what_was_copied_is_worth_nothing_after_the_end(stolen: Stolen, way: str) -> None:
    end, cookie, token = WAYS[way]

    await end(stolen)

    assert await stolen.statuses() == {"cookie": {cookie}, "token": {token}}


async def test_another_role_reaches_the_tokens(stolen: Stolen) -> None:
    await accounts.change_user(stolen.db, "ann", role="viewer")

    for app in stolen.servers:
        async with client_of(app) as program:
            program.headers["Authorization"] = f"Bearer {stolen.token}"
            assert (await program.get("users")).json()["code"] == "role-too-low"


async def test_a_login_does_not_bring_back_what_has_ended(stolen: Stolen) -> None:
    await log_out(stolen)
    answer = await log_in(stolen.browser, "ann")

    assert answer.status_code == 200
    assert stolen.browser.cookies[COOKIE] != stolen.cookie
    assert (await stolen.statuses())["cookie"] == {401}


async def test_a_login_takes_no_session_that_is_brought_to_it(stolen: Stolen) -> None:
    """Session fixation: whoever planted a cookie would be logged in as the next user of that browser."""
    async with client_of(stolen.servers[0]) as browser:
        browser.cookies.set(COOKIE, "planted")
        answer = await log_in(browser, "root")

        assert answer.cookies[COOKIE] != "planted"
        assert answer.cookies[COOKIE] != stolen.cookie


async def test_the_csrf_token_of_an_ended_session_is_worth_nothing(stolen: Stolen) -> None:
    old = stolen.browser.headers["X-CSRF-Token"]
    await log_out(stolen)
    await log_in(stolen.browser, "ann")
    stolen.browser.headers["X-CSRF-Token"] = old

    assert (await stolen.browser.post("tokens", json={"label": "x"})).json()["code"] == "csrf"


async def test_tokens_of_people_of_a_provider_end_without_a_login_but_not_those_of_services(
    stolen: Stolen,
) -> None:
    tokens = {name: new_token() for name in ("bob", "robot")}
    await identities.admit(
        stolen.db, identities.ProvidedIdentity("https://id.example", "1"), "bob", identities.ProvidedRights("viewer")
    )
    await accounts.create_user(stolen.db, "robot", "viewer", None, kind="service")
    for name, token in tokens.items():
        await accounts.create_token(stolen.db, name, "ci", hash_token(token), "viewer", None)
    await stolen.execute("UPDATE web_user SET last_login_at = now() - interval '31 days'")

    async with client_of(stolen.servers[0]) as program:
        statuses = {
            name: (await program.get("me", headers={"Authorization": f"Bearer {token}"})).status_code
            for name, token in tokens.items()
        }

    assert statuses == {"bob": 401, "robot": 200}
