"""Logging in: passwords, sessions, tokens, roles; what is forged, guessed or over is refused."""

from __future__ import annotations

import asyncio
import re
from typing import Literal

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import Settings, WebSettings
from aiosched.db.people import accounts, identities
from aiosched.db.server.engine import Database
from aiosched.errors import ConfigError, Refused
from aiosched.web.app import make_app
from aiosched.web.auth import passwords
from aiosched.web.auth.access import role_of, rule_of
from aiosched.web.auth.accounts import Accounts
from aiosched.web.auth.passwords import hash_password, hash_token, new_token, verify_password
from aiosched.web.requests import request_client
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server.ports import check_exposure
from tests.patience import PATIENCE
from tests.web.logins import PASSWORD, SESSION_COOKIE, client_of, log_in
from tests.web.test_access import routes

# ---- sessions ----


async def test_a_hash_of_a_password_takes_32_mb_and_an_unknown_name_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # tests hash fast
    costs: list[int] = []
    monkeypatch.setattr(passwords.hashlib, "scrypt", lambda _, n, r, **__: costs.append(128 * n * r) or bytes(32))

    stored = await hash_password(PASSWORD)
    await verify_password(PASSWORD, stored)
    await verify_password(PASSWORD, None)

    assert costs == [2**25] * 3


async def test_without_a_login_nothing_is_told(browser: httpx2.AsyncClient) -> None:
    answer = await browser.get("dags")

    assert (answer.status_code, answer.json()["code"]) == (401, "login-needed")


@pytest.mark.parametrize(
    "path", ["dags", "dags/d/runs/r/tasks/t/logs/1", "dags/d/runs/r/tasks/t/xcom/k/content", "audit"]
)
async def test_who_opens_an_address_without_a_login_gets_the_login_page_and_clients_get_401(
    browser: httpx2.AsyncClient, path: str
) -> None:
    opened = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}

    page = await browser.get(path, headers=opened)
    script = await browser.get(path, headers={"Accept": "application/json"})
    client = await browser.get(path)
    change = await browser.post("dags/d/runs", json={}, headers=opened)
    await log_in(browser, "viewer")
    inside = await browser.get("dags", headers=opened)

    assert (page.status_code, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert 'data-status="401"' in page.text
    assert [(one.status_code, one.json()["code"]) for one in (script, client)] == [(401, "login-needed")] * 2
    assert change.headers["content-type"] == "application/problem+json"
    assert inside.json()["items"] == []


async def test_a_person_logs_in_and_out(browser: httpx2.AsyncClient) -> None:
    cookie = (await log_in(browser, "viewer")).headers["set-cookie"]
    inside = await browser.get("me")
    await browser.post("logout")
    outside = await browser.get("me")

    assert {"HttpOnly", "Secure", "SameSite=lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert (inside.json()["name"], inside.json()["role"], inside.json()["login"]) == ("viewer", "viewer", "password")
    assert outside.status_code == 401


@pytest.mark.parametrize(
    ("name", "password"),
    [("viewer", "wrong password"), ("nobody", PASSWORD), ("view\0er", PASSWORD), ("viewer", "\ud800")],
)
async def test_a_wrong_login_says_no_more_than_that(browser: httpx2.AsyncClient, name: str, password: str) -> None:
    content = b'{"name": %s, "password": %s}' % (ascii_json(name), ascii_json(password))

    answer = await browser.post("login", content=content, headers={"content-type": "application/json"})

    assert answer.status_code in (401, 422)
    assert answer.json()["code"] in ("wrong-login", "unusable-request")


def ascii_json(text: str) -> bytes:
    return ('"' + "".join(f"\\u{ord(c):04x}" for c in text) + '"').encode()


async def test_another_password_or_role_ends_the_sessions(
    db: Database, browser: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.web.auth.accounts.REMEMBERED_SECONDS", 0.0)
    await log_in(browser, "operator")
    before = await browser.get("dags")

    await accounts.change_user(db, "operator", role="viewer")

    assert before.status_code == 200
    assert (await browser.get("dags")).status_code == 401


async def test_a_disabled_person_is_outside(
    db: Database, browser: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.web.auth.accounts.REMEMBERED_SECONDS", 0.0)
    await log_in(browser, "operator")

    await accounts.change_user(db, "operator", is_disabled=True)

    assert (await browser.get("dags")).status_code == 401
    assert (await log_in(browser, "operator")).status_code == 401


async def test_a_change_needs_the_token_of_the_session(browser: httpx2.AsyncClient) -> None:
    await log_in(browser, "admin")
    wish = {"name": "eve", "role": "viewer", "password": PASSWORD}
    del browser.headers["X-CSRF-Token"]

    refused = await browser.post("users", json=wish)
    told = (await browser.get("me")).json()["csrf"]
    done = await browser.post("users", json=wish, headers={"X-CSRF-Token": told})

    assert (refused.status_code, refused.json()["code"]) == (403, "csrf")
    assert done.status_code == 201


@pytest.mark.parametrize("cookie", ["", "x", "a" * 4000, '{"name":"admin"}', "; drop"])
async def test_a_made_up_cookie_is_no_session(browser: httpx2.AsyncClient, cookie: str) -> None:
    browser.cookies.set(SESSION_COOKIE, cookie)

    assert (await browser.get("me")).status_code == 401


async def test_logging_out_ends_the_session_itself(browser: httpx2.AsyncClient, guarded: FastAPI) -> None:
    """A cookie that somebody has copied is worth nothing then."""
    await log_in(browser, "viewer")
    copied = browser.cookies[SESSION_COOKIE]
    await browser.post("logout")

    async with client_of(guarded) as thief:
        thief.cookies.set(SESSION_COOKIE, copied)
        assert (await thief.get("me")).status_code == 401


async def test_a_namesake_of_a_deleted_user_does_not_get_the_sessions(
    db: Database, browser: httpx2.AsyncClient, guarded: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.web.auth.accounts.REMEMBERED_SECONDS", 0.0)
    await log_in(browser, "viewer")

    await accounts.delete_user(db, "viewer")
    await accounts.create_user(db, "viewer", "admin", await hash_password(PASSWORD))

    assert (await browser.get("me")).status_code == 401


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ("last_used_at = now() - interval '7 hours'", 200),
        ("last_used_at = now() - interval '9 hours'", 401),  # nobody has used it for longer than it may be idle
        ("expires_at = now()", 401),
    ],
)
async def test_a_session_ends_by_itself(
    db: Database, browser: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, change: str, status: int
) -> None:
    monkeypatch.setattr("aiosched.web.auth.accounts.REMEMBERED_SECONDS", 0.0)
    await log_in(browser, "viewer")
    await db.execute(f"UPDATE web_session SET {change}")

    assert (await browser.get("me")).status_code == status
    assert (await browser.get("me")).status_code == status


async def test_people_see_and_end_their_sessions(guarded: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiosched.web.auth.accounts.REMEMBERED_SECONDS", 0.0)
    async with client_of(guarded) as here, client_of(guarded) as there, client_of(guarded) as third:
        for browser, agent in ((here, "Laptop"), (there, "Phone\tx"), (third, "Kiosk")):
            await log_in(browser, "viewer")
            browser.headers["User-Agent"] = agent
            await log_in(browser, "viewer")
        items = (await here.get("sessions")).json()["items"]
        phone = next(one for one in items if one["agent"] == "Phonex")
        assert [one["agent"] for one in items if one["is_current"]] == ["Laptop"]
        assert {one["user"] for one in items} == {"viewer"}

        assert (await here.delete(f"sessions/{phone['id']}")).status_code == 204
        assert [(await each.get("me")).status_code for each in (here, there, third)] == [200, 401, 200]
        assert (await here.delete("sessions")).json()["ended"] == 4
        assert [(await each.get("me")).status_code for each in (here, there, third)] == [200, 401, 401]


async def test_nobody_sees_or_ends_sessions_of_others_but_administrators(
    browser: httpx2.AsyncClient, guarded: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.web.auth.accounts.REMEMBERED_SECONDS", 0.0)
    async with client_of(guarded) as admin:
        await log_in(admin, "admin")
        (mine,) = (await admin.get("sessions")).json()["items"]
        await log_in(browser, "viewer")

        assert (await browser.get("sessions", params={"user": "admin"})).status_code == 403
        assert (await browser.delete("sessions", params={"user": "admin"})).status_code == 403
        assert (await browser.delete(f"sessions/{mine['id']}")).status_code == 404
        assert (await admin.get("sessions", params={"user": "viewer"})).json()["items"][0]["user"] == "viewer"
        assert (await admin.delete("sessions", params={"user": "viewer"})).json() == {"ended": 1, "tokens": 0}
        assert (await browser.get("me")).status_code == 401
        assert (await admin.get("me")).status_code == 200


async def test_a_session_that_begins_removes_what_is_over(db: Database, browser: httpx2.AsyncClient) -> None:
    await log_in(browser, "viewer")
    await db.execute("UPDATE web_session SET expires_at = now()")
    await log_in(browser, "viewer")

    assert await db.fetchval("SELECT count(*) FROM web_session") == 1


async def test_a_stream_ends_when_its_user_is_disabled(
    db: Database, guarded: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.web.auth.accounts.REMEMBERED_SECONDS", 0.0)
    monkeypatch.setattr("aiosched.web.views.live.ASK_SECONDS", 0.02)
    async with client_of(guarded) as browser:
        await log_in(browser, "viewer")
        asking = asyncio.create_task(browser.get("stream"))  # ends with the stream
        hub = guarded.state.hub
        async with asyncio.timeout(PATIENCE):
            await hub.listening.wait()
            await accounts.change_user(db, "viewer", is_disabled=True)
            assert (await asking).status_code == 200
    hub.close()


# ---- tokens ----


async def test_a_token_stands_for_its_owner_with_its_own_role(browser: httpx2.AsyncClient, guarded: FastAPI) -> None:
    await log_in(browser, "operator")
    made = (await browser.post("tokens", json={"label": "ci", "role": "viewer"})).json()

    async with client_of(guarded) as program:
        program.headers["Authorization"] = f"Bearer {made['token']}"
        me = await program.get("me")
        denied = await program.get("users")

    assert (me.json()["name"], me.json()["role"]) == ("operator", "viewer")
    assert denied.status_code == 403
    assert (await browser.get("tokens")).json()["items"][0]["last_used_at"] is not None


async def test_a_token_makes_no_other(browser: httpx2.AsyncClient, guarded: FastAPI) -> None:
    """One of fifteen minutes made one that never ended."""
    await log_in(browser, "admin")
    made = (await browser.post("tokens", json={"label": "ci", "role": "admin", "days": 0.01})).json()

    async with client_of(guarded) as program:
        program.headers["Authorization"] = f"Bearer {made['token']}"
        refused = await program.post("tokens", json={"label": "more", "role": "admin", "days": None})

    assert (refused.status_code, refused.json()["code"]) == (403, "login-needed")


async def test_tokens_of_people_of_a_provider_end_without_a_login(db: Database, browser: httpx2.AsyncClient) -> None:
    """Only a login tells which groups somebody still has."""
    token = new_token()
    await identities.admit(
        db, identities.ProvidedIdentity("https://id.example", "1"), "ann", identities.ProvidedRights("operator")
    )
    await accounts.create_token(db, "ann", "ci", hash_token(token), "operator", None)
    headers = {"Authorization": f"Bearer {token}"}
    before = await browser.get("me", headers=headers)
    await db.execute("UPDATE web_user SET last_login_at = now() - interval '31 days'")

    assert (before.status_code, (await browser.get("me", headers=headers)).status_code) == (200, 401)


async def test_a_token_cannot_be_more_than_its_owner(db: Database, browser: httpx2.AsyncClient) -> None:
    await log_in(browser, "viewer")
    token = new_token()
    await accounts.create_token(db, "viewer", "made elsewhere", hash_token(token), "admin", None)

    refused = await browser.post("tokens", json={"label": "ci", "role": "admin"})
    browser.cookies.clear()
    me = await browser.get("me", headers={"Authorization": f"Bearer {token}"})

    assert refused.status_code == 409
    assert me.json()["role"] == "viewer"


@pytest.mark.parametrize("header", ["Bearer nonsense", "Bearer ", "Basic dXNlcjpwYXNz", "Bearer \udcff"])
async def test_a_wrong_token_is_refused(browser: httpx2.AsyncClient, header: str) -> None:
    answer = await browser.get("me", headers=[(b"Authorization", header.encode("utf-8", "surrogateescape"))])

    assert (answer.status_code, answer.json()["code"]) == (401, "wrong-token")


async def test_a_revoked_or_expired_token_is_refused(db: Database, browser: httpx2.AsyncClient) -> None:
    await log_in(browser, "viewer")
    made = (await browser.post("tokens", json={"label": "ci"})).json()
    old = (await browser.post("tokens", json={"label": "old"})).json()
    await db.execute("UPDATE api_token SET expires_at = now() WHERE id = $1", old["facts"]["id"])
    gone = await browser.delete(f"tokens/{made['facts']['id']}")
    browser.cookies.clear()

    assert gone.status_code == 204
    for token in (made["token"], old["token"]):
        assert (await browser.get("me", headers={"Authorization": f"Bearer {token}"})).status_code == 401


async def test_nobody_revokes_the_tokens_of_others_but_administrators(
    db: Database, browser: httpx2.AsyncClient
) -> None:
    token = await accounts.create_token(db, "operator", "ci", hash_token("t"), "viewer", None)
    await log_in(browser, "viewer")
    refused = await browser.delete(f"tokens/{token.id}")
    await log_in(browser, "admin")

    assert refused.status_code == 404
    assert (await browser.delete(f"tokens/{token.id}")).status_code == 204


# ---- roles ----


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
async def test_every_route_is_open_to_exactly_the_roles_that_it_names(
    guarded: FastAPI, browser: httpx2.AsyncClient, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_client, "ANSWER_SECONDS", 0.0)  # no scheduler runs here
    await log_in(browser, role)
    wrong = []
    for route in routes(guarded):
        rule = rule_of(route.endpoint)
        assert rule is not None
        if rule.scope is None or route.path in ("/stream",):
            continue
        path = re.sub(r"[{}]|:path", "", route.path.lstrip("/"))
        for method in route.methods or ():
            answer = await browser.request(method, path, json={})
            denied = answer.status_code == 403 and answer.json()["code"] == "role-too-low"
            if denied != (role_of(role) < rule.role):
                wrong.append(f"{method} {path}: {answer.status_code}")

    assert wrong == []


async def test_the_last_administrator_stays(db: Database, browser: httpx2.AsyncClient) -> None:
    await log_in(browser, "admin")

    answers = [
        await browser.delete("users/admin"),
        await browser.patch("users/admin", json={"role": "viewer"}),
        await browser.patch("users/admin", json={"is_disabled": True}),
    ]

    assert [answer.status_code for answer in answers] == [409, 409, 409]
    assert (await browser.delete("users/viewer")).status_code == 204


# ---- addresses ----


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "scheduler.example"])
def test_an_address_that_others_reach_needs_a_word_about_logging_in(host: str) -> None:
    with pytest.raises(ConfigError, match=r"web\.auth is not set"):
        check_exposure(WebSettings(host=host))

    check_exposure(WebSettings(host=host, auth="password"))
    check_exposure(WebSettings(host=host, auth="none"))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_an_address_of_this_machine_needs_none(host: str) -> None:
    check_exposure(WebSettings(host=host))


async def test_the_first_user_of_a_container_is_made_once(db: Database) -> None:
    settings = Settings(web=WebSettings(auth="password", admin_password=PASSWORD))
    for _ in range(2):
        app = make_app(RequestClient(db, settings))
        async with app.router.lifespan_context(app):
            pass

    (user,) = await accounts.list_users(db)
    assert (user.name, user.role) == ("admin", "admin")


async def test_without_a_chosen_password_the_log_tells_the_first_user_of_one_that_works(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    accounts_of_server = Accounts(db, WebSettings(auth="password"))
    for _ in range(2):
        await accounts_of_server.start()

    (told,) = [record.getMessage() for record in caplog.records if record.name == "aiosched.web.auth.accounts"]
    password = told.split("password ")[1].split(";")[0]
    stored = await accounts.read_login(db, "admin")
    assert stored is not None
    assert await verify_password(password, stored.password)


@pytest.mark.parametrize("auth", ["oidc", "none"])
async def test_nobody_is_made_where_people_do_not_log_in_by_password(
    db: Database, auth: Literal["oidc", "none"]
) -> None:
    await Accounts(db, WebSettings(auth=auth)).start()

    assert await accounts.list_users(db) == []


# ---- passwords ----


async def test_a_password_is_told_from_another_and_from_none() -> None:
    stored = await hash_password(PASSWORD)

    assert stored != await hash_password(PASSWORD)
    assert await verify_password(PASSWORD, stored)
    assert not await verify_password("other", stored)
    assert not await verify_password(PASSWORD, None)


@pytest.mark.parametrize("password", ["short", "x" * 1001, "with\0nul char"])
async def test_unusable_passwords_are_refused(db: Database, password: str) -> None:
    from aiosched.web.auth.passwords import check_password

    with pytest.raises(Refused):
        check_password(password)
