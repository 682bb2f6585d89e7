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
from aiosched.web.requests.request_client import RequestClient
from tests.web.logins import PASSWORD, SESSION_COOKIE, client_of, log_in

WEB = WebSettings(auth="password")


@dataclass
class Stolen:
    """Everything that `ann` has, copied, and a second web server that has never seen her."""

    db: Database
    browser: httpx2.AsyncClient  # her own
    cookie: str
    token: str
    login: str  # a token of /auth/token
    servers: tuple[FastAPI, ...]

    async def statuses(self) -> dict[str, set[int]]:
        """What the copies are answered."""
        found: dict[str, set[int]] = {"cookie": set(), "token": set(), "login": set()}
        for app in self.servers:
            async with client_of(app) as thief:
                for kind, token in (("token", self.token), ("login", self.login)):
                    answer = await thief.get("me", headers={"Authorization": f"Bearer {token}"})
                    found[kind].add(answer.status_code)
                thief.cookies.set(SESSION_COOKIE, self.cookie)
                found["cookie"].add((await thief.get("me")).status_code)
        return found

    async def execute(self, statement: str) -> None:
        await self.db.execute(statement)


@pytest.fixture
async def stolen(db: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stolen]:
    monkeypatch.setattr("aiosched.web.auth.accounts.REMEMBERED_SECONDS", 0.0)
    for name in ("ann", "root"):
        await accounts.create_user(db, name, "admin", await hash_password(PASSWORD))
    servers = tuple(make_app(RequestClient(db, Settings(web=WEB))) for _ in range(2))
    async with client_of(servers[0]) as browser:
        await log_in(browser, "ann")
        made = (await browser.post("tokens", json={"label": "ci", "role": "admin"})).json()
        login = new_token()
        await accounts.create_token(db, "ann", accounts.LOGIN_LABEL, hash_token(login), "admin", None)
        found = Stolen(db, browser, browser.cookies[SESSION_COOKIE], made["token"], login, servers)
        assert await found.statuses() == {"cookie": {200}, "token": {200}, "login": {200}}
        yield found


Way = Callable[[Stolen], Awaitable[object]]


async def log_out(stolen: Stolen) -> None:
    assert (await stolen.browser.post("logout")).is_success


async def end_elsewhere(stolen: Stolen) -> None:
    async with client_of(stolen.servers[1]) as other:
        await log_in(other, "ann")
        assert (await other.delete("sessions")).json() == {"ended": 1, "tokens": 1}


async def set_password(app: FastAPI, who: str, **more: object) -> None:
    async with client_of(app) as other:
        await log_in(other, who)
        assert (await other.patch("users/ann", json={"password": "a new password", **more})).is_success
        assert (await other.get("me")).status_code == 200  # it goes on


async def set_password_as_root(stolen: Stolen) -> None:
    await set_password(stolen.servers[1], "root")


async def set_own_password_elsewhere(stolen: Stolen) -> None:
    await set_password(stolen.servers[1], "ann")


async def set_own_password_by_token(stolen: Stolen) -> None:
    """Whoever has the token may do that: it is no proof of who it is."""
    async with client_of(stolen.servers[1]) as program:
        program.headers["Authorization"] = f"Bearer {stolen.token}"
        assert (await program.patch("users/ann", json={"password": "a new password"})).is_success


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


WAYS: dict[str, tuple[Way, int, int, int]] = {
    # what is done, and what the cookie, the token and the one of /auth/token are answered then
    "logout": (log_out, 401, 200, 200),
    "logout from another browser": (end_elsewhere, 401, 200, 401),
    "users log-out": (lambda stolen: web_sessions.end_sessions(stolen.db, "ann"), 401, 200, 401),
    "another password": (lambda stolen: accounts.change_user(stolen.db, "ann", password="x"), 401, 401, 401),
    "another password, and the tokens stay": (
        lambda stolen: accounts.change_user(stolen.db, "ann", password="x", keep_tokens=True), 401, 200, 401,
    ),
    "a password that an administrator sets": (set_password_as_root, 401, 401, 401),
    "the own password, elsewhere": (set_own_password_elsewhere, 401, 200, 401),
    "the own password, by a token": (set_own_password_by_token, 401, 401, 401),
    "another role": (lambda stolen: accounts.change_user(stolen.db, "ann", role="viewer"), 401, 200, 401),
    "disabled": (lambda stolen: accounts.change_user(stolen.db, "ann", is_disabled=True), 401, 401, 401),
    "disabled for a while": (disable_and_enable, 401, 200, 401),
    "deleted": (lambda stolen: accounts.delete_user(stolen.db, "ann"), 401, 401, 401),
    "a namesake": (delete_and_create_again, 401, 401, 401),
    "a namesake that is a service account": (become_a_service, 401, 401, 401),
    "a namesake from a provider": (come_from_a_provider, 401, 401, 401),
    "the session is too old": (
        lambda stolen: stolen.execute("UPDATE web_session SET expires_at = now()"), 401, 200, 200,
    ),
    "nobody has used the session": (
        lambda stolen: stolen.execute("UPDATE web_session SET last_used_at = now() - interval '9 hours'"),
        401, 200, 200,
    ),
    "the token is too old": (lambda stolen: stolen.execute("UPDATE api_token SET expires_at = now()"), 200, 401, 401),
    "the token is revoked": (lambda stolen: accounts.delete_token(stolen.db, 1, None), 200, 401, 200),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_what_was_copied_is_worth_nothing_after_the_end(stolen: Stolen, way: str) -> None:
    end, cookie, token, login = WAYS[way]

    await end(stolen)

    assert await stolen.statuses() == {"cookie": {cookie}, "token": {token}, "login": {login}}


async def test_a_program_that_logs_out_everywhere_else_goes_on(stolen: Stolen) -> None:
    other = new_token()
    await accounts.create_token(stolen.db, "ann", accounts.LOGIN_LABEL, hash_token(other), "admin", None)
    async with client_of(stolen.servers[1]) as program:
        program.headers["Authorization"] = f"Bearer {other}"
        ended = (await program.delete("sessions")).json()
        assert (await program.get("me")).status_code == 200

    assert ended == {"ended": 1, "tokens": 1}
    assert await stolen.statuses() == {"cookie": {401}, "token": {200}, "login": {401}}


async def test_logins_of_others_stay(stolen: Stolen) -> None:
    async with client_of(stolen.servers[1]) as other:
        await log_in(other, "root")
        assert (await other.delete("sessions")).json() == {"ended": 0, "tokens": 0}

    assert await stolen.statuses() == {"cookie": {200}, "token": {200}, "login": {200}}


@pytest.mark.parametrize(
    ("who", "more"), [("root", {}), ("root", {"keep_tokens": True}), ("ann", {}), ("ann", {"keep_tokens": True})]
)
async def test_a_login_of_airflows_api_ends_with_any_new_password(
    stolen: Stolen, who: str, more: dict[str, object]
) -> None:
    """A token of /auth/token stands for the old password."""
    app = make_app(RequestClient(stolen.db, Settings(web=WebSettings(auth="password", airflow_api=True))))
    async with client_of(app) as program:
        login = {"username": "ann", "password": PASSWORD}
        token = (await program.post("https://aiosched.example/auth/token", json=login)).json()["access_token"]
        program.headers["Authorization"] = f"Bearer {token}"
        assert (await program.get("me")).status_code == 200

        await set_password(stolen.servers[0], who, **more)

        assert (await program.get("me")).status_code == 401
    assert (await stolen.statuses())["token"] == ({401} if (who, more) == ("root", {}) else {200})
    detail = await stolen.db.fetchval("SELECT detail::text FROM audit_log WHERE kind = 'user.password'")
    assert "tokens_ended" in detail


async def test_tokens_of_others_stay(stolen: Stolen) -> None:
    await accounts.create_user(stolen.db, "bob", "viewer", await hash_password(PASSWORD))

    await accounts.change_user(stolen.db, "bob", password="x")

    assert await stolen.statuses() == {"cookie": {200}, "token": {200}, "login": {200}}


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
    assert stolen.browser.cookies[SESSION_COOKIE] != stolen.cookie
    assert (await stolen.statuses())["cookie"] == {401}


async def test_a_login_takes_no_session_that_is_brought_to_it(stolen: Stolen) -> None:
    """Session fixation: whoever planted a cookie would be logged in as the next user of that browser."""
    async with client_of(stolen.servers[0]) as browser:
        browser.cookies.set(SESSION_COOKIE, "planted")
        answer = await log_in(browser, "root")

        assert answer.cookies[SESSION_COOKIE] != "planted"
        assert answer.cookies[SESSION_COOKIE] != stolen.cookie


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
